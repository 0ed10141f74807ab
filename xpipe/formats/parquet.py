"""The emitted dataset in Parquet, read: rows, splits, row groups, label vectors. The widths are in the schema.

Columns: sample int64, indices list<int32>, values list<float32>, labels list<int32>, label_scores list<float32>; one
row per sample. Where dataset.json counts `candidates`, there are the columns candidates list<int32> and
candidate_scores list<float32>, too. Holds no filtering and no normalising. What writes these files is
`parquet_writing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.emitted import AGAIN, DATASET_FORMAT, LABELS_SCHEMA, About, Part, list_parts, read_about
from xpipe.formats.parquet_files import (
    Columns,
    checked_matrix,
    declared_width,
    lists_to_rows,
    open_parquet,
    sample_numbers,
)
from xpipe.formats.parquet_matrix import read_matrix, write_matrix
from xpipe.formats.parquet_writing import (
    CANDIDATE_COLUMNS,
    DATASET_COLUMNS,
    EMBEDDING_COLUMNS,
    write_dataset_part,
    write_label_embedding,
    write_labels,
)
from xpipe.ground import files
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import concatenate, join_entries

__all__ = [
    "DATASET_FORMAT",
    "LABELS_SCHEMA",
    "Row",
    "check_samples",
    "dataset_files",
    "has_candidates",
    "iterate_groups",
    "iterate_rows",
    "read_about",
    "read_label_embedding",
    "read_matrix",
    "read_row_groups",
    "read_samples",
    "read_split",
    "read_split_labels",
    "row_groups",
    "write_dataset_part",
    "write_label_embedding",
    "write_labels",
    "write_matrix",
]

_COLUMNS = [name for name, _ in DATASET_COLUMNS]
_SOFT_COLUMNS = [name for name, _ in (*DATASET_COLUMNS, *CANDIDATE_COLUMNS)]


class Row(NamedTuple):
    """One sample of an emitted dataset.

    Attributes
    ----------
    sample : int
        The number of the sample in the input.
    indices, values : ndarray
        Its features: int32 numbers, ascending, and float32 values.
    labels, label_scores : ndarray
        Its labels: int32 numbers, ascending, and float32 scores.
    """

    sample: int
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    label_scores: np.ndarray


def read_split(folder: str, split: str = "train") -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of a split of an emitted dataset.

    Parameters
    ----------
    folder : str
        The folder of the dataset, with its dataset.json: `tree/` or `heads/` of a run.
    split : str
        train, test or dev.

    Returns
    -------
    X, Y : csr_matrix
        Samples x features and samples x labels, float32; the values of Y are the label scores.

    Raises
    ------
    DataError
        Where the split is missing, or a file is not what dataset.json says.

    Examples
    --------
    >>> import json
    >>> import pathlib
    >>> import tempfile
    >>> import numpy as np
    >>> from xpipe.formats.parquet import read_split, write_dataset_part
    >>> from xpipe.ground.sparse import Triple
    >>> folder, path = tempfile.TemporaryDirectory(), "split=train/part-00000.parquet"
    >>> rows = Triple(np.array([0, 1, 2]), np.array([0, 2], np.int32), np.ones(2, np.float32))
    >>> sizes = {"n_features": 3, "n_labels": 3}
    >>> part = write_dataset_part(f"{folder.name}/{path}", np.arange(2), rows, rows, **sizes, row_group=2)
    >>> about = {**sizes, "splits": {"train": {"rows": 2, "parts": [{"path": path, **part}]}}}
    >>> _ = pathlib.Path(folder.name, "dataset.json").write_text(json.dumps(about))
    >>> X, Y = read_split(folder.name)
    >>> X.toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    >>> folder.cleanup()
    """
    about = read_about(folder)
    groups = list(iterate_groups(folder, split))
    check_samples(np.concatenate([np.zeros(0, np.int64), *(group[1] for group in groups)]), f"{folder}, split {split}")
    features = concatenate([group[2] for group in groups])
    labels = concatenate([group[3] for group in groups])
    return checked_matrix(features, about["n_features"], folder), checked_matrix(labels, about["n_labels"], folder)


def read_split_labels(folder: str, split: str = "train") -> sp.csr_matrix:
    """The labels of a split as in `read_split`; the features are not read."""
    about, pieces = read_about(folder), []
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            table = parquet.read(columns=["labels", "label_scores"])
            pieces.append(lists_to_rows(table, "labels", "label_scores", part.path))
    return checked_matrix(concatenate(pieces), about["n_labels"], folder)


def read_label_embedding(folder: str) -> sp.csr_matrix | None:
    """The label vectors of an emitted dataset, labels x features, one row per label; None where it has none."""
    about = read_about(folder)
    if "label_embedding" not in about:
        return None
    pieces, labels = [], [np.zeros(0, np.int32)]
    for part in about["label_embedding"]["parts"]:
        path = files.join(folder, part["path"])
        with open_parquet(path, EMBEDDING_COLUMNS, sha256=part["sha256"], fix=AGAIN) as parquet:
            _check_width(parquet.schema_arrow, path, "n_features", about["n_features"])
            table = parquet.read(columns=[name for name, _ in EMBEDDING_COLUMNS])
            pieces.append(lists_to_rows(table, "indices", "values", path))
            labels.append(table["label"].to_numpy())
    rows = concatenate(pieces)
    if not np.array_equal(np.concatenate(labels), np.arange(about["n_labels"])):
        raise DataError(
            f"vectors of {rows.n_rows:,} labels, which are not labels 0 to {about['n_labels'] - 1:,} in order",
            where=folder, why=f"dataset.json says {about['n_labels']:,}", fix=AGAIN,
        )  # fmt: skip
    return checked_matrix(rows, about["n_features"], folder)


def dataset_files(folder: str, split: str) -> list[str]:
    """The paths of a split's files, in order. Raises DataError where the split or the dataset is missing."""
    return [part.path for part in list_parts(folder, split)]


def iterate_rows(folder: str, split: str = "train") -> Iterator[Row]:
    """The samples of an emitted dataset one by one, with one row group in memory at a time.

    Parameters
    ----------
    folder : str
        The folder of the dataset, with its dataset.json.
    split : str
        train, test or dev.

    Yields
    ------
    Row
        One sample with its features and labels.
    """
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
    """A part of an emitted dataset; its digest, rows and widths must be those that dataset.json says."""

    def __init__(self, part: Part, about: About, *, soft: bool = False):
        super().__init__(part.path, _columns_of(soft), sha256=part.sha256, fix=AGAIN)
        self.part, self.about = part, about

    def __enter__(self) -> pq.ParquetFile:
        parquet = super().__enter__()
        _check_width(parquet.schema_arrow, self.path, "n_features", self.about["n_features"])
        _check_width(parquet.schema_arrow, self.path, "n_labels", self.about["n_labels"])
        if parquet.metadata.num_rows != self.part.rows:
            raise DataError(
                f"{parquet.metadata.num_rows:,} rows in a part", where=self.path,
                why=f"dataset.json says {self.part.rows:,}", fix=AGAIN,
            )  # fmt: skip
        return parquet


def has_candidates(about: About) -> bool:
    """Whether the rows of a dataset have columns of candidates. about: its dataset.json."""
    return "candidates" in about


def _columns_of(soft: bool) -> Columns:
    """The columns that are read. soft: those of candidates, too."""
    return [*DATASET_COLUMNS, *CANDIDATE_COLUMNS] if soft else DATASET_COLUMNS


def iterate_groups(
    folder: str, split: str, first: int = 0, last: int | None = None, *, soft: bool = False
) -> Iterator[tuple[dict[str, str], np.ndarray, Triple, Triple]]:
    """(schema metadata, samples, features, labels) of each row group of the files first to last - 1; default: all.

    soft: candidates count as labels, too, where the dataset has them.
    """
    about = read_about(folder)
    soft = soft and has_candidates(about)
    for part in list_parts(folder, split, about)[first:last]:
        with _open_part(part, about, soft=soft) as parquet:
            meta = {"n_features": str(about["n_features"]), "n_labels": str(about["n_labels"])}
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group, columns=_SOFT_COLUMNS if soft else _COLUMNS)
                yield meta, *_dataset_rows(table, part.path, soft)


def _dataset_rows(table: pa.Table, path: str, soft: bool) -> tuple[np.ndarray, Triple, Triple]:
    """(samples, features, labels) of some rows of a file."""
    features = lists_to_rows(table, "indices", "values", path)
    labels = lists_to_rows(table, "labels", "label_scores", path)
    if soft:
        labels = join_entries(labels, lists_to_rows(table, "candidates", "candidate_scores", path))
    return sample_numbers(table, path), features, labels


def row_groups(folder: str, split: str) -> list[tuple[str, int, int]]:
    """(file, number of the row group in it, its rows) of every row group of a split, in order."""
    about, found = read_about(folder), []
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        found += [(part.path, group, rows) for group, rows in enumerate(sizes)]
    return found


def read_row_groups(path: str, groups: list[int], *, soft: bool = False) -> tuple[np.ndarray, Triple, Triple]:
    """(samples, features, labels) of some row groups of a file that `row_groups` listed, in the order given.

    soft: candidates count as labels, too; the file must have them (`has_candidates`).
    """
    names = _SOFT_COLUMNS if soft else _COLUMNS
    with open_parquet(path, _columns_of(soft), fix=AGAIN) as parquet:
        return _dataset_rows(parquet.read_row_groups(groups, columns=names, use_threads=False), path, soft)


def read_samples(folder: str, split: str) -> np.ndarray:
    """The sample number of each row of a split, int64."""
    about, pieces = read_about(folder), [np.zeros(0, np.int64)]
    for part in list_parts(folder, split, about):
        with _open_part(part, about) as parquet:
            pieces.append(sample_numbers(parquet.read(columns=["sample"]), part.path))
    return np.concatenate(pieces)


def _check_width(schema: pa.Schema, path: str, name: str, wanted: int) -> None:
    """Raise DataError where the schema declares another width than dataset.json."""
    found = declared_width(schema, path, name)
    if found != wanted:
        raise DataError(f"{name} is {found:,} in a part", where=path, why=f"dataset.json says {wanted:,}", fix=AGAIN)


def check_samples(samples: np.ndarray, where: str) -> None:
    """Raise DataError where a sample is there twice. Numbers may have gaps: rows may have been dropped."""
    if np.all(samples[1:] > samples[:-1]):
        return
    ordered = np.sort(samples)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise DataError(f"sample {int(twice[0])} is there twice", where=where, fix=AGAIN)
