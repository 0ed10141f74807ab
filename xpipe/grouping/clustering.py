"""Balanced spherical k-means of sparse rows, level by level: parts of almost equal size whose rows look alike.

Holds no groups and no labels: `grouping` and label trees use it. The arithmetic is `_clustering_numba`.

A node of the tree shares its rows among `arity` children whose sizes differ by at most one, hence all nodes of a level
do. Seeds are chosen as in k-means++; then rounds alternate between (1) the sum of each child's unit rows, scaled to
length 1, and (2) the assignment of rows to these centres that keeps the sizes: with two children the rows are split at
the median of their score difference, with more every pair of children shares its rows again in that way. Neither step
lowers the sum of the scores; a node is done when no row changes, or after `rounds`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.ground.machine import usable_cores
from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import canonical, read_only, to_triple

ROUNDS = 30
MOST_NOISE = 1e6  # parts are random long before
TASKS_A_THREAD = 4  # nodes of a level differ in the rounds they need


@dataclass(frozen=True)
class Partition:
    """A complete tree: level t has arity**t nodes, node i of it the rows order[bounds[t][i] : bounds[t][i + 1]].

    order: every row once, int64, ascending inside a leaf. bounds: one int64 array a level, the root first. The
    children of node i are the nodes i * arity to i * arity + arity - 1 of the next level.
    """

    order: np.ndarray
    bounds: tuple[np.ndarray, ...]

    @property
    def depth(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_leaves(self) -> int:
        return len(self.bounds[-1]) - 1

    def leaf_of_row(self) -> np.ndarray:
        """The leaf each row is in, int64."""
        leaves = np.empty(len(self.order), dtype=np.int64)
        leaves[self.order] = np.repeat(np.arange(self.n_leaves), np.diff(self.bounds[-1]))
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
    """Cut rows into arity**depth leaves whose sizes differ by at most one, rows that look alike together.

    X: rows x features; rows count as unit vectors, rows of zeros go where there is room. Give either `depth`, or
    `max_leaf_size` for the least depth whose leaves have at most so many rows (some leaves are empty then, if there
    are fewer rows than leaves). `noise` adds to every row, which has length 1, a random vector of about that length in
    512 dimensions of its own, orthogonal to all features: 0 clusters the rows as they are, with growing noise first
    the small nodes and then the large ones follow the noise, and far above 1 the leaves are random. No matrix is
    densified for it. (seed, purpose) decides all randomness; the number of `threads` (default: the usable cores)
    changes nothing. Ties are broken by row number.

    Memory: X, some 100 + 10 * arity bytes a row, and 8 * arity bytes a feature and thread. Time: non-zeros of X x
    depth x rounds. Raises ConfigError for parameters out of range and for more leaves than rows, DataError for a
    matrix that breaks the CSR rules.
    """
    from xpipe.grouping._numba import NOISE_BLOCK, NOISE_BYTES, Vectors, fill_scales, split_nodes

    X = canonical(X, "features")
    n_rows, n_features = X.shape
    if arity < 2:
        raise ConfigError(f"arity must be at least 2, got {arity}")
    if not 0.0 <= noise <= MOST_NOISE:
        raise ConfigError(f"noise must be a number from 0 to {MOST_NOISE:g}, got {noise}")
    if rounds < 0:
        raise ConfigError(f"rounds must be at least 0, got {rounds}")
    if depth is not None and max_leaf_size is None:
        check_depth(n_rows, depth, arity)
    elif max_leaf_size is not None and depth is None:
        depth = _depth_of(n_rows, max_leaf_size, arity)
    else:
        raise ConfigError("either depth or max_leaf_size must be given, and not both")
    indptr, indices, values = to_triple(X)
    scales = np.empty(n_rows)
    fill_scales(read_only(indptr), read_only(values), scales)
    words = bit_generator(seed, *purpose, "noise").random_raw(n_rows * NOISE_BYTES // 8 if noise else 0)
    noise_bytes = words.astype("<u8", copy=False).view(np.uint8).reshape(-1, NOISE_BYTES)
    vectors = Vectors(
        read_only(indptr), read_only(indices), read_only(values), read_only(scales), read_only(noise_bytes),
        float(noise),
    )  # fmt: skip
    threads = threads or usable_cores()

    order = np.arange(n_rows, dtype=np.int64)
    levels = [np.array([0, n_rows], dtype=np.int64)]
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-cluster") as pool:
        for level in range(depth):
            bounds = levels[-1]
            n_nodes = len(bounds) - 1
            draws = bit_generator(seed, *purpose, level).random_raw(n_nodes * arity).reshape(n_nodes, arity)
            levels.append(_cut(bounds, arity))
            next_bounds = levels[-1]

            def split(first, last, bounds=bounds, next_bounds=next_bounds, draws=draws):
                sums, noise_sums = np.zeros((n_features, arity)), np.zeros((NOISE_BYTES * NOISE_BLOCK, arity))
                split_nodes(vectors, order, bounds, next_bounds, draws, rounds, sums, noise_sums, first, last)

            cuts = np.unique(np.linspace(0, n_nodes, TASKS_A_THREAD * threads + 1).astype(np.int64))
            for task in [pool.submit(split, first, last) for first, last in pairwise(cuts)]:
                task.result()
    return Partition(order, tuple(levels))


def _cut(bounds: np.ndarray, arity: int) -> np.ndarray:
    """Bounds of the children: each node cut into `arity` sizes that differ by at most one, the larger ones first.

    Floors of floors are floors, ceilings of ceilings are ceilings: so a whole level differs by at most one.
    """
    sizes, rest = np.divmod(np.diff(bounds), arity)
    children = sizes[:, None] + (np.arange(arity) < rest[:, None])
    return np.concatenate([[0], np.cumsum(children)]).astype(np.int64)


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


def _depth_of(n_rows: int, max_leaf_size: int, arity: int) -> int:
    if max_leaf_size < 1:
        raise ConfigError(f"max_leaf_size must be at least 1, got {max_leaf_size}")
    depth = 0
    while arity**depth * max_leaf_size < n_rows:
        depth += 1
    return depth
