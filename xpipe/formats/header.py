"""Header lines of sparse text, the sizes they promise, and the errors of sizes that are missing or wrong.

Holds no reading of files: it gets the first line.
"""

from __future__ import annotations

import re

from xpipe.errors import DataError
from xpipe.formats.source import TextSource

LONGEST = 1 << 16  # bytes looked at to find the header
WIDEST = 2**31 - 1  # indices are int32
NAMES = {"xmc": ("n_rows", "n_features", "n_labels"), "sparse": ("n_rows", "n_features")}
SPOKEN = {"n_rows": "n_samples", "n_features": "n_features", "n_labels": "n_labels"}
LOOKS = {
    1: "one number: it may be a list of group ids or names",
    2: "two numbers `n_rows n_columns` begin a split file: read it with read_sparse",
    3: "three numbers `n_samples n_features n_labels` begin XMC text: read it with read_xmc",
    4: "four numbers begin no format known here; XMC text has three `n_samples n_features n_labels`, a split file two",
}


def parse_header(path: str, kind: str, line: bytes) -> dict[str, int | None]:
    """The sizes in a header line, by name. Raises DataError for a line that is not a header."""
    names = NAMES.get(kind)
    if names is None:
        raise DataError(f"{kind} files have no header", where=path, fix="header=False with n_features and n_labels")
    numbers = line.split()
    if len(numbers) == len(names) and all(re.fullmatch(rb"\d{1,15}", number) for number in numbers):
        return dict(zip(names, (int(number) for number in numbers), strict=True))
    shown = line[:60].decode("utf-8", "backslashreplace").rstrip("\r")
    wanted = "`n_samples n_features n_labels`" if kind == "xmc" else "`n_rows n_columns`"
    if all(re.fullmatch(rb"[-+]?\d+", number) for number in numbers) and numbers:
        why = LOOKS.get(len(numbers), f"{len(numbers)} numbers begin no format known here")
        if len(numbers) == len(names):
            why = "the three numbers must be whole and not negative" if kind == "xmc" else "both must not be negative"
    elif b":" in line:
        why = "the first line looks like a sample: the file may have no header"
    elif not numbers:
        why = "the first line is blank"
    else:
        why = "it is not a line of whole numbers"
    raise DataError(
        f"the header must be {wanted}",
        where=f"{path}:1, found {shown!r}",
        why=why,
        fix=f"add the header, or use header=False with {_width(kind)}" + (" and n_labels" if kind == "xmc" else ""),
    )


def check_agreement(path: str, found: dict[str, int | None], given: dict[str, int | None]) -> None:
    """Raise DataError where the header and the sizes given by the caller differ."""
    for name, size in found.items():
        asked = given[name]
        if asked is not None and asked != size:
            raise DataError(
                f"the header says {SPOKEN[name]} = {size:,}, you say {asked:,}",
                where=f"{path}:1",
                fix="leave the argument out to believe the header, or correct one of them",
            )


def check_widths(source: TextSource) -> None:
    """Raise DataError for widths that int32 indices cannot hold."""
    for name, width in (("n_features", source.n_features), ("n_labels", source.n_labels)):
        if not 0 <= width <= WIDEST:
            raise DataError(
                f"{name} = {width:,} is not possible",
                where=source.name,
                why=f"indices are int32: at most {WIDEST:,}",
                fix="correct the header or the argument",
            )


def check_rows(source: TextSource, most_bytes: int) -> None:
    """Raise DataError where the promised rows cannot fit: each takes a byte. most_bytes: of the unpacked text."""
    if source.n_rows is not None and source.n_rows > most_bytes:
        raise DataError(
            f"{source.n_rows:,} rows cannot be in a file of {source.size:,} bytes",
            where=f"{source.name}:1" if source.first_line > 1 else source.name,
            why=f"every row takes a byte at least, and there are at most {most_bytes:,}",
            fix="the file may have been cut short: copy it again, or correct the number",
        )


def missing_sizes(source: TextSource, given: dict[str, int | None], n_features: int, n_labels: int) -> DataError:
    """The error of a file without header and sizes. n_features, n_labels: one more than the largest index in it."""
    needs, seen = [], []
    for name, width, base in (("n_features", n_features, source.index_base), ("n_labels", n_labels, source.label_base)):
        if given[name] is None:
            spoken = _width(source.kind) if name == "n_features" else name
            needs.append(spoken)
            largest = f"the largest index seen is {width - 1 + base}" if width else "none is seen"
            seen.append(f"{spoken}: {largest} (counted from {base}), so at least {width:,}")
    return DataError(
        f"{' and '.join(needs)} must be given",
        where=source.name,
        why="a file without a header does not say how wide it is, and what one file shows need not fit the next",
        fix="; ".join(seen),
    )


def _width(kind: str) -> str:
    """What users call the number of columns."""
    return "n_columns" if kind == "sparse" else "n_features"
