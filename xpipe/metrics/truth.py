"""What scores are measured against, as raw arrays: true labels, filter pairs, inverse propensities.

Holds no scores and no metric.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.sparse import canonical, read_only
from xpipe.ground.sparse_rows import entry_rows, kept_pointers, row_pointers

LabelMatrix: TypeAlias = sp.spmatrix | np.ndarray  # rows x labels; entries that are not 0 are true


class Filters(NamedTuple):
    """Labels that each row leaves out, ascending: labels[ptr[row] : ptr[row + 1]]; ptr int64, labels int32."""

    ptr: np.ndarray
    labels: np.ndarray


class Truth(NamedTuple):
    """True labels of each row, ascending: labels[ptr[row] : ptr[row + 1]]; ptr int64, labels int32.

    filtered: how many true labels the filter has removed.
    """

    ptr: np.ndarray
    labels: np.ndarray
    filtered: int


def make_filters(pairs: Any, n_rows: int, n_labels: int) -> Filters:
    """Filter pairs [n, 2] by row; None for no pairs. Raises DataError unless each is a row and a label that exist."""
    array = np.zeros((0, 2), np.int64) if pairs is None else np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or (array.dtype.kind not in "iu" and array.size):
        raise DataError(
            f"filter_labels must be whole numbers [n, 2], not {array.dtype} {array.shape}",
            fix="pairs of row and label, as xpipe.formats.read_filter_labels gives them",
        )
    for column, (name, width) in enumerate((("row", n_rows), ("label", n_labels))):
        bad = np.flatnonzero((array[:, column] < 0) | (array[:, column] >= width))
        if len(bad):
            raise DataError(
                f"filter_labels name {name} {array[bad[0], column]}, but {name}s are 0..{width - 1}",
                where=f"pair {int(bad[0])}",
                fix="check that the filter belongs to these rows; it counts from 0",
            )
    keys = np.unique(array[:, 0].astype(np.int64) * n_labels + array[:, 1].astype(np.int64))
    rows, labels = np.divmod(keys, max(n_labels, 1))
    ptr = row_pointers(np.bincount(rows, minlength=n_rows))
    return Filters(read_only(ptr), read_only(labels.astype(np.int32)))


def check_truth(truth: Any) -> sp.csr_matrix:
    """True labels as a canonical CSR matrix without zeros, from a sparse matrix or an array. Raises DataError."""
    if isinstance(truth, np.ndarray) and truth.ndim == 2 and truth.dtype.kind in "biuf":
        truth = sp.csr_matrix(truth)
    matrix = canonical(truth, "true labels")
    if matrix.nnz and not matrix.data.all():
        matrix.eliminate_zeros()
    return matrix


def check_weights(inverse_propensity: np.ndarray | None, n_labels: int) -> np.ndarray:
    """Inverse propensities in float64, empty for None. Raises DataError unless there is one above 0 per label."""
    if inverse_propensity is None:
        return read_only(np.zeros(0))
    weights = np.asarray(inverse_propensity, dtype=np.float64)
    if weights.shape != (n_labels,):
        raise DataError(
            f"inverse_propensity has shape {weights.shape}, but there are {n_labels:,} labels",
            fix="count labels in the training rows of the same dataset: xpipe.metrics.inverse_propensity(...)",
        )
    bad = np.flatnonzero(~((weights > 0) & np.isfinite(weights)))
    if len(bad):
        raise DataError(
            f"an inverse propensity is {weights[bad[0]]}", where=f"label {int(bad[0])}", fix="it must be above 0"
        )
    return read_only(np.ascontiguousarray(weights))


def take_filtered(matrix: sp.csr_matrix, filters: Filters) -> Truth:
    """The true labels without the pairs of the filter."""
    indptr, labels = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    if not len(filters.labels):
        return Truth(read_only(indptr), read_only(labels), 0)
    keys = entry_rows(indptr) * matrix.shape[1] + labels
    kept = ~np.isin(keys, entry_rows(filters.ptr) * matrix.shape[1] + filters.labels)
    return Truth(read_only(kept_pointers(indptr, kept)), read_only(labels[kept]), int((~kept).sum()))
