"""Sparse text files: opened by their header, and parsed into CSR arrays in byte ranges and bounded memory.

Holds no matrices, and does not know which file is what: `xmc_text`, `sparse_text` and `svmlight` do.

Every line is a row; a blank line is a sample without labels and features. Tabs count as spaces. \\r\\n, spaces at
the end of a line, a missing last newline and a UTF-8 byte order mark are accepted. An explicit zero (`3:0`) is kept, so
the number of stored entries is the number of tokens. A value is Python's float() of its token, rounded to float32.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import BLOCK_SIZE, DEFLATE_RATIO, LineReader, is_compressed, open_stream
from xpipe.formats.row_counts import check_not_more, check_row_count, row_offsets
from xpipe.formats.source import KINDS, Reject, Rows, TextSource
from xpipe.ground import files
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import to_matrix

if TYPE_CHECKING:
    from xpipe.formats.rows import Block

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def open_text(
    path: str,
    kind: str,
    *,
    n_rows: int | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    header: bool,
    index_base: int = 0,
    label_base: int = 0,
) -> TextSource:
    """Read the header of a text file, if it has one, and say how the file is to be read.

    Parameters
    ----------
    path : str
        A local path or an fsspec URL, plain or gzip.
    kind : str
        "xmc", "sparse" (a split file) or "svmlight".
    n_rows, n_features, n_labels : int, optional
        Sizes of a file without a header; those of a header must agree with them. Of kind "sparse", `n_features` is the
        number of columns.
    header : bool
        Whether the first line is a header.
    index_base, label_base : {0, 1}
        The number that the file gives to the first feature and to the first label.

    Returns
    -------
    TextSource
        The file and how to read it.

    Raises
    ------
    DataError
        For an empty file, and for a header that is not one or disagrees with the sizes given. Without a header also for
        sizes that are not given: then the whole file is scanned, so that the message can name the largest index.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import open_text
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.txt")
    >>> _ = path.write_text("1 3 2\\n0,1 0:0.5 2:1\\n")
    >>> source = open_text(str(path), "xmc", header=True)
    >>> source.n_rows, source.n_features, source.n_labels
    (1, 3, 2)
    >>> folder.cleanup()
    """
    from xpipe.formats import header as headers

    path = os.fspath(path)
    if kind not in KINDS:
        raise DataError(f"kind {kind!r} is not known", fix="one of " + ", ".join(KINDS))
    for name, base in (("index_base", index_base), ("label_base", label_base)):
        if base not in (0, 1):
            raise DataError(f"{name} must be 0 or 1, not {base!r}", fix="say how the file counts: it is never guessed")
    compressed = is_compressed(path)
    with open_stream(path, compressed=compressed) as stream:
        start = stream.read(headers.LONGEST)
    if not start:
        raise DataError("the file is empty", where=path, fix="copy or write it again")
    first_byte = len(BYTE_ORDER_MARK) if start.startswith(BYTE_ORDER_MARK) else 0
    first_line = 1
    given = {"n_rows": n_rows, "n_features": n_features, "n_labels": n_labels if kind != "sparse" else 0}
    if header:
        line = start[first_byte:].split(b"\n", 1)[0]
        found = headers.parse_header(path, kind, line)
        headers.check_agreement(path, found, given)
        given.update(found)
        first_byte = min(first_byte + len(line) + 1, len(start))
        first_line = 2
    source = TextSource(
        path=path,
        kind=kind,
        n_rows=given["n_rows"],
        n_features=headers.WIDEST if given["n_features"] is None else given["n_features"],
        n_labels=headers.WIDEST if given["n_labels"] is None else given["n_labels"],
        index_base=index_base,
        label_base=label_base,
        first_byte=first_byte,
        first_line=first_line,
        size=files.size(path),
        compressed=compressed,
    )
    if given["n_features"] is None or given["n_labels"] is None:
        raise headers.missing_sizes(source, given, *_largest_indices(source))
    headers.check_widths(source)
    headers.check_rows(source, source.size * (DEFLATE_RATIO if compressed else 1))
    return source


def parse_range(
    source: TextSource,
    start: int | None = None,
    stop: int | None = None,
    first_row: int = 0,
    *,
    on_bad_row: str = "error",
    threads: int = 1,
    block_size: int = BLOCK_SIZE,
) -> Rows:
    """Parse the lines of a byte range of a text file.

    Memory beyond the result is that of threads + 1 blocks. Neither the number of threads nor the size of a block
    changes the result.

    Parameters
    ----------
    source : TextSource
        The file, as `open_text` gives it.
    start, stop : int, optional
        The range of bytes, which must begin and end at whole lines; by default all rows.
    first_row : int
        The number of the first row of the range.
    on_bad_row : {"error", "drop"}
        Whether a row that cannot be read is an error, or is left out and listed in the `rejects` of the result.
    threads : int
        Threads that parse.
    block_size : int
        Bytes that are read at a time.

    Returns
    -------
    Rows
        CSR arrays of the rows, their numbers, and the rows that were rejected.

    Raises
    ------
    DataError
        For the first bad row in the order of the file, unless bad rows are dropped.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import open_text, parse_range
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.txt")
    >>> _ = path.write_text("2 3 2\\n0,1 0:0.5 2:1\\n1 1:2\\n")
    >>> parse_range(open_text(str(path), "xmc", header=True)).features.indices
    array([0, 2, 1], dtype=int32)
    >>> folder.cleanup()
    """
    from xpipe.formats.rows import RowsBuilder

    if on_bad_row not in ("error", "drop"):
        raise DataError(f"on_bad_row must be 'error' or 'drop', not {on_bad_row!r}")
    start = source.first_byte if start is None else start
    end = stop if stop is not None else None if source.compressed else max(source.size, start)
    drop = on_bad_row == "drop"
    builder = RowsBuilder(source, start, first_row, None if end is None else end - start)
    with open_stream(source.path, start=start, compressed=source.compressed) as stream:
        reader = LineReader(stream, None if stop is None else stop - start, block_size, source.name)
        for block in _parse_blocks(source, reader, drop, threads):
            check_not_more(source, first_row + builder.n_rows)
            builder.append(block)
    return builder.finish()


def read_rows(source: TextSource, *, on_bad_row: str, rejects: list[Reject] | None, threads: int | None) -> Rows:
    """All rows of a text file; their number is checked against the header. Bad rows are never dropped silently."""
    if on_bad_row == "drop" and rejects is None:
        raise DataError(
            "on_bad_row='drop' needs a list for what it drops",
            why="rows are never dropped silently",
            fix="rejects = []; pass rejects=rejects and look at it afterwards",
        )
    rows = parse_range(source, on_bad_row=on_bad_row, threads=threads or count_cores())
    check_row_count(source, len(rows.samples) + len(rows.rejects))
    if rejects is not None:
        rejects.extend(rows.rejects)
    return rows


def count_cores() -> int:
    """Cores this process may use, at most 16: more threads than that wait for the disk."""
    return min(usable_cores(), 16)


def read_matrices(
    source: TextSource, *, on_bad_row: str, rejects: list[Reject] | None, threads: int | None
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of all rows of a text file, as `read_rows` reads them."""
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)
    assert rows.labels is not None, "split files have one matrix only"
    return to_matrix(rows.features, source.n_features), to_matrix(rows.labels, source.n_labels)


def _parse_blocks(source: TextSource, reader: LineReader, drop: bool, threads: int) -> Iterator[Block]:
    """Parsed blocks in the order of the file; each is valid until the next one is asked for."""
    from xpipe.formats.rows import Block

    if threads <= 1:
        block = Block(source, drop)
        while block.read(reader):
            block.parse()
            yield block
        return
    free = [Block(source, drop) for _ in range(threads + 1)]
    running: deque[tuple[Block, Future[None]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-parse") as pool:
        more = True
        while more or running:
            while more and free:
                block = free.pop()
                more = block.read(reader)
                if more:
                    running.append((block, pool.submit(block.parse)))
            if running:
                block, future = running.popleft()
                future.result()
                yield block
                free.append(block)


def _largest_indices(source: TextSource) -> tuple[int, int]:
    """One more than the largest feature and label in the file, counted from 0."""
    feature = label = -1
    with open_stream(source.path, start=source.first_byte, compressed=source.compressed) as stream:
        for block in _parse_blocks(source, LineReader(stream, name=source.name), True, 1):
            feature = max(feature, int(block.features[: block.n_entries].max(initial=-1)))
            label = max(label, int(block.labels[: block.n_label_entries].max(initial=-1)))
    return feature + 1, label + 1


def compile_kernels() -> None:
    """Compile the kernels that read text, or load them from the machine's cache of compiled code."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one.txt")
        with open(path, "wb") as stream:
            stream.write(b"1 2 2\n1,0 1:0.5 0:1.25\n")
        source = open_text(path, "xmc", header=True)
        row_offsets(source, 1)
        parse_range(source)
