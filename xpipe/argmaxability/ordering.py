"""An order of labels in which label sets have few sign changes, so that a DFT layer needs a smaller k.

Holds no relabelling of datasets: the order is an answer, stage `emit` applies it.

The sign changes of all sets add up to twice their labels, minus two for each pair of neighbouring labels that a set has
both of. So the order with the best mean is the heaviest path through the graph of co-occurrence. Pairs are joined
greedily, then local search improves the path. After that, the sets with the most changes get more weight, round by
round, and the search goes on: the largest number of changes falls, the mean rises.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import _ordering_numba as kernels
from xpipe.argmaxability.dft import sign_changes
from xpipe.argmaxability.sets import check_sets
from xpipe.errors import ConfigError
from xpipe.ground.sparse_rows import entries_of_rows, entry_rows, row_pointers

NEAR = 30  # labels tried beside each label
ROUNDS = 40


def order_labels(Y: Any, *, rounds: int = ROUNDS, mean_tolerance: float = 0.0, give: float | None = None) -> np.ndarray:
    """Order labels so that label sets have few sign changes, both at most and on average.

    Of all orders on the way, the one with the smallest largest number of sign changes is taken, among those that keep
    half of the improvement of the mean that local search brought over the greedy path.

    Parameters
    ----------
    Y : scipy sparse matrix, shape (n_sets, n_labels)
        One label set per row.
    rounds : int, default 40
        How often the sets with the most sign changes get more weight.
    mean_tolerance : float, default 0.0
        Allows a mean that is higher by this share.
    give : float, optional
        Old name of `mean_tolerance`.

    Returns
    -------
    ndarray of int64, shape (n_labels,)
        The labels in their new order: `Y[:, order]` has the sets in it. The same sets give the same order.

    Raises
    ------
    ConfigError
        If `rounds` or `mean_tolerance` is negative.
    DataError
        If Y is not a sparse matrix of label sets.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import order_labels, sign_changes
    >>> Y = sp.csr_matrix([[1, 0, 1, 0], [0, 1, 0, 1]])  # labels 0 and 2 go together, and 1 and 3
    >>> order = order_labels(Y)
    >>> sign_changes(Y).tolist(), sign_changes(Y[:, order]).tolist()
    ([3, 3], [1, 1])
    """
    if give is not None:
        warnings.warn(
            "option `give` of order_labels is `mean_tolerance` now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        mean_tolerance = give
    if rounds < 0 or mean_tolerance < 0:
        raise ConfigError(f"`rounds` and `mean_tolerance` must not be negative, got {rounds} and {mean_tolerance}")
    n_labels = Y.shape[1]
    indptr, indices = check_sets(Y, n_labels)
    if n_labels < 3 or not len(indices):
        return np.arange(n_labels)
    return _lower_the_largest(_Search(indptr, indices, n_labels), rounds, mean_tolerance)


def _lower_the_largest(search: _Search, rounds: int, mean_tolerance: float) -> np.ndarray:
    """The order with the smallest largest number of sign changes, among those whose mean is allowed."""
    greedy = search.join_greedily()
    changes = search.improve(np.arange(search.n_labels))
    allowed = (greedy.mean() + changes.mean()) / 2 * (1 + mean_tolerance)
    best = (int(changes.max()), float(changes.mean()), search.path.order.copy())
    weight = np.ones(len(search.indptr) - 1)
    for turn in range(rounds + 1):
        found = (int(changes.max()), float(changes.mean()), search.path.order.copy())
        if found[1] <= allowed and found[:2] < best[:2]:
            best = found
        if turn == rounds or found[0] <= 2:
            break
        worst = np.flatnonzero(changes >= found[0] - 1)
        search.add_weight(worst, weight[worst])
        weight[worst] *= 2
        changes = search.improve(search.labels_of(worst))
    return best[2]


class _Search:
    """A path through all labels, and the graph of weights that it is improved by."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, n_labels: int):
        self.indptr, self.indices, self.n_labels = indptr, indices, n_labels
        self.sets = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, n_labels))
        together = sp.csr_matrix(self.sets.T @ self.sets)
        together.setdiag(0)
        together.eliminate_zeros()
        together.sort_indices()
        self.graph = kernels.Graph(
            together.indptr.astype(np.int64), together.indices.astype(np.int64), together.data.astype(np.float64)
        )
        self.label = entry_rows(self.graph.ptr)  # of each entry of the graph
        self.path = kernels.Path(np.arange(n_labels), np.arange(n_labels))

    def changes(self) -> np.ndarray:
        """Sign changes of each set in the present order."""
        return sign_changes(self.sets[:, self.path.order])

    def join_greedily(self) -> np.ndarray:
        """Take the greedy path; returns the sign changes in it."""
        once = np.flatnonzero(self.label < self.graph.idx)
        once = once[np.argsort(-self.graph.val[once], kind="stable")]
        kernels.join_greedily(self.n_labels, self.label[once], self.graph.idx[once], self.path.order)
        return self.changes()

    def improve(self, labels: np.ndarray) -> np.ndarray:
        """Local search that starts with these labels; returns the sign changes in the new path."""
        falling = np.lexsort((-self.graph.val, self.label))
        near = self.graph.idx[falling[np.arange(len(falling)) - self.graph.ptr[self.label] < NEAR]]
        near_ptr = row_pointers(np.minimum(np.diff(self.graph.ptr), NEAR))
        self.path.place[self.path.order] = np.arange(self.n_labels)
        queue = np.zeros(self.n_labels, dtype=np.int64)
        queue[: len(labels)] = labels
        kernels.improve_path(self.path, self.graph, kernels.Near(near_ptr, near), queue, len(labels))
        return self.changes()

    def add_weight(self, sets: np.ndarray, more: np.ndarray) -> None:
        """Let some sets count more."""
        kernels.add_weight(self.graph, self.indptr, self.indices, sets, more)

    def labels_of(self, sets: np.ndarray) -> np.ndarray:
        """All labels of some sets, ascending."""
        return np.unique(self.indices[entries_of_rows(self.indptr, sets).places])
