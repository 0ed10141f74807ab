"""How many rows a text file has, and where they begin; errors where the header promises another number.

Holds no parsing of rows: that is `text`.
"""

from __future__ import annotations

import re

import numpy as np

from xpipe.formats.blocks import LineReader, open_stream
from xpipe.formats.source import KINDS, TextSource


def row_offsets(source: TextSource, every: int) -> tuple[np.ndarray, int]:
    """Where the rows of a text file begin, and how many there are.

    Parameters
    ----------
    source : TextSource
        The file, as `open_text` gives it.
    every : int
        The step between the rows whose offsets are wanted.

    Returns
    -------
    offsets : ndarray
        int64: the byte offsets of rows 0, every, 2 * every, ..., and of the end of the data.
    n_rows : int
        The number of rows.

    Raises
    ------
    DataError
        Where the header promises another number of rows.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import open_text, row_offsets
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.txt")
    >>> _ = path.write_text("3 2 2\\n0 0:1\\n1 1:1\\n0,1\\n")
    >>> row_offsets(open_text(str(path), "xmc", header=True), 2)
    (array([ 6, 18, 22]), 3)
    >>> folder.cleanup()
    """
    from xpipe.formats import _numba as kernels

    kind = KINDS.index(source.kind)
    offsets = []
    n_rows, position = 0, source.first_byte
    starts = np.empty(0, dtype=np.int64)
    with open_stream(source.path, start=position, compressed=source.compressed) as stream:
        reader = LineReader(stream, name=source.name)
        buffer, filled = reader.read_into(bytearray())
        while filled:
            check_not_more(source, n_rows)
            view = np.frombuffer(buffer, np.uint8, filled)
            starts = _at_least(starts, kernels.count_lines(view))
            found = kernels.find_rows(view, kind, starts)
            offsets.append(starts[-n_rows % every : found : every] + position)
            n_rows += found
            position += filled
            buffer, filled = reader.read_into(buffer)
    offsets.append(np.array([position - reader.newline_added], dtype=np.int64))
    check_row_count(source, n_rows)
    return np.concatenate(offsets), n_rows


def check_not_more(source: TextSource, n_rows: int) -> None:
    """Raise DataError where there are more rows than promised, before the rest of the file is read."""
    if source.n_rows is not None and n_rows > source.n_rows:
        check_row_count(source, n_rows, at_least=True)


def check_row_count(source: TextSource, n_rows: int, *, at_least: bool = False) -> None:
    """Raise DataError unless the file has as many rows as promised. The message names the first blank lines.

    at_least: `n_rows` are those seen so far, and there may be more.
    """
    if source.n_rows is None or source.n_rows == n_rows:
        return
    from xpipe.formats import diagnosis

    blank: list[int] = []
    with open_stream(source.path, start=source.first_byte, compressed=source.compressed) as stream:
        reader, line = LineReader(stream, name=source.name), source.first_line
        buffer, filled = reader.read_into(bytearray())
        while filled and len(blank) < 3 and line < source.first_line + n_rows:
            text = bytes(memoryview(buffer)[:filled])
            for match in re.finditer(rb"^[ \t\r]*$", text[:-1], re.MULTILINE):
                blank.append(line + text.count(b"\n", 0, match.start()))
                if len(blank) == 3:
                    break
            line += text.count(b"\n")
            buffer, filled = reader.read_into(buffer)
    raise diagnosis.row_count(source, n_rows, blank, at_least=at_least)


def _at_least(array: np.ndarray, length: int) -> np.ndarray:
    """The array, or a new one where it is too short; its content does not matter."""
    return array if len(array) >= length else np.empty(length + length // 2, dtype=array.dtype)
