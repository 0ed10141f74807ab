"""Balanced spherical k-means of sparse rows, level by level: parts of almost equal size whose rows are similar.

Holds no groups and no labels: `groups` and label trees use it. The arithmetic is in `_numba` and `_balance_numba`.

A node of the tree divides its rows among `arity` children whose sizes differ by at most one; hence the sizes of all
nodes of a level do. Seeds are chosen as in k-means++. Then rounds alternate between two steps: (1) the sum of each
child's unit rows, scaled to length 1, becomes its centre; (2) rows are assigned to the centres without changing sizes.
With two children, the rows are cut at the median of their score difference; with more, every pair of children is
divided anew in this way. Neither step lowers the sum of the scores. A node is done when no row changes its child, or
after `rounds`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.ground.machine import usable_cores
from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import canonical, read_only, to_triple
from xpipe.ground.sparse_rows import entry_rows, row_pointers

if TYPE_CHECKING:
    from xpipe.grouping._numba import Vectors

ROUNDS = 30
MOST_NOISE = 1e6  # parts are random long before
TASKS_PER_THREAD = 4  # nodes of a level differ in the rounds they need
WIDE_ROWS = 4096  # of a level with fewer nodes than threads: from here on the rows of a node are shared by all threads


@dataclass(frozen=True)
class Partition:
    """A complete tree of rows: level t has arity**t nodes.

    Node i of level t has the rows order[bounds[t][i] : bounds[t][i + 1]]. Its children are the nodes i * arity to
    i * arity + arity - 1 of the next level.
    """

    order: np.ndarray  # int64: every row once, ascending inside a leaf
    bounds: tuple[np.ndarray, ...]  # int64: one array per level, the root first

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.bounds) - 1

    @property
    def n_leaves(self) -> int:
        """Nodes of the last level."""
        return len(self.bounds[-1]) - 1

    def leaf_of_row(self) -> np.ndarray:
        """The leaf each row is in, int64."""
        leaves = np.empty(len(self.order), dtype=np.int64)
        leaves[self.order] = entry_rows(self.bounds[-1])
        return leaves


def balanced_partition(
    X: sp.csr_matrix,
    *,
    depth: int | None = None,
    max_leaf_size: int | None = None,
    arity: int = 2,
    seed: int = 0,
    noise: float = 0.0,
    rounds: int = ROUNDS,
    purpose: tuple[str | int, ...] = ("cluster",),
    threads: int | None = None,
) -> Partition:
    """Cut rows into arity**depth leaves whose sizes differ by at most one, similar rows together.

    Either `depth` or `max_leaf_size` must be given. Memory: X, about 100 + 10 * arity bytes per row, and 8 * arity
    bytes per feature and thread. Time: non-zeros of X x depth x rounds.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Rows count as unit vectors; rows of zeros go where there is room.
    depth : int, optional
        Levels below the root.
    max_leaf_size : int, optional
        Takes the least depth whose leaves have at most so many rows. Some leaves are empty if there are fewer rows
        than leaves.
    arity : int
        Children of a node.
    seed : int
        Together with `purpose`, decides all randomness.
    noise : float
        Adds to every row, which has length 1, a random vector of about this length in 512 dimensions of its own,
        orthogonal to all features. 0 clusters the rows as they are. With growing noise, first the small nodes and then
        the large ones follow the noise; far above 1 the leaves are random. No matrix is densified for it.
    rounds : int
        Rounds per node at most.
    purpose : tuple of str and int
        What the partition is for: another purpose gives other random numbers with the same seed.
    threads : int, optional
        By default one per usable core. It changes nothing in the result.

    Returns
    -------
    Partition
        The tree. Ties are broken by row number.

    Raises
    ------
    ConfigError
        A parameter is out of range, or there are more leaves than rows.
    DataError
        The matrix breaks the CSR rules.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import balanced_partition
    >>> X = sp.csr_matrix(np.repeat(np.eye(2, dtype=np.float32), 3, axis=0))
    >>> halves = balanced_partition(X, depth=1)
    >>> sorted(halves.order[:3].tolist()) in ([0, 1, 2], [3, 4, 5])
    True
    """
    X = canonical(X, "features")
    n_rows, n_features = X.shape
    depth = _checked_depth(n_rows, depth, max_leaf_size, arity)
    if not 0.0 <= noise <= MOST_NOISE:
        raise ConfigError(f"noise must be a number from 0 to {MOST_NOISE:g}, got {noise}")
    if rounds < 0:
        raise ConfigError(f"rounds must be at least 0, got {rounds}")
    vectors, bounds = _make_vectors(X, noise, seed, purpose), bounds_of(n_rows, depth, arity)
    return Partition(_split(vectors, n_features, Node(0, 0), bounds, arity, seed, rounds, purpose, threads), bounds)


class Node(NamedTuple):
    """A node of a partition: number `number` of its level; the root is on level 0."""

    level: int
    number: int


def bounds_of(n_rows: int, depth: int, arity: int = 2) -> tuple[np.ndarray, ...]:
    """The bounds of all levels of a partition, the root first: they follow from the number of rows alone.

    Examples
    --------
    >>> from xpipe.grouping.clustering import bounds_of
    >>> [bounds.tolist() for bounds in bounds_of(5, 2)]
    [[0, 5], [0, 3, 5], [0, 2, 3, 4, 5]]
    """
    levels = [np.array([0, n_rows], dtype=np.int64)]
    for _ in range(depth):
        levels.append(_cut(levels[-1], arity))
    return tuple(levels)


def split_node(
    X: sp.csr_matrix,
    node: Node,
    levels: int,
    *,
    arity: int = 2,
    seed: int = 0,
    purpose: tuple[str | int, ...] = ("cluster",),
    threads: int | None = None,
) -> np.ndarray:
    """Cut the rows of one node so many levels further, as `balanced_partition` cuts it among all others.

    So a partition can be made node by node, by whoever has the rows of the node.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        The rows of the node, in the order of their numbers.
    node : Node
        The node.
    levels : int
        How many levels below it.
    arity, seed, purpose, threads
        As of `balanced_partition`.

    Returns
    -------
    numpy.ndarray of shape (n_rows,)
        int64: the rows of the nodes below it, one node after the other, counted from the first row of X.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping.clustering import Node, balanced_partition, split_node
    >>> X = sp.csr_matrix(np.random.default_rng(0).random((9, 4), dtype=np.float32))
    >>> whole, first = balanced_partition(X, depth=2), balanced_partition(X, depth=1)
    >>> rows = first.order[first.bounds[1][1] :]
    >>> (rows[split_node(X[rows], Node(1, 1), 1)] == whole.order[first.bounds[1][1] :]).all()
    np.True_
    """
    X = canonical(X, "features")
    vectors, bounds = _make_vectors(X, 0.0, seed, purpose), bounds_of(X.shape[0], levels, arity)
    return _split(vectors, X.shape[1], node, bounds, arity, seed, ROUNDS, purpose, threads)


def _split(
    vectors: Vectors, n_features: int, node: Node, bounds: tuple[np.ndarray, ...], arity: int, seed: int, rounds: int,
    purpose: tuple[str | int, ...], threads: int | None,
) -> np.ndarray:  # fmt: skip
    """The order of the rows of a node once the levels below it are cut. bounds: of these levels, the node's first."""
    threads = threads or usable_cores()
    order = np.arange(bounds[0][-1], dtype=np.int64)
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-cluster") as pool:
        for below, (own, children) in enumerate(pairwise(bounds)):
            n_nodes, before = len(own) - 1, node.number * arity**below  # nodes of this level before the first one
            draws = bit_generator(seed, *purpose, node.level + below).random_raw((before + n_nodes) * arity)
            draws = draws[before * arity :].reshape(n_nodes, arity)
            split = _LevelSplit(vectors, n_features, order, own, children, draws, rounds)
            if n_nodes < threads and len(order) >= WIDE_ROWS:
                for number in range(n_nodes):
                    split.wide(number, pool, threads)
                continue
            cuts = np.unique(np.linspace(0, n_nodes, TASKS_PER_THREAD * threads + 1).astype(np.int64))
            for task in [pool.submit(split, first, last) for first, last in pairwise(cuts)]:
                task.result()
    return order


def _checked_depth(n_rows: int, depth: int | None, max_leaf_size: int | None, arity: int) -> int:
    """The depth that was asked for, directly or by the size of leaves. Raises ConfigError."""
    if arity < 2:
        raise ConfigError(f"arity must be at least 2, got {arity}")
    if depth is not None and max_leaf_size is None:
        check_depth(n_rows, depth, arity)
        return depth
    if max_leaf_size is not None and depth is None:
        return depth_of(n_rows, max_leaf_size, arity)
    raise ConfigError("either depth or max_leaf_size must be given, and not both")


def _make_vectors(X: sp.csr_matrix, noise: float, seed: int, purpose: tuple[str | int, ...]) -> Vectors:
    """The rows, their scales and their random bytes, as the kernels take them."""
    from xpipe.grouping._numba import NOISE_BYTES, Vectors, fill_scales

    indptr, indices, values = map(read_only, to_triple(X))
    scales = np.empty(X.shape[0])
    fill_scales(indptr, values, scales)
    words = bit_generator(seed, *purpose, "noise").random_raw(X.shape[0] * NOISE_BYTES // 8 if noise else 0)
    noise_bytes = words.astype("<u8", copy=False).view(np.uint8).reshape(-1, NOISE_BYTES)
    return Vectors(indptr, indices, values, read_only(scales), read_only(noise_bytes), float(noise))


@dataclass(frozen=True)
class _LevelSplit:
    """The work of one level: called with a range of its nodes, it reorders their rows in `order`, child by child."""

    vectors: Vectors
    n_features: int
    order: np.ndarray
    bounds: np.ndarray
    next_bounds: np.ndarray
    draws: np.ndarray
    rounds: int

    def __call__(self, first: int, last: int) -> None:
        """Split the nodes first to last - 1."""
        from xpipe.grouping._numba import split_nodes

        split_nodes(
            self.vectors, self.order, self.bounds, self.next_bounds, self.draws, self.rounds, *self._sums(), first, last
        )

    def wide(self, node: int, pool: ThreadPoolExecutor, threads: int) -> None:
        """Split one node with all threads, as `split_rows` does: products of rows are shared, sums are added by one."""
        from xpipe.grouping import _numba as kernels

        arity, lo = self.draws.shape[1], int(self.bounds[node])
        rows = self.order[lo : self.bounds[node + 1]].copy()
        starts, n_rows = self.next_bounds[node * arity : (node + 1) * arity + 1] - lo, len(rows)
        split = kernels.Split(
            np.empty((n_rows, arity)), np.empty(n_rows, np.int32), np.empty(n_rows), np.empty(n_rows),
            np.empty(n_rows), *self._sums(),
        )  # fmt: skip
        cuts = list(pairwise(np.linspace(0, n_rows, TASKS_PER_THREAD * threads + 1).astype(np.int64).tolist()))

        def share(kernel: Callable[..., None], *given: Any) -> None:
            list(pool.map(lambda cut: kernel(self.vectors, rows, *given, *cut), cuts))

        kernels.begin_split(starts, split.assigned)
        kernels.weigh_rows(self.vectors, rows, split.nearest, split.weights, split.lengths)
        for child in range(arity if n_rows > 1 else 0):
            seed = kernels.choose_seed(self.vectors, rows, child, self.draws[node, child], split)
            share(kernels.score_seed, child, split.lengths[seed], split)
            kernels.clear_sums(self.vectors, rows[seed : seed + 1], split.sums, split.noise_sums)
        if n_rows > 1:
            kernels.assign_seeds(self.vectors, rows, starts, split)
            for _ in range(self.rounds):
                share(kernels.score_rows, split)
                if kernels.move_rows(self.vectors, rows, starts, split) == 0:
                    break
        kernels.place_rows(self.order, lo, rows, split.assigned, starts)

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of children, and of their noise: zeros."""
        from xpipe.grouping._numba import NOISE_BLOCK, NOISE_BYTES

        arity = self.draws.shape[1]
        return np.zeros((self.n_features, arity)), np.zeros((NOISE_BYTES * NOISE_BLOCK, arity))


def _cut(bounds: np.ndarray, arity: int) -> np.ndarray:
    """Bounds of the children, int64: each node is cut into `arity` sizes that differ by at most one, larger ones first.

    Floors of floors are floors, and ceilings of ceilings are ceilings, so all sizes of a level differ by at most one.
    """
    sizes, rest = np.divmod(np.diff(bounds), arity)
    children = sizes[:, None] + (np.arange(arity) < rest[:, None])
    return row_pointers(children.ravel())


def check_depth(n_rows: int, depth: int, arity: int = 2) -> None:
    """Raise ConfigError where a tree of this depth has more leaves than there are rows."""
    if depth < 0:
        raise ConfigError(f"depth must be at least 0, got {depth}")
    if depth >= 63 or arity**depth > n_rows:
        deepest = 0
        while arity ** (deepest + 1) <= n_rows:
            deepest += 1
        raise ConfigError(
            f"depth {depth} is too deep for {n_rows:,} samples",
            why=f"{arity}**{depth} groups are more than there are samples",
            fix=f"a depth of at most {deepest}" if n_rows else "check the data: it has no samples",
        )


def depth_of(n_rows: int, max_leaf_size: int, arity: int) -> int:
    """The least depth whose leaves have at most max_leaf_size rows."""
    if max_leaf_size < 1:
        raise ConfigError(f"max_leaf_size must be at least 1, got {max_leaf_size}")
    depth = 0
    while arity**depth * max_leaf_size < n_rows:
        depth += 1
    return depth
