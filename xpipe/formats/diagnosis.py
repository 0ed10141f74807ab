"""What is wrong with a line that a kernel refused: the token, the reason and what to try.

Holds no parsing of good data: it looks again, slowly, at the one line that a status points to.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.formats import _numba as kernels
from xpipe.formats.source import TextSource

TOKEN_LENGTH = 60  # characters of a token, and
TEXT_LENGTH = 200  # of a line, that are shown
BLANKS = b" \t\r\n"


class Diagnosis(NamedTuple):
    """What is wrong with a row. token: as the file has it, shortened; reason, why, fix: of the error."""

    token: str
    reason: str
    why: str
    fix: str


def explain(source: TextSource, status: int, line: bytes, token: int, *, first_line: bool = False) -> Diagnosis:
    """Diagnose a line. token: the offset of the wrong token in the line, or the index that comes twice."""
    if status == kernels.BLANK_LINE:
        return Diagnosis("", "a blank line", *_blank_line())
    if status in (kernels.TWICE_LABEL, kernels.TWICE_FEATURE):
        return _explain_twice(source, status, line, token)
    text = _token_at(line, token)
    comma_in_head = b"," in text and not line[:token].strip(BLANKS) and source.kind != "sparse"
    if status == kernels.BAD_LABEL or comma_in_head:
        found = _explain_labels(source, text)
    else:
        found = _explain_feature(source, text)
    if source.kind != "sparse" and b":" not in text and text and line[:1] in (b" ", b"\t") and not line[:token].strip():
        found = (
            text,
            "a label after a space",
            "a row that begins with a space has no labels: its features follow at once",
            "remove the space before the labels, or add the ':' and value of a feature",
        )
    shown, reason, why, fix = found
    if first_line and re.fullmatch(rb"\s*\d+(\s+\d+){1,2}\s*", line):
        why, fix = "the first line looks like a header", "say so: header=True"
    return Diagnosis(shorten(shown, TOKEN_LENGTH), reason, why, fix)


def bad_row(source: TextSource, line_number: int, found: Diagnosis, *, cut: bool = False) -> DataError:
    """The error of one bad row. cut: whether the file ends in this line without a newline."""
    why = found.why
    if cut:
        why += ("; " if why else "") + "the file ends in this line without a newline: it may have been cut short"
    where = f"{source.name}:{line_number}" + (f", token {found.token!r}" if found.token else "")
    return DataError(found.reason, where=where, why=why, fix=found.fix)


def row_count(source: TextSource, n_rows: int, blank_lines: list[int], *, at_least: bool = False) -> DataError:
    """The error of a file that has another number of rows than promised. blank_lines: numbers of the first blank lines.

    at_least: reading stopped after these rows, and there may be more.
    """
    assert source.n_rows is not None, "a number of rows was promised"
    promised = "the header says" if source.first_line > 1 else "n_samples says"
    found = f"at least {n_rows:,}" if at_least else f"{n_rows:,}"
    why = f"{promised} {source.n_rows:,} rows, the file has {found}"
    if blank_lines:
        lines = ", ".join(str(line) for line in blank_lines)
        why += f"; blank lines count as rows without labels and features: line {lines}" + (
            " and maybe more" if len(blank_lines) >= 3 else ""
        )
    if n_rows < source.n_rows:
        fix = "the file may have been cut short: copy it again, or correct the number"
    elif blank_lines:
        fix = "remove the blank lines if they are no samples, or correct the number"
    else:
        fix = "correct the number, or remove the rows that do not belong"
    where = f"{source.name}:1" if source.first_line > 1 else source.name
    return DataError(f"{found} rows instead of {source.n_rows:,}", where=where, why=why, fix=fix)


def shorten(raw: bytes, length: int) -> str:
    """Text of at most `length` characters, with dots where some are left out."""
    text = raw[: length + 1].decode("utf-8", "backslashreplace")
    return text if len(text) <= length else text[: length - 3] + "..."


def is_finite(number: bytes) -> bool:
    """Whether the number is finite as float32."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(float(number))))


def number_at(text: bytes | bytearray, start: int) -> bytes:
    """The bytes of the number that starts at `start`."""
    match = re.compile(rb"[-+.0-9eE]*").match(text, start)
    return match.group() if match else b""


def _blank_line() -> tuple[str, str]:
    """(why, fix) of a blank line."""
    return (
        "without a header it cannot be told from a sample with no labels and no features",
        "remove it, or give n_samples if it is a sample",
    )


def _token_at(line: bytes, start: int) -> bytes:
    """The token that starts at an offset of a line."""
    rest = line[start:]
    if rest[:1] == b"\r":
        return b"\r"
    return re.split(rb"[ \t\r\n]", rest, maxsplit=1)[0]


def _explain_twice(source: TextSource, status: int, line: bytes, index: int) -> Diagnosis:
    """The diagnosis of an index that comes twice in one row."""
    features = status == kernels.TWICE_FEATURE
    written = index + (source.index_base if features else source.label_base)
    pattern = rb"(?<![^\s])0*%d:[^\s]*" if features else rb"(?<![^\s,])0*%d(?![^\s,#])"
    text = line if features else line.split(None, 1)[0]
    found = re.findall(pattern % written, text)
    name = ("column" if source.kind == "sparse" else "feature") if features else "label"
    token = shorten(found[1] if len(found) > 1 else str(written).encode(), TOKEN_LENGTH)
    return Diagnosis(token, f"{name} {written} comes twice in one row", "", "keep one of the two")


def _explain_labels(source: TextSource, text: bytes) -> tuple[bytes, str, str, str]:
    """(token, reason, why, fix) of labels that cannot be read."""
    if b"\0" in text:
        return _nul(text)
    one_of_them = "labels are whole numbers separated by commas, without spaces: `3,17,40`"
    for part in text.split(b","):
        if part == b"":
            return (
                text,
                "a comma without a label beside it",
                one_of_them,
                "remove the comma, or add the label it waits for",
            )
        if b":" in part:
            return (
                text,
                "a label with a weight",
                "XMC text and svmlight lines have no place for label weights",
                "use split files (trn_X_Xf.txt, trn_X_Y.txt), npz or Parquet, which keep them; or remove the weight",
            )
        wrong = _explain_index(part, "label", source.n_labels, source.label_base, "label_base")
        if wrong:
            return part, *wrong
    return text, "these are not labels", one_of_them, "look at the bytes of this line"


def _explain_feature(source: TextSource, text: bytes) -> tuple[bytes, str, str, str]:
    """(token, reason, why, fix) of an entry that cannot be read."""
    name = "column" if source.kind == "sparse" else "feature"
    pair = f"every entry is `{name}:value`, such as `12:0.5`"
    if b"\0" in text:
        return _nul(text)
    if text.startswith(b"\r"):
        return (
            text,
            "a carriage return inside a line",
            "lines end in \\n or \\r\\n",
            "convert the line ends: dos2unix -c mac",
        )
    if text.startswith(b"qid:"):
        return text, "a query id", "ranking files are not multi-label data", "remove the qid: tokens"
    if b":" not in text:
        why = pair
        if re.fullmatch(rb"\d+", text) and source.kind != "sparse":
            why += "; labels come first, separated by commas without spaces"
        return text, f"a token without ':' among the {name}s", why, "add the value, or join labels by commas"
    index, _, value = text.partition(b":")
    if index == b"":
        return text, f"a value without its {name}", pair, f"put the {name} number before the ':'"
    width = source.n_features
    wrong = _explain_index(index, name, width, source.index_base, "index_base")
    if wrong:
        return text, *wrong
    if value == b"":
        return text, f"{name} {index.decode()} without a value", pair, "put the value after the ':'"
    if b":" in value:
        return text, "more than one ':' in a token", pair, "separate entries by a space"
    number = value.split(b"#")[0] if source.kind == "svmlight" else value
    if re.fullmatch(rb"[-+]?(nan|inf|infinity)", number, re.IGNORECASE):
        return text, f"the value {number.decode()} is not finite", "", "remove the entry, or give it a number"
    if re.fullmatch(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", number):
        return text, "the value is too large for float32", "the largest is 3.4028235e38", "scale the values down"
    return text, "the value is not a number", pair, "numbers look like 3, -0.25, 1e-05"


def _explain_index(text: bytes, name: str, width: int, base: int, option: str) -> tuple[str, str, str] | None:
    """(reason, why, fix) of an index that is not right; None where it is."""
    if re.fullmatch(rb"-\d+", text):
        return (
            f"{name} {text.decode()} is negative",
            f"{name}s count from {base}",
            f"correct it, or leave the {name} out",
        )
    if not re.fullmatch(rb"\d+", text):
        return (
            f"{name} {shorten(text, 30)!r} is not a whole number",
            f"{name}s count from {base}",
            "replace names by their numbers",
        )
    shown = shorten(text, 30)
    if len(text) > kernels.MOST_DIGITS:
        return (
            f"{name} {shown} has {len(text)} digits",
            f"there are {width:,} {name}s",
            "look at this line: two numbers may have run together",
        )
    number = int(text)
    if number - base < 0:
        return (
            f"{name} 0 in a file that counts {name}s from 1",
            f"{option} is 1",
            f"use {option}=0 if the file counts from 0",
        )
    if number - base >= width:
        fix = "correct the width in the header (or the one you gave), or this token"
        if number == width and base == 0:
            fix += f"; if the file counts {name}s from 1, use {option}=1"
        return (
            f"{name} {shown} is beyond the last one, {width - 1 + base}",
            f"there are {width:,} {name}s, counted from {base}",
            fix,
        )
    return None


def _nul(text: bytes) -> tuple[bytes, str, str, str]:
    """(token, reason, why, fix) of a token with a NUL byte."""
    return (
        text,
        "a NUL byte in the text",
        "the file may be binary, UTF-16 or damaged",
        "convert it to UTF-8 text, or copy it again",
    )
