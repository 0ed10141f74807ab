"""An order of labels in which label sets have few sign changes, so that a DFT head needs a smaller k.

Holds no relabelling of datasets: the order is an answer, `emit` applies it.

The sets' sign changes add up to twice their labels minus twice the neighbours that a set has both of, so the best mean
is the heaviest path through the graph of co-occurrence: pairs joined greedily, then local search. Then the sets
with the most changes get more weight, round by round, and the search goes on: the largest number falls, the mean rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import _ordering_numba as kernels
from xpipe.argmaxability.dft import sign_changes
from xpipe.argmaxability.head import check_sets
from xpipe.errors import ConfigError

NEAR = 30  # labels tried beside each label
ROUNDS = 40


def order_labels(Y: Any, *, rounds: int = ROUNDS, give: float = 0.0) -> np.ndarray:
    """Labels in an order that lowers the largest and the mean number of sign changes of the label sets (int64).

    Y: CSR, a row a label set; `Y[:, order]` are the sets in the new order. rounds: of raising the weight of the sets
    with the most changes. Of all orders on the way it takes the one with the smallest largest number, among those that
    keep half of what local search took off the greedy path's mean; `give` allows a mean higher by this share of it.
    The same order for the same sets.
    """
    if rounds < 0 or give < 0:
        raise ConfigError(f"`rounds` and `give` must not be negative, got {rounds} and {give}")
    n_labels = Y.shape[1]
    indptr, indices = check_sets(Y, n_labels)
    if n_labels < 3 or not len(indices):
        return np.arange(n_labels)
    search = _Search(indptr, indices, n_labels)
    greedy = search.join_greedily()
    changes = search.improve(np.arange(n_labels))
    allowed = (greedy.mean() + changes.mean()) / 2 * (1 + give)
    best = (int(changes.max()), float(changes.mean()), search.order.copy())
    weight = np.ones(len(indptr) - 1)
    for turn in range(rounds + 1):
        found = (int(changes.max()), float(changes.mean()), search.order.copy())
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
    """A path through all labels and the weights it is improved by."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, n_labels: int):
        self.indptr, self.indices, self.n_labels = indptr, indices, n_labels
        self.sets = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, n_labels))
        together = sp.csr_matrix(self.sets.T @ self.sets)
        together.setdiag(0)
        together.eliminate_zeros()
        together.sort_indices()
        self.ptr, self.idx = together.indptr.astype(np.int64), together.indices.astype(np.int64)
        self.val = together.data.astype(np.float64)
        self.owner = np.repeat(np.arange(n_labels), np.diff(self.ptr))
        self.order = np.arange(n_labels)

    def changes(self) -> np.ndarray:
        return sign_changes(self.sets[:, self.order])

    def join_greedily(self) -> np.ndarray:
        """Take the greedy path; gives the sign changes in it."""
        once = np.flatnonzero(self.owner < self.idx)
        once = once[np.argsort(-self.val[once], kind="stable")]
        kernels.join_greedily(self.n_labels, self.owner[once], self.idx[once], self.order)
        return self.changes()

    def improve(self, labels: np.ndarray) -> np.ndarray:
        """Local search that starts with these labels; gives the sign changes in the new path."""
        falling = np.lexsort((-self.val, self.owner))
        near = self.idx[falling[np.arange(len(falling)) - self.ptr[self.owner] < NEAR]]
        near_ptr = np.concatenate([[0], np.cumsum(np.minimum(np.diff(self.ptr), NEAR))])
        place = np.empty(self.n_labels, dtype=np.int64)
        place[self.order] = np.arange(self.n_labels)
        queue = np.zeros(self.n_labels, dtype=np.int64)
        queue[: len(labels)] = labels
        kernels.improve_path(self.order, place, self.ptr, self.idx, self.val, near_ptr, near, queue, len(labels))
        return self.changes()

    def add_weight(self, sets: np.ndarray, more: np.ndarray) -> None:
        kernels.add_weight(self.ptr, self.idx, self.val, self.indptr, self.indices, sets, more)

    def labels_of(self, sets: np.ndarray) -> np.ndarray:
        return np.unique(np.concatenate([self.indices[self.indptr[s] : self.indptr[s + 1]] for s in sets]))
