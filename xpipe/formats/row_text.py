"""Rows as lines of text: what XMC text, split files and svmlight have in common.

Holds no headers and no files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xpipe.errors import DataError
from xpipe.ground.sparse import Triple

BLOCK_ENTRIES = 1 << 20  # entries formatted at a time: keeps Arrow's 32-bit string offsets and our memory small


def format_rows(
    features: Triple, labels: Triple | None, *, index_base: int = 0, label_base: int = 0, empty_row: bytes = b""
) -> bytes:
    """The lines of XMC text for some rows, without a header.

    Each value is the shortest decimal that reads back the same. A row without labels starts with a space. A row without
    features has no space at its end, which some readers refuse.

    Parameters
    ----------
    features : Triple
        CSR arrays of the features.
    labels : Triple, optional
        CSR arrays of the labels; None writes no label column (the lines of a split file).
    index_base, label_base : {0, 1}
        The number that the text gives to the first feature and to the first label.
    empty_row : bytes
        The line of a row with neither labels nor features. Where another row would have the same line, its value is
        written with `.0`, so that it differs.

    Returns
    -------
    bytes
        One line per row, each with its newline.

    Raises
    ------
    DataError
        Where a label has a weight other than 1: this format has no place for it.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.formats import format_rows
    >>> from xpipe.ground.sparse import Triple
    >>> features = Triple(np.array([0, 2]), np.array([0, 3], np.int32), np.array([0.5, 1], np.float32))
    >>> format_rows(features, None)
    b'0:0.5 3:1\\n'
    """
    return b"".join(format_blocks(features, labels, index_base=index_base, label_base=label_base, empty_row=empty_row))


def format_blocks(
    features: Triple, labels: Triple | None, *, index_base: int = 0, label_base: int = 0, empty_row: bytes = b""
) -> Iterator[bytes]:
    """The lines of `format_rows` in blocks of bounded size."""
    if labels is not None:
        if labels.n_rows != features.n_rows:
            raise DataError(f"features have {features.n_rows:,} rows, labels {labels.n_rows:,}")
        refuse_label_weights(labels)
    n_entries = np.asarray(features.indptr, dtype=np.int64)
    if labels is not None:
        n_entries = n_entries + labels.indptr
    start = 0
    while start < features.n_rows:
        stop = int(np.searchsorted(n_entries, n_entries[start] + BLOCK_ENTRIES, side="right")) - 1
        stop = min(max(stop, start + 1), features.n_rows, start + BLOCK_ENTRIES)
        rows = range(start, stop)
        yield _format_block(features, labels, rows, index_base=index_base, label_base=label_base, empty_row=empty_row)
        start = stop


def refuse_label_weights(labels: Triple) -> None:
    """Raise DataError where a label's value is not 1: comma-separated labels have no place for it."""
    stored = labels.values[labels.indptr[0] : labels.indptr[-1]]
    weighted = np.flatnonzero(stored != 1)
    if len(weighted):
        entry = int(weighted[0] + labels.indptr[0])
        row = int(np.searchsorted(labels.indptr, entry, side="right") - 1)
        raise DataError(
            f"label weight {labels.values[entry]} cannot be written",
            where=f"row {row}, label {int(labels.indices[entry])}",
            why="XMC text and svmlight lines hold labels without weights",
            fix="write split files, npz or Parquet, which keep weights; or set every label's value to 1",
        )


def _format_block(
    features: Triple, labels: Triple | None, rows: range, *, index_base: int, label_base: int, empty_row: bytes
) -> bytes:
    """The lines of one block of rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    start, stop = rows.start, rows.stop
    entries = slice(int(features.indptr[start]), int(features.indptr[stop]))
    tokens = pc.binary_join_element_wise(
        _text_of(features.indices[entries], index_base),
        pc.cast(pa.array(np.asarray(features.values[entries], dtype=np.float32)), pa.string()),
        ":",
    )
    lines = _join_rows(tokens, features.indptr[start : stop + 1], " ")
    if labels is not None:
        chosen = slice(int(labels.indptr[start]), int(labels.indptr[stop]))
        heads = _join_rows(_text_of(labels.indices[chosen], label_base), labels.indptr[start : stop + 1], ",")
        has_features = np.diff(features.indptr[start : stop + 1]) > 0
        gap = pc.if_else(pa.array(has_features), " ", "")
        lines = pc.binary_join_element_wise(heads, gap, lines, "")
    if empty_row:
        lines = pc.if_else(pc.equal(lines, empty_row.decode()), empty_row.decode() + ".0", lines)
        lines = pc.if_else(pc.equal(pc.binary_length(lines), 0), empty_row.decode(), lines)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    return bytes(joined[0].as_buffer()) + b"\n"


def _text_of(indices: np.ndarray, base: int) -> Any:
    """Numbers as an Arrow array of strings, counted from `base`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.array(indices.astype(np.int64) + base if base else indices), pa.string())


def _join_rows(tokens: Any, indptr: np.ndarray, separator: str) -> Any:
    """The tokens of each row joined, as an Arrow array of strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = pa.array((np.asarray(indptr) - indptr[0]).astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, tokens), separator)
