"""Small text files beside a dataset: names, filter pairs, index splits, group ids; one thing a line.

Holds no feature or label matrices as text: those are `xmc_text`, `sparse_text` and `svmlight`.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import BLOCK_SIZE, is_compressed, open_stream
from xpipe.ground import files
from xpipe.ground.sparse import Triple, to_matrix

LONGEST = 1 << 24  # bytes of one line: names and numbers are short


class Names(NamedTuple):
    """Names in the file's order, and the ids written before them, None where the file has none."""

    names: list[str]
    ids: list[str] | None


def read_names(path: str, *, count: int | None = None, encoding: str = "utf-8") -> Names:
    r"""Names of labels or features (`labels.txt`, `Yf.txt`, `features.txt`), one a line: `name` or `id<TAB>name`.

    What stands before a tab is an id only where every line has a tab. Raises DataError where the number of names is not
    `count`, and for bytes that are not in the encoding (older files are often encoding="latin-1").
    """
    lines = []
    for number, raw in _lines(path):
        if count is not None and number > count:
            raise _too_many(path, f"more than {count:,} names for {count:,} labels or features", number)
        try:
            lines.append(raw.decode(encoding))
        except UnicodeDecodeError as error:
            raise DataError(
                f"byte {raw[error.start]:#04x} is not {encoding}",
                where=f"{path}:{number}, {raw[:60]!r}",
                fix='encoding="latin-1" if the file is old, or convert it: iconv -f latin1 -t utf8',
            ) from error
    if count is not None and len(lines) != count:
        raise DataError(
            f"{len(lines):,} names for {count:,} labels or features",
            where=path,
            fix="one name a line, in the order of the numbers; check that the file belongs to this dataset",
        )
    if lines and all("\t" in line for line in lines):
        pairs = [line.split("\t", 1) for line in lines]
        return Names([name for _, name in pairs], [written_id for written_id, _ in pairs])
    return Names(lines, None)


def read_filter_labels(path: str, *, n_rows: int | None = None, n_labels: int | None = None) -> np.ndarray:
    """Pairs `row label` (`filter_labels_test.txt`) that metrics leave out: int64 [n, 2], counted from 0.

    Raises DataError for lines that are no pair and for rows and labels beyond the shapes given.
    """
    pairs = array("q")
    most = None if n_rows is None or n_labels is None else n_rows * n_labels
    for number, raw in _lines(path):
        if most is not None and number > most:
            raise _too_many(path, f"more than {most:,} pairs of {n_rows:,} rows and {n_labels:,} labels", number)
        tokens = raw.split()
        if len(tokens) != 2 or not all(token.isdigit() for token in tokens):
            raise _bad_line(path, number, raw, "a line must be `row label`, two whole numbers")
        pairs.append(_whole_number(path, number, tokens[0]))
        pairs.append(_whole_number(path, number, tokens[1]))
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    for column, (name, width) in enumerate((("row", n_rows), ("label", n_labels))):
        beyond = np.flatnonzero(found[:, column] >= (2**63 - 1 if width is None else width))
        if len(beyond):
            line = int(beyond[0])
            raise DataError(
                f"{name} {found[line, column]} is beyond the last one, {(width or 0) - 1}",
                where=f"{path}:{line + 1}",
                fix="check that the file belongs to this split; it counts from 0",
            )
    return found


def read_index_split(path: str, *, base: int, column: int = 0, n_rows: int | None = None) -> np.ndarray:
    """Row numbers of one part of a dataset, int64, counted from 0, in the file's order.

    Each line has one number for each split the file describes; `column` chooses one. `base` says whether the file
    counts from 0 or from 1 (files of the XMC repository: 1). Raises DataError for rows out of range or named twice.
    """
    if base not in (0, 1):
        raise DataError(f"base must be 0 or 1, not {base!r}", fix="say how the file counts: it is never guessed")
    rows, width = array("q"), None
    for number, raw in _lines(path):
        if n_rows is not None and number > n_rows:
            raise _too_many(path, f"more than {n_rows:,} lines for {n_rows:,} rows", number)
        tokens = raw.split()
        width = len(tokens) if width is None else width
        if not tokens or len(tokens) != width or not all(token.isdigit() for token in tokens):
            raise _bad_line(path, number, raw, "each line must have the same number of row numbers")
        if column >= width:
            raise DataError(
                f"there is no column {column}", where=path, why=f"the file has {width}", fix="columns count from 0"
            )
        row = _whole_number(path, number, tokens[column]) - base
        if row < 0 or (n_rows is not None and row >= n_rows):
            raise DataError(
                f"row {row + base} is out of range",
                where=f"{path}:{number}, token {tokens[column].decode()!r}",
                why=f"rows go from {base}" + (f" to {n_rows - 1 + base}" if n_rows is not None else ""),
                fix="check `base`, and that the file belongs to this dataset",
            )
        rows.append(row)
    found = np.array(rows, dtype=np.int64)
    kinds, first = np.unique(found, return_index=True)
    if len(kinds) < len(found):
        line = int(np.setdiff1d(np.arange(len(found)), first)[0])
        raise DataError(f"row {found[line] + base} comes twice", where=f"{path}:{line + 1}", fix="name each row once")
    return found


def read_group_ids(
    path: str, *, n_rows: int | None = None, n_groups: int | None = None, base: int = 0
) -> sp.csr_matrix:
    """Membership (Y1, samples x groups, float32 ones) from one group id a line; -1 or an empty line: in no group.

    n_groups=None makes as many groups as the largest id asks for. Raises DataError for anything else on a line, ids out
    of range, and a number of lines that is not n_rows.
    """
    ids = array("q")
    for number, raw in _lines(path):
        if n_rows is not None and number > n_rows:
            raise _too_many(path, f"more than {n_rows:,} group ids for {n_rows:,} samples", number)
        token = raw.strip()
        if token in (b"", b"-1"):
            ids.append(-1)
        elif token.isdigit():
            ids.append(_whole_number(path, number, token) - base)
            if ids[-1] < 0 or ids[-1] >= (2**31 - 1 if n_groups is None else n_groups):
                raise DataError(
                    f"group {token.decode()} is out of range",
                    where=f"{path}:{number}",
                    why=f"groups count from {base}" + (f" to {n_groups - 1 + base}" if n_groups is not None else ""),
                    fix="correct the id, or give the number of groups it belongs to",
                )
        else:
            raise _bad_line(path, number, raw, "a line must be one group id, or -1 or nothing for no group")
    if n_rows is not None and len(ids) != n_rows:
        raise DataError(
            f"{len(ids):,} group ids for {n_rows:,} samples",
            where=path,
            fix="one id a line, one line a sample; -1 for no group",
        )
    found = np.array(ids, dtype=np.int64)
    inside = found >= 0
    indptr = np.concatenate([[0], np.cumsum(inside)]).astype(np.int64)
    width = int(found.max(initial=-1)) + 1 if n_groups is None else n_groups
    return to_matrix(Triple(indptr, found[inside].astype(np.int32), np.ones(indptr[-1], np.float32)), width)


def read_membership(path: str, *, samples: np.ndarray | None = None, n_rows: int | None = None) -> sp.csr_matrix:
    """Membership (Y1) from one group id a line, or from any file of read_sparse, told apart by the first line.

    n_rows: rows the file must have. `samples` int64: the rows of the file that are wanted, in their order (those kept
    by an earlier reading).
    """
    if is_id_list(path):
        membership = read_group_ids(path, n_rows=n_rows)
    else:
        from xpipe.formats.sparse_text import read_sparse

        membership = read_sparse(path)
    if n_rows is not None and membership.shape[0] != n_rows:
        raise DataError(
            f"membership has {membership.shape[0]:,} rows for {n_rows:,} samples",
            where=path,
            fix="one row a sample of the training file",
        )
    if samples is None:
        return membership
    if len(samples) and int(samples.max()) >= membership.shape[0]:
        raise DataError(
            f"membership has {membership.shape[0]:,} rows, sample {int(samples.max())} is needed",
            where=path,
            fix="one row a sample of the training file",
        )
    return sp.csr_matrix(membership[samples])


def is_id_list(path: str) -> bool:
    """Whether the file has one group id a line: text whose first line is no header of two numbers."""
    path = os.fspath(path)
    if path.endswith((".npz", ".parquet")):
        return False
    first = next((raw for _, raw in _lines(path)), b"")
    return len(first.split()) <= 1 and b":" not in first


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """(line number, line without its end); plain or gzip, without a byte order mark."""
    path = os.fspath(path)
    compressed = is_compressed(path) if files.exists(path) else False
    tail, number = b"", 0
    with open_stream(path, compressed=compressed) as stream:
        while piece := stream.read(BLOCK_SIZE):
            lines = (tail + piece).split(b"\n")  # not splitlines(): a name may hold other line ends
            tail = lines.pop()
            if len(tail) > LONGEST:
                raise DataError(
                    f"a line of more than {LONGEST:,} bytes", where=f"{path}:{number + len(lines) + 1}",
                    why="one name or number stands on a line", fix="look at it: `head -c 300`; lines end in \\n",
                )  # fmt: skip
            for line in lines:
                number += 1
                yield number, _plain(line, number)
    if tail:
        yield number + 1, _plain(tail, number + 1)


def _plain(line: bytes, number: int) -> bytes:
    line = line.removesuffix(b"\r")
    return line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _whole_number(path: str, line: int, token: bytes) -> int:
    if len(token) > 18:
        raise DataError(
            f"a number of {len(token)} digits", where=f"{path}:{line}", fix="two numbers may have run together"
        )
    return int(token)


def _too_many(path: str, what: str, line: int) -> DataError:
    """More lines than there are things to name; the rest of the file is left alone."""
    return DataError(what, where=f"{path}:{line}", fix="check that the file belongs to this dataset")


def _bad_line(path: str, number: int, raw: bytes, why: str) -> DataError:
    shown = re.sub(r"\s+", " ", raw[:60].decode("utf-8", "backslashreplace"))
    return DataError("a line that cannot be read", where=f"{path}:{number}, {shown!r}", why=why, fix="correct the line")
