"""The shape of a label tree: which labels are together, and the units of work that its classifiers are trained in.

Holds no training. Labels without positives are in no tree, because nothing could be learnt about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import canonical, to_matrix
from xpipe.grouping.clustering import Node, bounds_of, depth_of, split_node
from xpipe.trees.options import TreeOptions
from xpipe.trees.training_data import TrainingData
from xpipe.trees.vectors import prune_vectors, sum_rows

UNIT_LANES = 128  # children trained side by side: a leaf of 100 labels is one unit, and reads its rows only once


class Unit(NamedTuple):
    """Children first_child to last_child - 1 of one node. At the last level the children are labels."""

    level: int
    node: int
    first_child: int
    last_child: int


@dataclass(frozen=True)
class TreePlan:
    """The nodes of a tree. Node i of level t has the labels order[bounds[t][i] : bounds[t][i + 1]].

    No node is empty, and the children of a node are consecutive nodes of the next level.
    """

    tree: int  # the number of the tree
    order: np.ndarray  # int64: labels
    bounds: tuple[np.ndarray, ...]  # int64: one array per level, the root first

    @property
    def depth(self) -> int:
        """Levels of nodes; at the last one the children are labels."""
        return len(self.bounds)

    def n_nodes(self, level: int) -> int:
        """The number of nodes of a level."""
        return len(self.bounds[level]) - 1

    def span(self, level: int, node: int) -> tuple[int, int]:
        """Where the labels of a node begin and end in `order`."""
        return int(self.bounds[level][node]), int(self.bounds[level][node + 1])

    def child_of(self, level: int, node: int, positions: np.ndarray) -> np.ndarray:
        """For each position in `order`, the child of the node that it is below; children count from 0."""
        start, _ = self.span(level, node)
        if level == self.depth - 1:
            return positions - start
        below = np.searchsorted(self.bounds[level + 1], positions, side="right") - 1
        return below - np.searchsorted(self.bounds[level + 1], start)

    def child_ptr(self, level: int) -> np.ndarray:
        """Node i has the children child_ptr[i] to child_ptr[i + 1] - 1, int64.

        They are nodes of the next level; at the last level, positions in `order`.
        """
        if level == self.depth - 1:
            return self.bounds[level]
        return np.searchsorted(self.bounds[level + 1], self.bounds[level]).astype(np.int64)

    def units_of(self, level: int) -> np.ndarray:
        """The number of units of each node of a level."""
        return -(-np.diff(self.child_ptr(level)) // UNIT_LANES)

    def units(self) -> list[Unit]:
        """All units of the tree, level by level, node by node."""
        found = []
        for level in range(self.depth):
            for node, n_children in enumerate(np.diff(self.child_ptr(level)).tolist()):
                for start in range(0, n_children, UNIT_LANES):
                    found.append(Unit(level, node, start, min(start + UNIT_LANES, n_children)))
        return found


def plan_forest(
    data: TrainingData, label_embedding: sp.csr_matrix | None, options: TreeOptions, threads: int | None = None
) -> tuple[TreePlan, ...]:
    """The plans of all trees of a forest.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    label_embedding : scipy.sparse.csr_matrix of shape (n_labels, any), or None
        Labels are clustered by these vectors; None: by the sum of their scaled rows. Of long vectors, the largest
        entries count (`vectors.most_entries`).
    options : TreeOptions
        How many trees of what shape.
    threads : int, optional
        By default one per usable core. It changes no byte.

    Returns
    -------
    tuple of TreePlan
        One per tree; none where no label has positives.

    Raises
    ------
    DataError
        The embedding has another number of rows than there are labels.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, plan_forest, prepare_data
    >>> data = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr"))
    >>> [plan.depth for plan in plan_forest(data, None, TreeOptions(n_trees=2))]
    [1, 1]
    """
    labels = data.labels
    if label_embedding is None:
        vectors = to_matrix(sum_rows(data, labels, threads or usable_cores()), data.n_features)
    else:
        vectors = chosen_vectors(label_embedding, data.n_labels, labels)
    return plan_trees(vectors, labels, options, threads)


def chosen_vectors(label_embedding: sp.csr_matrix, n_labels: int, labels: np.ndarray) -> sp.csr_matrix:
    """The given vectors of the labels with positives. Raises DataError where there is not one for each label."""
    vectors = canonical(label_embedding, "label_embedding")
    if vectors.shape[0] != n_labels:
        raise DataError(
            "label_embedding does not fit the labels",
            why=f"it has {vectors.shape[0]:,} rows, the labels (Y) {n_labels:,} columns",
        )
    return prune_vectors(vectors[labels])


class Halving(NamedTuple):
    """How the labels of a tree are put into nodes by balanced k-means: `depth` times into `arity` parts.

    One level of the tree stands for `per_level` of these.
    """

    n_labels: int
    arity: int
    depth: int
    per_level: int


def halving_of(n_labels: int, options: TreeOptions) -> Halving:
    """How labels with positives are put into nodes, as deep as leaves of at most max_leaf labels need.

    Where the arity is a power of two, labels are halved until they fit, and levels of that binary tree are left out so
    that nodes have at most `arity` children. It takes a fraction of the time of cutting nodes into many parts at once.
    """
    per_level = options.arity.bit_length() - 1 if options.arity & (options.arity - 1) == 0 else 1
    arity = options.arity if per_level == 1 else 2
    return Halving(n_labels, arity, depth_of(n_labels, options.max_leaf, arity), per_level)


def split_labels(
    vectors: sp.csr_matrix, tree: int, halving: Halving, node: Node, levels: int, seed: int, threads: int | None = None
) -> np.ndarray:
    """The order of the labels of a node once it is cut so many levels further. vectors: one row per label of it."""
    return split_node(vectors, node, levels, arity=halving.arity, seed=seed, purpose=("tree", tree), threads=threads)


def tree_of(tree: int, labels: np.ndarray, order: np.ndarray, halving: Halving) -> TreePlan:
    """The plan of a tree whose labels with positives have been put into this order."""
    bounds = bounds_of(halving.n_labels, halving.depth, halving.arity)
    depth = -(-halving.depth // halving.per_level)
    levels = [bounds[halving.depth * level // max(depth, 1)] for level in range(depth + 1)]
    return TreePlan(tree, labels[order], tuple(np.unique(level) for level in levels))


def plan_trees(
    vectors: sp.csr_matrix, labels: np.ndarray, options: TreeOptions, threads: int | None = None
) -> tuple[TreePlan, ...]:
    """`plan_forest` for labels with positives and the vectors they are clustered by, one row per label."""
    halving, root = halving_of(len(labels), options), Node(0, 0)
    orders = (
        split_labels(vectors, tree, halving, root, halving.depth, options.seed, threads)
        for tree in range(options.n_trees if len(labels) else 0)
    )
    return tuple(tree_of(tree, labels, order, halving) for tree, order in enumerate(orders))
