"""The shape of a label tree: which labels are together, and the units of work its classifiers are trained in.

Holds no training. Labels without positives are in no tree: nothing could be learnt about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import Triple
from xpipe.grouping.clustering import balanced_partition

UNIT_LANES = 128  # children trained side by side: a leaf of 100 labels is one unit, and reads its rows once for all


class Unit(NamedTuple):
    """Children first_child..last_child-1 of a node of a level. At the last level the children are labels."""

    level: int
    node: int
    first_child: int
    last_child: int


@dataclass(frozen=True)
class TreePlan:
    """Level t has the nodes order[bounds[t][i] : bounds[t][i + 1]], none of them empty; children are consecutive.

    tree: its number. order: labels, int64. bounds: int64, one a level, the root first.
    """

    tree: int
    order: np.ndarray
    bounds: tuple[np.ndarray, ...]

    @property
    def depth(self) -> int:
        """Levels of nodes; at the last one the children are labels."""
        return len(self.bounds)

    def n_nodes(self, level: int) -> int:
        return len(self.bounds[level]) - 1

    def span(self, level: int, node: int) -> tuple[int, int]:
        return int(self.bounds[level][node]), int(self.bounds[level][node + 1])

    def child_of(self, level: int, node: int, positions: np.ndarray) -> np.ndarray:
        """Which child of the node, from 0, each position in `order` is below."""
        start, _ = self.span(level, node)
        if level == self.depth - 1:
            return positions - start
        below = np.searchsorted(self.bounds[level + 1], positions, side="right") - 1
        return below - np.searchsorted(self.bounds[level + 1], start)

    def child_ptr(self, level: int) -> np.ndarray:
        """The children of node i are child_ptr[i] to child_ptr[i + 1] - 1: nodes of the next level, or positions."""
        if level == self.depth - 1:
            return self.bounds[level]
        return np.searchsorted(self.bounds[level + 1], self.bounds[level]).astype(np.int64)

    def units_of(self, level: int) -> np.ndarray:
        """How many units each node of a level has."""
        return -(-np.diff(self.child_ptr(level)) // UNIT_LANES)

    def units(self) -> list[Unit]:
        """All units of the tree, level by level, node by node."""
        found = []
        for level in range(self.depth):
            for node, n_children in enumerate(np.diff(self.child_ptr(level)).tolist()):
                for start in range(0, n_children, UNIT_LANES):
                    found.append(Unit(level, node, start, min(start + UNIT_LANES, n_children)))
        return found


def label_vectors(X: Triple, n_features: int, scales: np.ndarray, label_rows: sp.csr_matrix) -> sp.csr_matrix:
    """The sum of each label's scaled rows (labels x features)."""
    narrow = np.int32 if X.indptr[-1] < 2**31 else np.int64  # a product has indices as wide as the widest it is made of
    rows = sp.csr_matrix((X.n_rows, n_features), dtype=np.float32)
    rows.indptr, rows.indices, rows.data = X.indptr.astype(narrow), X.indices, X.values
    weighted = sp.csr_matrix((scales[label_rows.indices], label_rows.indices, label_rows.indptr), label_rows.shape)
    weighted.indptr, weighted.indices = weighted.indptr.astype(narrow), weighted.indices.astype(narrow)
    found = (weighted @ rows).tocsr()
    found.sort_indices()
    return found


def plan_tree(
    vectors: sp.csr_matrix, labels: np.ndarray, tree: int, arity: int, max_leaf: int, seed: int,
    threads: int | None = None,
) -> TreePlan:  # fmt: skip
    """Balanced k-means of labels, as deep as leaves of at most max_leaf labels need.

    vectors: one row a label. An arity that is a power of two gives the tree of arity 2 with levels left out: the labels
    are halved until they fit, which takes a fraction of the time of cutting in many at once, and nodes have `arity`
    children or fewer.
    """
    halvings = arity.bit_length() - 1 if arity & (arity - 1) == 0 else 1
    partition = balanced_partition(
        vectors, max_leaf_size=max_leaf, arity=arity if halvings == 1 else 2, seed=seed, purpose=("tree", tree),
        threads=threads,
    )  # fmt: skip
    depth = -(-partition.depth // halvings)
    levels = [partition.bounds[partition.depth * level // max(depth, 1)] for level in range(depth + 1)]
    return TreePlan(tree, labels[partition.order], tuple(np.unique(bounds) for bounds in levels))
