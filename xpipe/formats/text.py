"""Sparse text files in byte ranges: open, cut into rows, parse into CSR arrays, in bounded memory.

Holds no matrices and no knowledge of which file is what: `xmc_text`, `sparse_text` and `svmlight` put it to use.

Every line is a row; a blank one is a sample without labels and features. Tabs count as spaces; \\r\\n, spaces at
the end of a line, a missing last newline and a UTF-8 byte order mark are accepted. An explicit zero (`3:0`)
is kept: the number of stored entries is the number of tokens. A value is what Python's float() makes of it, rounded to
float32.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from xpipe.errors import DataError
from xpipe.formats.blocks import BLOCK_SIZE, DEFLATE_RATIO, LineReader, decompress, is_compressed, open_stream
from xpipe.formats.source import KINDS, Reject, Rows, TextSource
from xpipe.ground import files

__all__ = ["Reject", "Rows", "TextSource", "decompress", "open_text", "parse_range", "row_offsets"]

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
    """Read the header, if there is one, and say how the file is to be read.

    Raises DataError for an empty file, a header that is none or disagrees with the sizes given, and, without a header,
    for sizes not given: then the whole file is scanned so that the error can name the largest index in it.
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


def row_offsets(source: TextSource, every: int) -> tuple[np.ndarray, int]:
    """Byte offsets int64 of rows 0, every, 2*every, ... and of the end of the data; and the number of rows.

    Raises DataError where the number of rows is not the one the header promises.
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
    """Raise DataError where there are more rows than promised and still more to read: the rest is left alone."""
    if source.n_rows is not None and n_rows > source.n_rows:
        check_row_count(source, n_rows, at_least=True)


def check_row_count(source: TextSource, n_rows: int, *, at_least: bool = False) -> None:
    """Raise DataError unless the file has as many rows as promised, naming the first blank lines.

    at_least: these are the rows seen so far, and no more is read to find blank lines.
    """
    from xpipe.formats import diagnosis

    if source.n_rows is None or source.n_rows == n_rows:
        return
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
    """Parse the whole lines of bytes start..stop (default: all of them), of which the first is row `first_row`.

    Memory beyond the result is bounded by the blocks in flight, threads + 1 of them. With on_bad_row="drop", bad rows
    are listed in `rejects`; with "error" the first one in file order raises DataError. Rows and widths are the same for
    any number of threads and any block size.
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


def _parse_blocks(source: TextSource, reader: LineReader, drop: bool, threads: int) -> Iterator:
    """Parsed blocks in file order; each is valid until the next one is asked for."""
    from xpipe.formats.rows import Block

    if threads <= 1:
        block = Block(source, drop)
        while block.read(reader):
            block.parse()
            yield block
        return
    free = [Block(source, drop) for _ in range(threads + 1)]
    running: deque[tuple[Block, Future]] = deque()
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


def _at_least(array: np.ndarray, length: int) -> np.ndarray:
    return array if len(array) >= length else np.empty(length + length // 2, dtype=array.dtype)


def compile_kernels() -> None:
    """Compile what reading text needs, or load it from the machine's cache of compiled code."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one.txt")
        with open(path, "wb") as stream:
            stream.write(b"1 2 2\n1,0 1:0.5 0:1.25\n")
        source = open_text(path, "xmc", header=True)
        row_offsets(source, 1)
        parse_range(source)
