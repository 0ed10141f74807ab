"""Parquet: the emitted dataset (one row a sample) and plain sparse matrices. The dimension travels in the schema.

Columns of a dataset: sample int64, indices list<int32>, values list<float32>, labels list<int32>,
label_scores list<float32>; of a matrix: sample, indices, values. Holds no filtering and no normalising.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe import files
from xpipe.errors import DataError
from xpipe.formats.parts import concatenate
from xpipe.sparse import Triple, canonical, to_matrix, to_triple

DATASET_FORMAT = "1"
_MATRIX = [("sample", pa.int64()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))]
_EMBEDDING = [("label", pa.int32()), *_MATRIX[1:]]
_DATASET = [*_MATRIX, ("labels", pa.list_(pa.int32())), ("label_scores", pa.list_(pa.float32()))]
LABELS_SCHEMA = pa.schema(
    [
        ("label", pa.int32()),
        ("original_label", pa.int32()),
        ("name", pa.string()),
        ("frequency", pa.int64()),
        ("inverse_propensity", pa.float64()),
    ]
)


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
    pieces = []
    for part in about["label_embedding"]["parts"]:
        path = files.join(folder, part["path"])
        with _open(path, _EMBEDDING) as parquet:
            pieces.append(_triple(parquet.read(), "indices", "values", path))
    rows = concatenate(pieces)
    if rows.n_rows != about["n_labels"]:
        raise DataError(
            f"vectors of {rows.n_rows:,} labels", where=folder, why=f"dataset.json says {about['n_labels']:,}",
            fix="emit the dataset again",
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
    about = read_about(folder)
    if split not in about["splits"]:
        raise DataError(
            f"no split {split!r} in {folder}", why=f"it has {', '.join(about['splits'])}", fix="name one of these"
        )
    return [files.join(folder, part["path"]) for part in about["splits"][split]["parts"]]


def read_about(folder: str) -> dict:
    """dataset.json of an emitted dataset."""
    path = files.join(folder, "dataset.json")
    if not files.exists(path):
        raise DataError(
            f"no emitted dataset in {folder}", why="dataset.json is missing", fix="give its tree/ or heads/ folder"
        )
    try:
        about = json.loads(files.read_bytes(path))
    except ValueError as error:
        raise DataError("dataset.json is not JSON", where=path, why=str(error), fix="emit the dataset again") from error
    missing = [key for key in ("splits", "n_features", "n_labels") if not isinstance(about, dict) or key not in about]
    if missing:
        raise DataError(f"dataset.json has no {', '.join(missing)}", where=path, fix="emit the dataset again")
    return about


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


def iterate_groups(folder: str, split: str) -> Iterator[tuple[dict, np.ndarray, Triple, Triple]]:
    """(schema metadata, samples, features, labels) of each row group."""
    for path in dataset_files(folder, split):
        with _open(path, _DATASET) as parquet:
            meta = {key.decode(): value.decode() for key, value in (parquet.schema_arrow.metadata or {}).items()}
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group)
                yield (
                    meta,
                    table["sample"].to_numpy(),
                    _triple(table, "indices", "values", path),
                    _triple(table, "labels", "label_scores", path),
                )


def row_groups(folder: str, split: str) -> list[tuple[str, int, int]]:
    """(file, number of the row group in it, its rows) of every row group of a split, in order."""
    found = []
    for path in dataset_files(folder, split):
        with _open(path, _DATASET) as parquet:
            sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        found += [(path, group, rows) for group, rows in enumerate(sizes)]
    return found


def read_row_groups(path: str, groups: list[int]) -> tuple[np.ndarray, Triple, Triple]:
    """(samples, features, labels) of some row groups of a file, in the order given."""
    with _open(path, _DATASET) as parquet:
        table = parquet.read_row_groups(groups, use_threads=False)
        features = _triple(table, "indices", "values", path)
        return table["sample"].to_numpy(), features, _triple(table, "labels", "label_scores", path)


def read_samples(folder: str, split: str) -> np.ndarray:
    """Sample numbers of a split's rows, int64."""
    pieces = [np.zeros(0, np.int64)]
    for path in dataset_files(folder, split):
        with _open(path, _DATASET) as parquet:
            pieces.append(parquet.read(columns=["sample"])["sample"].to_numpy())
    return np.concatenate(pieces)


def read_split(folder: str, split: str = "train") -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(X, Y) of an emitted dataset's split; Y's values are the label scores."""
    about = read_about(folder)
    groups = list(iterate_groups(folder, split))
    features = concatenate([group[2] for group in groups])
    labels = concatenate([group[3] for group in groups])
    wanted = about["splits"][split]["rows"]
    if features.n_rows != wanted:
        raise DataError(
            f"split {split!r} has {features.n_rows:,} rows", where=folder, why=f"dataset.json says {wanted:,}",
            fix="emit the dataset again",
        )  # fmt: skip
    return _matrix(features, about["n_features"], folder), _matrix(labels, about["n_labels"], folder)


def read_split_labels(folder: str, split: str = "train") -> sp.csr_matrix:
    """Y of an emitted dataset's split as in `read_split`; the features are not read."""
    pieces = []
    for path in dataset_files(folder, split):
        with _open(path, _DATASET) as parquet:
            table = parquet.read(columns=["labels", "label_scores"])
            pieces.append(_triple(table, "labels", "label_scores", path))
    return _matrix(concatenate(pieces), read_about(folder)["n_labels"], folder)


def write_matrix(path: str, matrix: sp.csr_matrix) -> None:
    """Any sparse matrix as one Parquet file: sample, indices, values, with n_columns in the schema."""
    triple = to_triple(canonical(matrix, path))
    schema = pa.schema(_MATRIX, metadata={"xpipe.format": DATASET_FORMAT, "n_columns": str(matrix.shape[1])})
    samples = pa.array(np.arange(triple.n_rows), pa.int64())
    _write(path, pa.Table.from_arrays([samples, *_lists(triple)], schema=schema), 1 << 16)


def read_matrix(path: str) -> sp.csr_matrix:
    """A matrix written by `write_matrix`, or the features of one file of an emitted dataset."""
    with _open(path, _MATRIX) as parquet:
        meta = parquet.schema_arrow.metadata or {}
        width = meta.get(b"n_columns") or meta.get(b"n_features") or b""
        if not width.isdigit():
            raise DataError(
                "a Parquet file without its number of columns",
                where=path,
                why="the schema's metadata has neither n_columns nor n_features",
                fix="write it with xpipe.formats.write_sparse",
            )
        table = parquet.read(columns=["indices", "values"])
        triple = _triple(table, "indices", "values", path)
    return _matrix(triple, int(width), path)


def _matrix(triple: Triple, n_columns: int, what: str) -> sp.csr_matrix:
    """A checked matrix: others may have written or changed the file."""
    return canonical(to_matrix(triple, n_columns), what)


def _triple(table: pa.Table, indices: str, values: str, path: str) -> Triple:
    pieces: list[Triple] = []
    for chunk, value_chunk in zip(table[indices].chunks, table[values].chunks, strict=True):
        if any(array.null_count for part in (chunk, value_chunk) for array in (part, part.flatten())):
            raise DataError(
                f"a null among {indices} or {values}", where=path, fix="write empty lists for rows without entries"
            )
        offsets, value_offsets = chunk.offsets.to_numpy().astype(np.int64), value_chunk.offsets.to_numpy()
        lengths = np.diff(offsets)
        uneven = np.flatnonzero(lengths != np.diff(value_offsets))
        if len(uneven):
            raise DataError(
                f"{indices} and {values} of a row have different lengths",
                where=f"{path}, row {sum(piece.n_rows for piece in pieces) + int(uneven[0])}",
                fix="write one value for each index",
            )
        pieces.append(Triple(offsets - offsets[0], chunk.flatten().to_numpy(), value_chunk.flatten().to_numpy()))
    return concatenate(pieces)


class _open:
    """A Parquet file with the columns wanted, or an error that says what it is instead."""

    def __init__(self, path: str, columns: list):
        self.path, self.columns = path, columns

    def __enter__(self) -> pq.ParquetFile:
        path = files.local(self.path)
        if not files.exists(path):
            raise DataError("a Parquet file is missing", where=path, fix="write it again")
        try:
            source = pa.memory_map(path) if files.is_local(path) else pa.BufferReader(files.read_bytes(path))
            self.file = pq.ParquetFile(source, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        have = {field.name: field.type for field in self.file.schema_arrow}
        wrong = [name for name, kind in self.columns if have.get(name) != kind]
        if wrong:
            raise DataError(
                f"a Parquet file without the columns {', '.join(wrong)}",
                where=self.path,
                why=f"it has {', '.join(f'{name} {kind}' for name, kind in have.items())}",
                fix="columns wanted: " + ", ".join(f"{name} {kind}" for name, kind in self.columns),
            )
        return self.file

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.file.close()
        if isinstance(error, pa.ArrowException | OSError):  # what is damaged inside shows only when it is read
            raise self._unreadable(error) from error

    def _unreadable(self, error: BaseException) -> DataError:
        return DataError("not a whole Parquet file", where=self.path, why=str(error), fix="write it again")
