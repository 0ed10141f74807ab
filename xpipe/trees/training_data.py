"""What a forest is trained on: checked rows, the factors they count with, and the rows of each label.

Holds no tree and no training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.sparse import Triple, canonical, check_shapes, row_norms, to_matrix, to_triple
from xpipe.ground.sparse_rows import concatenate, kept_pointers, take_rows


class Piece(NamedTuple):
    """Some consecutive rows of all rows, and which of them are wanted."""

    triple: Triple  # rows start, start + 1, ... of all rows
    start: int
    rows: np.ndarray  # int64: wanted rows of the triple, counted from its first


class Rows(Protocol):
    """Where training takes rows from: memory, or files of which a piece at a time is opened."""

    @property
    def n_rows(self) -> int:
        """All rows."""
        ...

    @property
    def n_entries(self) -> int:
        """Stored entries of all rows."""
        ...

    def pieces(self, rows: np.ndarray) -> Iterator[Piece]:
        """The pieces with the rows asked for (ascending), in order."""
        ...


class RowsInMemory(NamedTuple):
    """Rows in memory, which are one piece."""

    triple: Triple

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.triple.n_rows

    @property
    def n_entries(self) -> int:
        """Stored entries of all rows."""
        return int(self.triple.indptr[-1])

    def pieces(self, rows: np.ndarray) -> Iterator[Piece]:
        """All rows as one piece."""
        yield Piece(self.triple, 0, rows)


@dataclass(frozen=True)
class TrainingData:
    """Rows and their labels, checked. Made by `prepare_data`, or around rows that are in files."""

    X: Rows  # samples x features
    n_features: int
    scales: np.ndarray  # float32: the factor of each row
    label_rows: sp.csr_matrix  # labels x samples; values: the chances of positives

    def take(self, rows: np.ndarray) -> Triple:
        """Copies of some rows, which must ascend."""
        return concatenate([take_rows(piece.triple, piece.rows) for piece in self.X.pieces(rows)])

    @property
    def n_labels(self) -> int:
        """All labels, with and without positives."""
        return int(self.label_rows.shape[0])

    @property
    def labels(self) -> np.ndarray:
        """Labels with positives, ascending, int64."""
        return np.flatnonzero(np.diff(self.label_rows.indptr))


def prepare_data(
    X: sp.csr_matrix, Y: sp.csr_matrix, label_scores: sp.csr_matrix | None = None, *, normalize: bool = True
) -> TrainingData:
    """Check what a forest is trained on, and transpose its labels.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Features.
    Y : scipy.sparse.csr_matrix of shape (n_samples, n_labels)
        Labels; stored entries that are not 0 are positives, whatever their values.
    label_scores : scipy.sparse.csr_matrix of shape (n_samples, n_labels), optional
        The chance that each positive is one, with the same stored entries as Y. A positive with a chance below 1 counts
        less, and as a negative as far as the row has other labels. Scores above 1 make it count more.
    normalize : bool
        Whether rows count as unit vectors.

    Returns
    -------
    TrainingData
        The rows and labels as training takes them.

    Raises
    ------
    DataError
        A matrix is wrong, or the matrices do not fit each other.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import prepare_data
    >>> prepare_data(sp.eye(4, format="csr"), sp.eye(4, 6, format="csr")).labels.tolist()
    [0, 1, 2, 3]
    """
    X, Y = canonical(X, "features (X)"), canonical(Y, "labels (Y)")
    check_shapes(X, Y=Y)
    weights = np.ones(Y.nnz, dtype=np.float32) if label_scores is None else _checked_scores(label_scores, Y)
    triple = to_triple(X)
    scales = row_scales(triple) if normalize else np.ones(X.shape[0], dtype=np.float32)
    return TrainingData(RowsInMemory(triple), X.shape[1], scales, rows_of_labels(Y, weights))


def _checked_scores(label_scores: sp.csr_matrix, Y: sp.csr_matrix) -> np.ndarray:
    """The values of label_scores, one per entry of Y. Raises DataError where they do not fit."""
    scores = canonical(label_scores, "label_scores")
    same = scores.shape == Y.shape and scores.nnz == Y.nnz
    if not (same and np.array_equal(scores.indptr, Y.indptr) and np.array_equal(scores.indices, Y.indices)):
        raise DataError(
            "label_scores do not fit the labels (Y)",
            why=f"they have {scores.nnz:,} entries in {scores.shape}, the labels {Y.nnz:,} in {Y.shape}",
            fix="give one score for every entry of Y and no other",
        )
    if (scores.data < 0).any():
        raise DataError("label_scores has a value below 0", fix="scores are chances: give them from 0 on")
    weights: np.ndarray = scores.data
    return weights


def rows_of_labels(Y: sp.csr_matrix, weights: np.ndarray) -> sp.csr_matrix:
    """labels x samples: the positives of each label and their weights, samples ascending."""
    positive = Y.data != 0
    indptr = kept_pointers(Y.indptr, positive)
    owned = to_matrix(Triple(indptr, Y.indices[positive].astype(np.int32), np.arange(positive.sum())), Y.shape[1])
    label_rows = owned.tocsc().T  # CSR of the transpose; its values are the places that the entries had
    label_rows.data = weights[positive][label_rows.data]
    return label_rows


def row_scales(X: Triple) -> np.ndarray:
    """1 / length of each row, float32; 0 for rows of zeros."""
    norms = row_norms(X)
    scales: np.ndarray = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0)
    return scales.astype(np.float32)
