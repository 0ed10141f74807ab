"""Files of row numbers beside a dataset: index splits, and the pairs of row and label that metrics leave out.

Holds no feature or label matrices.
"""

from __future__ import annotations

from array import array

import numpy as np

from xpipe.errors import DataError
from xpipe.formats.lines import bad_line, lines_of, too_many_lines, whole_number


def read_filter_labels(path: str, *, n_rows: int | None = None, n_labels: int | None = None) -> np.ndarray:
    """Pairs `row label` that metrics leave out (`filter_labels_test.txt`), one per line.

    Parameters
    ----------
    path : str
        A text file, plain or gzip.
    n_rows, n_labels : int, optional
        The sizes of the split, which no row and no label may exceed.

    Returns
    -------
    ndarray
        int64 [n, 2]: rows and labels, counted from 0.

    Raises
    ------
    DataError
        For a line that is not a pair, and for a row or label out of range.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_filter_labels
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "filter_labels_test.txt")
    >>> _ = path.write_text("0 3\\n2 1\\n")
    >>> read_filter_labels(str(path)).tolist()
    [[0, 3], [2, 1]]
    >>> folder.cleanup()
    """
    pairs = array("q")
    most = None if n_rows is None or n_labels is None else n_rows * n_labels
    for number, raw in lines_of(path):
        if most is not None and number > most:
            raise too_many_lines(path, f"more than {most:,} pairs of {n_rows:,} rows and {n_labels:,} labels", number)
        tokens = raw.split()
        if len(tokens) != 2 or not all(token.isdigit() for token in tokens):
            raise bad_line(path, number, raw, "a line must be `row label`, two whole numbers")
        pairs.append(whole_number(path, number, tokens[0]))
        pairs.append(whole_number(path, number, tokens[1]))
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
    """The rows of a data file that belong to a split (`NAME_trSplit.txt`), one per line.

    Parameters
    ----------
    path : str
        A text file, plain or gzip. Each line has one number for each way to split the data.
    base : {0, 1}
        The number that the file gives to the first row; 1 in files of the XMC repository. Never guessed.
    column : int
        The number of each line to take, from 0.
    n_rows : int, optional
        The rows of the data file, which no number may exceed.

    Returns
    -------
    ndarray
        int64: row numbers, counted from 0, in the order of the file.

    Raises
    ------
    DataError
        For rows that are out of range or named twice, and for lines that cannot be read.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_index_split
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "eurlex_trSplit.txt")
    >>> _ = path.write_text("4 1\\n1 2\\n")
    >>> read_index_split(str(path), base=1).tolist()
    [3, 0]
    >>> folder.cleanup()
    """
    if base not in (0, 1):
        raise DataError(f"base must be 0 or 1, not {base!r}", fix="say how the file counts: it is never guessed")
    rows, width = array("q"), None
    for number, raw in lines_of(path):
        if n_rows is not None and number > n_rows:
            raise too_many_lines(path, f"more than {n_rows:,} lines for {n_rows:,} rows", number)
        tokens = raw.split()
        width = len(tokens) if width is None else width
        if not tokens or len(tokens) != width or not all(token.isdigit() for token in tokens):
            raise bad_line(path, number, raw, "each line must have the same number of row numbers")
        if column >= width:
            raise DataError(
                f"there is no column {column}", where=path, why=f"the file has {width}", fix="columns count from 0"
            )
        row = whole_number(path, number, tokens[column]) - base
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
