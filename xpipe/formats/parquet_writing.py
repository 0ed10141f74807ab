"""Parquet files of the emitted dataset, written: parts of rows, the table of labels, label vectors.

Holds no reading, no filtering and no normalising of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.formats.emitted import LABELS_SCHEMA
from xpipe.formats.parquet_files import Columns
from xpipe.ground import files
from xpipe.ground.sparse import Triple

FILE_FORMAT = "1"  # of the columns of one file; that of whole datasets is `emitted.DATASET_FORMAT`
MATRIX_COLUMNS = [("sample", pa.int64()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))]
EMBEDDING_COLUMNS = [("label", pa.int32()), *MATRIX_COLUMNS[1:]]
DATASET_COLUMNS = [*MATRIX_COLUMNS, ("labels", pa.list_(pa.int32())), ("label_scores", pa.list_(pa.float32()))]
CANDIDATE_COLUMNS = [("candidates", pa.list_(pa.int32())), ("candidate_scores", pa.list_(pa.float32()))]


class WrittenFile(TypedDict):
    """The size of a file that was written, and its digest."""

    rows: int
    bytes: int
    sha256: str


def write_dataset_part(
    path: str,
    samples: np.ndarray,
    features: Triple,
    labels: Triple,
    *,
    n_features: int,
    n_labels: int,
    row_group: int,
    candidates: Triple | None = None,
    beside: Mapping[str, pa.ChunkedArray] | None = None,
) -> WrittenFile:
    """Write one file of an emitted dataset.

    Parameters
    ----------
    path : str
        The file appears there only when it is complete.
    samples : ndarray
        int64 [n]: the number of each sample in the input.
    features, labels : Triple
        CSR arrays of n rows; the values of the labels are their scores.
    n_features, n_labels : int
        The widths, which go into the schema.
    row_group : int
        Rows of one Parquet row group.
    candidates : Triple, optional
        CSR arrays of n rows: labels that a row less likely has, with their chances.
    beside : mapping of str to ChunkedArray, optional
        Further columns, which follow the others: ids and groups of the rows.

    Returns
    -------
    WrittenFile
        Rows, bytes and SHA-256 of the file.
    """
    widths = {"n_features": str(n_features), "n_labels": str(n_labels)}
    # pages begin where arrays do: one array, however many units were read together
    more = {name: column.combine_chunks() for name, column in (beside or {}).items()}
    likely = () if candidates is None else lists_of_rows(candidates)
    columns = [pa.array(samples, pa.int64()), *lists_of_rows(features), *lists_of_rows(labels), *likely, *more.values()]
    known = [*DATASET_COLUMNS, *(CANDIDATE_COLUMNS if likely else [])]
    schema = [*known, *((name, column.type) for name, column in more.items())]
    return write_table(path, schema, columns, widths, row_group)


def write_labels(path: str, columns: Mapping[str, np.ndarray | list[Any]]) -> WrittenFile:
    """Write labels.parquet, one row per label; `columns` as in LABELS_SCHEMA."""
    return _write(path, pa.Table.from_pydict(columns, schema=LABELS_SCHEMA), 1 << 20)


def write_label_embedding(path: str, labels: np.ndarray, rows: Triple, n_features: int) -> WrittenFile:
    """Write one file of label vectors, one row per label; labels: int32, the number of the label of each row."""
    columns = [pa.array(labels, pa.int32()), *lists_of_rows(rows)]
    return write_table(path, EMBEDDING_COLUMNS, columns, {"n_features": str(n_features)}, 1 << 12)


def write_table(
    path: str, schema: Columns, columns: Sequence[pa.Array], widths: dict[str, str], row_group: int
) -> WrittenFile:
    """Write columns under a schema whose metadata has the version of the file and the widths of the matrices."""
    metadata = {"xpipe.format": FILE_FORMAT, **widths}
    return _write(path, pa.Table.from_arrays(columns, schema=pa.schema(schema, metadata=metadata)), row_group)


def lists_of_rows(triple: Triple) -> tuple[pa.Array, pa.Array]:
    """CSR arrays as two columns of lists: indices and values of each row."""
    if triple.indptr[-1] >= 2**31:
        raise DataError(
            f"{int(triple.indptr[-1]):,} entries in one file",
            why="Parquet lists have 32-bit offsets",
            fix="lower data.part_rows",
        )
    offsets = pa.array(triple.indptr.astype(np.int32))
    return (
        pa.ListArray.from_arrays(offsets, pa.array(triple.indices, pa.int32())),
        pa.ListArray.from_arrays(offsets, pa.array(triple.values, pa.float32())),
    )


def _write(path: str, table: pa.Table, row_group: int) -> WrittenFile:
    """Write a table; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    # Index lists repeat their values, so a dictionary shrinks them; float values do not.
    repeating = [f"{name}.list.element" for name in table.schema.names if name in ("indices", "labels", "candidates")]
    pq.write_table(
        table,
        sink,
        row_group_size=row_group,
        compression="zstd",
        use_dictionary=repeating or False,
        write_page_checksum=True,
    )
    return WrittenFile(rows=table.num_rows, **files.write_digested(path, sink.getvalue()))
