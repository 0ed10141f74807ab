"""Texts of any form as chunks of UTF-8 bytes with offsets: lists, numpy and Arrow arrays, streams.

Holds no words. Arrow's texts are used where they are; other texts are encoded chunk by chunk. No chunk depends on what
comes after it, so that a stream is read as it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from xpipe.errors import DataError
from xpipe.ground.given_features import is_frame
from xpipe.ground.sparse import read_only

CHUNK_BYTES = 1 << 21
CHUNK_TEXTS = 1 << 13
LONGEST_TEXT = 2**31 - 1  # bytes; entries of a text are numbered in int32
FIX = "texts are a list, a numpy or Arrow array, or any other iterable of str"


@dataclass(frozen=True)
class TextChunk:
    """Some texts: text i is data[offsets[i] : offsets[i + 1]]. `first_row` is the number of the first one."""

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64
    first_row: int

    @property
    def n_texts(self) -> int:
        """How many texts there are."""
        return len(self.offsets) - 1

    @property
    def longest(self) -> int:
        """The bytes of the longest text."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def n_bytes(self) -> int:
        """The bytes of all texts."""
        return int(self.offsets[-1] - self.offsets[0])

    def text(self, row: int) -> bytes:
        """The bytes of one text."""
        return bytes(self.data[self.offsets[row] : self.offsets[row + 1]])

    def one(self, row: int, content: bytes) -> TextChunk:
        """A text of this chunk alone, with other bytes."""
        return TextChunk(np.frombuffer(content, np.uint8), np.array([0, len(content)]), self.first_row + row)


def text_chunks(texts: Any, chunk_bytes: int = CHUNK_BYTES) -> Iterator[TextChunk]:
    """The texts, chunk by chunk. Items of an iterable may be str or Arrow arrays of str.

    Raises DataError for a null, and for anything that is no text; the message names the row.
    """
    row = 0
    for array in _arrays(texts):
        if array.null_count:
            null = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise DataError("a text is null", where=f"row {row + null}", fix="drop the row, or make it an empty text")
        yield from _cut(array, row, chunk_bytes)
        row += len(array)


def _arrays(texts: Any) -> Iterator[pa.Array]:
    """Arrow arrays with all texts."""
    if isinstance(texts, (str, bytes)):
        raise DataError("one text where several are expected", fix="[text] for a single one; " + FIX)
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        yield from _as_strings(texts, 0)
        return
    if is_frame(texts):
        if len(texts.columns) != 1:
            raise DataError(f"a frame of {len(texts.columns)} columns where texts are expected", fix='frame["text"]')
        texts = texts[texts.columns[0]]
    if hasattr(texts, "to_arrow"):  # a series of polars
        yield from _as_strings(texts.to_arrow(), 0)
        return
    if isinstance(texts, np.ndarray):
        if texts.ndim != 1 or texts.dtype.kind not in "UOT":
            raise DataError(f"an array of shape {texts.shape} and type {texts.dtype} has no texts", fix=FIX)
        texts = texts.tolist() if texts.dtype.kind != "U" else _slices(texts)
    try:
        items = iter(texts)
    except TypeError:
        raise DataError(f"{type(texts).__name__} is no iterable of texts", fix=FIX) from None
    yield from _gathered(items)


def _slices(texts: np.ndarray) -> Iterator[str]:
    """The texts of a numpy array of strings; few of them are Python objects at a time."""
    for start in range(0, len(texts), CHUNK_TEXTS):
        yield from texts[start : start + CHUNK_TEXTS].tolist()


def _gathered(items: Iterable[Any]) -> Iterator[pa.Array]:
    """Single texts, gathered to arrays; arrays as they are."""
    waiting: list[str] = []
    row = size = 0
    for item in items:
        if isinstance(item, (pa.Array, pa.ChunkedArray)):
            if waiting:
                yield _encoded(waiting, row)
            row += len(waiting)
            yield from _as_strings(item, row)
            row, waiting, size = row + len(item), [], 0
            continue
        if not isinstance(item, str):
            kind = "null" if item is None or item != item else f"{type(item).__name__}, not str"  # noqa: PLR0124 nan
            raise DataError(f"a text is {kind}", where=f"row {row + len(waiting)}", fix=FIX)
        waiting.append(item)
        size += len(item)
        if size >= CHUNK_BYTES or len(waiting) >= CHUNK_TEXTS:
            yield _encoded(waiting, row)
            row, waiting, size = row + len(waiting), [], 0
    if waiting:
        yield _encoded(waiting, row)


def _encoded(texts: list[str], row: int) -> pa.Array:
    """Python strings as an Arrow array."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        # halves of surrogate pairs: they are of no word and have no case, as a question mark
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
    except (pa.ArrowException, OverflowError) as error:
        raise DataError("texts cannot be encoded", where=f"rows {row} to {row + len(texts) - 1}", why=str(error),
                        fix=FIX) from error  # fmt: skip


def _as_strings(texts: pa.Array | pa.ChunkedArray, row: int) -> Iterator[pa.Array]:
    """An Arrow array as arrays of strings; dictionaries and views of strings are written out."""
    for array in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        kind = array.type
        if pa.types.is_null(kind) and len(array):
            raise DataError("a text is null", where=f"row {row}", fix="drop the row, or make it an empty text")
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)):
            if len(array):
                raise DataError(f"an Arrow array of {kind} has no texts", fix="array.cast(pyarrow.string())")
            continue
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            array = array.cast(pa.large_string())  # noqa: PLW2901
        yield array
        row += len(array)


def _cut(array: pa.Array, row: int, chunk_bytes: int) -> Iterator[TextChunk]:
    """An Arrow array in chunks of whole texts. Its bytes are not copied."""
    if not len(array):
        return
    _, offset_buffer, data_buffer = array.buffers()
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    all_offsets = np.frombuffer(offset_buffer, dtype=kind, count=array.offset + len(array) + 1)[array.offset :]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", dtype=np.uint8)
    start = 0
    while start < len(array):
        stop = int(np.searchsorted(all_offsets, all_offsets[start] + chunk_bytes, side="right")) - 1
        stop = min(max(stop, start + 1), start + CHUNK_TEXTS, len(array))
        offsets = all_offsets[start : stop + 1].astype(np.int64)
        lengths = np.diff(offsets)
        if offsets[0] < 0 or offsets[-1] > len(data) or (lengths < 0).any():
            raise DataError("an Arrow array has wrong offsets", where=f"rows {row + start} to {row + stop - 1}")
        if (lengths > LONGEST_TEXT).any():
            long = int(np.argmax(lengths))
            raise DataError(f"a text of {int(lengths[long]):,} bytes", where=f"row {row + start + long}",
                            why=f"at most {LONGEST_TEXT:,} are possible", fix="cut it into several")  # fmt: skip
        yield TextChunk(read_only(data), offsets, row + start)
        start = stop
