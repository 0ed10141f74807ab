"""Label sets as sparse matrices, one row per set: checked, and made distinct.

Holds no reading of files and no verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.sparse import canonical
from xpipe.ground.sparse_rows import entries_of_rows


def check_sets(Y: Any, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, indices) of label sets, int64. Raises DataError unless Y is sparse with one column per label."""
    Y = canonical(Y, "label sets")
    if Y.shape[1] != n_labels:
        raise DataError(
            f"label sets of {Y.shape[1]:,} labels, but weights of {n_labels:,}",
            why="column i of the label sets and row i of the weights must be the same label",
            fix="check that both come from the same dataset, and that the weights are not transposed",
        )
    if len(Y.data) and Y.data.min() < 0:
        raise DataError("label sets have negative entries", fix="1 for the labels of a set, nothing for the others")
    if len(Y.data) and not Y.data.all():
        Y.eliminate_zeros()
    return Y.indptr.astype(np.int64), Y.indices.astype(np.int64)


def distinct_sets(Y: Any, n_labels: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Find the distinct label sets of a matrix.

    Parameters
    ----------
    Y : scipy sparse matrix, shape (n_sets, n_labels)
        One label set per row; entries that are not 0 are its labels.
    n_labels : int
        The number of labels that the matrix must have.

    Returns
    -------
    sets : scipy.sparse.csr_matrix of float32, shape (n_distinct, n_labels)
        Each set once, in the order of first appearance.
    member : ndarray of int64, shape (n_sets,)
        For each row of Y, its row in `sets`: `sets[member]` has the sets of Y.

    Raises
    ------
    DataError
        If Y is not a sparse matrix with `n_labels` columns and entries of at least 0.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import distinct_sets
    >>> sets, member = distinct_sets(sp.csr_matrix([[1, 0], [0, 1], [1, 0]]), n_labels=2)
    >>> sets.toarray().tolist(), member.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0, 1, 0])
    """
    indptr, indices = check_sets(Y, n_labels)
    seen: dict[bytes, int] = {}
    member = np.empty(len(indptr) - 1, dtype=np.int64)
    first: list[int] = []
    for row in range(len(member)):
        key = indices[indptr[row] : indptr[row + 1]].tobytes()
        number = seen.setdefault(key, len(seen))
        if number == len(first):
            first.append(row)
        member[row] = number
    pointers, places = entries_of_rows(indptr, np.array(first, dtype=np.int64))
    kept = indices[places]
    return sp.csr_matrix((np.ones(len(kept), np.float32), kept, pointers), shape=(len(first), n_labels)), member
