"""Parquet: the emitted dataset (one row a sample) and plain sparse matrices. The dimension travels in the schema.

Columns of a dataset: sample int64, indices list<int32>, values list<float32>, labels list<int32>,
label_scores list<float32>; of a matrix: sample, indices, values. Holds no filtering and no normalising.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.emitted import AGAIN, DATASET_FORMAT, LABELS_SCHEMA, Part, list_parts, read_about
from xpipe.formats.parquet_files import declared_width, lists_to_rows, open_parquet, row_order, sample_numbers
from xpipe.formats.parts import concatenate
from xpipe.ground import files
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple

__all__ = ["DATASET_FORMAT", "LABELS_SCHEMA", "read_about"]

_MATRIX = [("sample", pa.int64()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))]
_EMBEDDING = [("label", pa.int32()), *_MATRIX[1:]]
_DATASET = [*_MATRIX, ("labels", pa.list_(pa.int32())), ("label_scores", pa.list_(pa.float32()))]


class Row(NamedTuple):
    """One sample of an emitted dataset."""

    sample: int
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    label_scores: np.ndarray


def write_dataset_part(
    path: str, samples: np.ndarray, features: Triple, labels: Triple, *, n_features: int, n_labels: int, row_group: int
) -> dict:
    """Write one file of an emitted dataset (label scores are the labels' values); returns rows, bytes, sha256."""
    meta = {"xpipe.format": DATASET_FORMAT, "n_features": str(n_features), "n_labels": str(n_labels)}
    schema = pa.schema(_DATASET, metadata=meta)
    columns = [pa.array(samples, pa.int64()), *_lists(features), *_lists(labels)]
    return _write(path, pa.Table.from_arrays(columns, schema=schema), row_group)


def write_labels(path: str, columns: dict[str, np.ndarray | list]) -> dict:
    """Write labels.parquet; `columns` as in LABELS_SCHEMA."""
    return _write(path, pa.Table.from_pydict(columns, schema=LABELS_SCHEMA), 1 << 20)


def write_label_embedding(path: str, labels: np.ndarray, rows: Triple, n_features: int) -> dict:
    """Write one file of label vectors, one row a label; returns rows, bytes, sha256."""
    schema = pa.schema(_EMBEDDING, metadata={"xpipe.format": DATASET_FORMAT, "n_features": str(n_features)})
    return _write(path, pa.Table.from_arrays([pa.array(labels, pa.int32()), *_lists(rows)], schema=schema), 1 << 12)


def read_label_embedding(folder: str) -> sp.csr_matrix | None:
    """Label vectors beside an emitted dataset's labels, one row a label; None where it has none."""
    about = read_about(folder)
    if "label_embedding" not in about:
        return None
    pieces, labels = [], [np.zeros(0, np.int32)]
    for part in about["label_embedding"]["parts"]:
        path = files.join(folder, part["path"])
        with open_parquet(path, _EMBEDDING, sha256=part["sha256"], fix=AGAIN) as parquet:
            _check_width(parquet.schema_arrow, path, "n_features", about["n_features"])
            table = parquet.read(columns=[name for name, _ in _EMBEDDING])
            pieces.append(lists_to_rows(table, "indices", "values", path))
            labels.append(table["label"].to_numpy())
    rows = concatenate(pieces)
    if not np.array_equal(np.concatenate(labels), np.arange(about["n_labels"])):
        raise DataError(
            f"vectors of {rows.n_rows:,} labels, which are not labels 0 to {about['n_labels'] - 1:,} in order",
            where=folder, why=f"dataset.json says {about['n_labels']:,}", fix=AGAIN,
        )  # fmt: skip
    return _matrix(rows, about["n_features"], folder)


def _lists(triple: Triple) -> tuple[pa.Array, pa.Array]:
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


def _write(path: str, table: pa.Table, row_group: int) -> dict:
    sink = pa.BufferOutputStream()
    # Index lists repeat their values, so a dictionary shrinks them; float values do not.
    repeating = [name for name in table.schema.names if name in ("indices", "labels")]
    columns = [f"{name}.list.element" for name in repeating]
    pq.write_table(
        table,
        sink,
        row_group_size=row_group,
        compression="zstd",
        use_dictionary=columns or False,
        write_page_checksum=True,
    )
    content = sink.getvalue()
    with files.open_write(path) as stream:
        stream.write(content)
    return {"rows": table.num_rows, "bytes": content.size, "sha256": hashlib.sha256(content).hexdigest()}


def dataset_files(folder: str, split: str) -> list[str]:
    """Paths of a split's files in order. Raises DataError where the split or the dataset is not there."""
    return [part.path for part in list_parts(folder, split)]


def iterate_rows(folder: str, split: str = "train") -> Iterator[Row]:
    """The samples of an emitted dataset one by one, a row group in memory at a time."""
    for _, samples, features, labels in iterate_groups(folder, split):
        for row in range(len(samples)):
            inside = slice(features.indptr[row], features.indptr[row + 1])
            owned = slice(labels.indptr[row], labels.indptr[row + 1])
            yield Row(
                int(samples[row]),
                features.indices[inside],
                features.values[inside],
                labels.indices[owned],
                labels.values[owned],
            )


class _open_part(open_parquet):
    """A part of an emitted dataset, whose digest, rows and widths are those that dataset.json says."""

    def __init__(self, part: Part, about: Any):
        super().__init__(part.path, _DATASET, sha256=part.sha256, fix=AGAIN)
        self.part, self.about = part, about

    def __enter__(self) -> pq.ParquetFile:
        parquet = super().__enter__()
        for name in ("n_features", "n_labels"):
            _check_width(parquet.schema_arrow, self.path, name, self.about[name])
        if parquet.metadata.num_rows != self.part.rows:
            raise DataError(
                f"{parquet.metadata.num_rows:,} rows in a part", where=self.path,
                why=f"dataset.json says {self.part.rows:,}", fix=AGAIN,
            )  # fmt: skip
        return parquet


def iterate_groups(folder: str, split: str) -> Iterator[tuple[dict, np.ndarray, Triple, Triple]]:
    """(schema metadata, samples, features, labels) of each row group."""
    about = read_about(folder)
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            meta = {key: str(about[key]) for key in ("n_features", "n_labels")}
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group, columns=[name for name, _ in _DATASET])
                yield meta, *_dataset_rows(table, part.path)


def _dataset_rows(table: pa.Table, path: str) -> tuple[np.ndarray, Triple, Triple]:
    features = lists_to_rows(table, "indices", "values", path)
    return sample_numbers(table, path), features, lists_to_rows(table, "labels", "label_scores", path)


def row_groups(folder: str, split: str) -> list[tuple[str, int, int]]:
    """(file, number of the row group in it, its rows) of every row group of a split, in order."""
    about, found = read_about(folder), []
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        found += [(part.path, group, rows) for group, rows in enumerate(sizes)]
    return found


def read_row_groups(path: str, groups: list[int]) -> tuple[np.ndarray, Triple, Triple]:
    """(samples, features, labels) of some row groups of a file that `row_groups` listed, in the order given."""
    with open_parquet(path, _DATASET, fix=AGAIN) as parquet:
        columns = [name for name, _ in _DATASET]
        return _dataset_rows(parquet.read_row_groups(groups, columns=columns, use_threads=False), path)


def read_samples(folder: str, split: str) -> np.ndarray:
    """Sample numbers of a split's rows, int64."""
    about, pieces = read_about(folder), [np.zeros(0, np.int64)]
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            pieces.append(sample_numbers(parquet.read(columns=["sample"]), part.path))
    return np.concatenate(pieces)


def read_split(folder: str, split: str = "train") -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(X, Y) of an emitted dataset's split; Y's values are the label scores."""
    about = read_about(folder)
    groups = list(iterate_groups(folder, split))
    _check_samples(np.concatenate([np.zeros(0, np.int64), *(group[1] for group in groups)]), f"{folder}, split {split}")
    features = concatenate([group[2] for group in groups])
    labels = concatenate([group[3] for group in groups])
    return _matrix(features, about["n_features"], folder), _matrix(labels, about["n_labels"], folder)


def read_split_labels(folder: str, split: str = "train") -> sp.csr_matrix:
    """Y of an emitted dataset's split as in `read_split`; the features are not read."""
    about, pieces = read_about(folder), []
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            table = parquet.read(columns=["labels", "label_scores"])
            pieces.append(lists_to_rows(table, "labels", "label_scores", part.path))
    return _matrix(concatenate(pieces), about["n_labels"], folder)


def write_matrix(path: str, matrix: sp.csr_matrix) -> None:
    """Any sparse matrix as one Parquet file: sample, indices, values, with n_columns in the schema."""
    triple = to_triple(canonical(matrix, path))
    schema = pa.schema(_MATRIX, metadata={"xpipe.format": DATASET_FORMAT, "n_columns": str(matrix.shape[1])})
    samples = pa.array(np.arange(triple.n_rows), pa.int64())
    _write(path, pa.Table.from_arrays([samples, *_lists(triple)], schema=schema), 1 << 16)


def read_matrix(path: str) -> sp.csr_matrix:
    """A matrix written by `write_matrix`, or the features of one file of an emitted dataset.

    The column `sample` numbers the rows of a matrix from 0 on and puts them in order. A dataset's file numbers the
    samples of its input, so its rows stay where they are, and must follow each other.
    """
    with open_parquet(path, _MATRIX) as parquet:
        schema = parquet.schema_arrow
        width = declared_width(schema, path, "n_columns", "n_features")
        table = parquet.read(columns=[name for name, _ in _MATRIX])
        rows = lists_to_rows(table, "indices", "values", path)
        samples = sample_numbers(table, path)
    first = int(samples[0]) if len(samples) else 0
    part_of_many = b"n_columns" not in (schema.metadata or {})
    if part_of_many and np.array_equal(samples, np.arange(first, first + len(samples))):
        return _matrix(rows, width, path)
    order = row_order(samples, path)
    matrix = _matrix(rows, width, path)
    return matrix if order is None else canonical(matrix[order], path)


def _check_width(schema: pa.Schema, path: str, name: str, wanted: int) -> None:
    found = declared_width(schema, path, name)
    if found != wanted:
        raise DataError(f"{name} is {found:,} in a part", where=path, why=f"dataset.json says {wanted:,}", fix=AGAIN)


def _check_samples(samples: np.ndarray, where: str) -> None:
    """Raise DataError where a sample is there twice. Numbers need not follow each other: rows may have been dropped."""
    if np.all(samples[1:] > samples[:-1]):
        return
    ordered = np.sort(samples)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise DataError(f"sample {int(twice[0])} is there twice", where=where, fix=AGAIN)


def _matrix(triple: Triple, n_columns: int, what: str) -> sp.csr_matrix:
    """A checked matrix: others may have written or changed the file."""
    return canonical(to_matrix(triple, n_columns), what)
