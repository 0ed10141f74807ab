"""XMC-repository text: header `n_samples n_features n_labels`, then a line `label,label feature:value ...` a sample.

Holds no parsing of tokens: that is `text` and its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import write_stream
from xpipe.formats.source import Reject, Rows, TextSource
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import Triple, canonical, check_shapes, to_matrix, to_triple

BLOCK_ENTRIES = 1 << 20  # entries formatted at a time: keeps Arrow's 32-bit string offsets and our memory small


def read_xmc(
    path: str,
    *,
    header: bool = True,
    n_samples: int | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    index_base: int = 0,
    label_base: int = 0,
    on_bad_row: str = "error",
    rejects: list[Reject] | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels (value 1) of an XMC text file, plain or gzip, as float32 CSR matrices counted from 0.

    header=False needs n_features and n_labels; blank lines in such a file need n_samples too. index_base and label_base
    say whether the file counts features and labels from 0 or from 1. on_bad_row="drop" leaves bad rows out and adds
    them to the list `rejects`, which must then be given. threads=None uses every core. Raises DataError with file,
    line and token for anything else that is not right.
    """
    from xpipe.formats.text import open_text

    source = open_text(
        path,
        "xmc",
        n_rows=n_samples,
        n_features=n_features,
        n_labels=n_labels,
        header=header,
        index_base=index_base,
        label_base=label_base,
    )
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)
    assert rows.labels is not None
    return to_matrix(rows.features, source.n_features), to_matrix(rows.labels, source.n_labels)


def read_rows(source: TextSource, *, on_bad_row: str, rejects: list[Reject] | None, threads: int | None) -> Rows:
    """All rows of a text file, their number checked against the header's; bad rows are never dropped silently."""
    from xpipe.formats.text import check_row_count, parse_range

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
    available = usable_cores()
    return min(available, 16)


def write_xmc(path: str, X: sp.csr_matrix, Y: sp.csr_matrix, *, index_base: int = 0, label_base: int = 0) -> None:
    """Write XMC text with its header, gzip where the name ends in .gz; the file appears only when complete.

    Raises DataError for shapes that do not fit, values that are not finite and label weights other than 1.
    """
    X, Y = canonical(X, "features"), canonical(Y, "labels")
    check_shapes(X, Y=Y)
    with write_stream(path) as stream:
        stream.write(b"%d %d %d\n" % (X.shape[0], X.shape[1], Y.shape[1]))
        for block in format_blocks(to_triple(X), to_triple(Y), index_base=index_base, label_base=label_base):
            stream.write(block)


def format_rows(
    features: Triple, labels: Triple | None, *, index_base: int = 0, label_base: int = 0, empty_row: bytes = b""
) -> bytes:
    r"""XMC text of the rows, one line each, ending in `\n`; values as the shortest decimal that reads back the same.

    A row without labels starts with a space; a row without features has no trailing space (omikuji refuses one); a row
    with neither is `empty_row`, an empty line; a row that would look like it says `.0`. `labels=None` writes no label
    column at all (rows of a split file).
    Raises DataError where a label has a weight other than 1, which this format cannot hold.
    """
    return b"".join(format_blocks(features, labels, index_base=index_base, label_base=label_base, empty_row=empty_row))


def format_blocks(
    features: Triple, labels: Triple | None, *, index_base: int = 0, label_base: int = 0, empty_row: bytes = b""
) -> Iterator[bytes]:
    """The lines of `format_rows`, a bounded block at a time."""
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


def _format_block(features: Triple, labels: Triple | None, rows: range, *, index_base, label_base, empty_row) -> bytes:
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
    return joined[0].as_buffer().to_pybytes() + b"\n"


def _text_of(indices: np.ndarray, base: int):
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.array(indices.astype(np.int64) + base if base else indices), pa.string())


def _join_rows(tokens, indptr: np.ndarray, separator: str):
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = pa.array((np.asarray(indptr) - indptr[0]).astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, tokens), separator)
