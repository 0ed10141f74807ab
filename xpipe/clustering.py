"""Balanced spherical k-means of sparse rows, level by level: parts of almost equal size whose rows look alike.

Holds no groups and no labels: `grouping` and label trees use it. The arithmetic is `_clustering_numba`.

A node of the tree shares its rows among `arity` children whose sizes differ by at most one, hence all nodes of a level
do. Seeds are chosen as in k-means++; then rounds alternate between (1) the sum of each child's unit rows, scaled to
length 1, and (2) the assignment of rows to these centres that keeps the sizes: with two children the rows are split at
the median of their score difference, with more every pair of children shares its rows again in that way. Neither step
lowers the sum of the scores; a node is done when no row changes, or after `rounds`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.seeding import bit_generator
from xpipe.sparse import canonical, to_triple

ROUNDS = 30
TASKS_A_THREAD = 4  # nodes of a level differ in the rounds they need


@dataclass(frozen=True)
class Partition:
    """A complete tree over rows: level t has arity**t nodes, node i of it the rows order[bounds[t][i]:bounds[t][i + 1]].

    order: every row once, int64, ascending inside a leaf. bounds: one int64 array a level, the root first. The children
    of node i are the nodes i * arity to i * arity + arity - 1 of the next level.
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
    `max_leaf_size` for the least depth whose leaves have at most so many rows (leaves may then be empty, where there
    are fewer rows than leaves). `noise` adds to every row a random vector of that length (a row has length 1) in 64
    dimensions of its own, orthogonal to all features: 0 clusters the rows as they are, around 1 to 2 noise and rows
    weigh about the same, and far above, the parts are random. (seed, purpose) decides all randomness; the number of
    `threads` (default: the usable cores) changes nothing. Ties are broken by row number.

    Memory: X and some 40 bytes a row, and 8 * arity bytes a feature and thread. Raises ConfigError for parameters out
    of range and for more leaves than rows, DataError for a matrix that breaks the CSR rules.
    """
    from xpipe._clustering_numba import NOISE_BITS, fill_scales, split_nodes

    X = canonical(X, "features")
    n_rows, n_features = X.shape
    depth = _check(n_rows, depth, max_leaf_size, arity, noise, rounds)
    indptr, indices, values = to_triple(X)
    scales = np.empty(n_rows)
    fill_scales(indptr, values, scales)
    signs = bit_generator(seed, *purpose, "noise").random_raw(n_rows if noise else 0)
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
                sums, noise_sums = np.zeros((n_features, arity)), np.zeros((NOISE_BITS, arity))
                split_nodes(
                    indptr, indices, values, scales, signs, float(noise), order, bounds, next_bounds, draws, rounds,
                    sums, noise_sums, first, last,
                )  # fmt: skip

            cuts = np.unique(np.linspace(0, n_nodes, TASKS_A_THREAD * threads + 1).astype(np.int64))
            for task in [pool.submit(split, first, last) for first, last in zip(cuts[:-1], cuts[1:], strict=True)]:
                task.result()
    return Partition(order, tuple(levels))


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cut(bounds: np.ndarray, arity: int) -> np.ndarray:
    """Bounds of the children: each node cut into `arity` sizes that differ by at most one, the larger ones first.

    Floors of floors are floors, ceilings of ceilings are ceilings: so a whole level differs by at most one.
    """
    sizes, rest = np.divmod(np.diff(bounds), arity)
    children = sizes[:, None] + (np.arange(arity) < rest[:, None])
    return np.concatenate([[0], np.cumsum(children)]).astype(np.int64)


def _check(
    n_rows: int, depth: int | None, max_leaf_size: int | None, arity: int, noise: float, rounds: int
) -> int:
    """The depth that is asked for."""
    if arity < 2:
        raise ConfigError(f"arity must be at least 2, got {arity}")
    if not 0.0 <= noise < float("inf"):
        raise ConfigError(f"noise must be a finite number of at least 0, got {noise}")
    if rounds < 0:
        raise ConfigError(f"rounds must be at least 0, got {rounds}")
    if (depth is None) == (max_leaf_size is None):
        raise ConfigError("either depth or max_leaf_size must be given, not both")
    if depth is None:
        assert max_leaf_size is not None
        if max_leaf_size < 1:
            raise ConfigError(f"max_leaf_size must be at least 1, got {max_leaf_size}")
        depth, leaves = 0, 1
        while leaves * max_leaf_size < n_rows:
            depth, leaves = depth + 1, leaves * arity
        return depth
    if depth < 0:
        raise ConfigError(f"depth must be at least 0, got {depth}")
    if depth > 62 or arity**depth > n_rows:
        deepest = 0
        while arity ** (deepest + 1) <= n_rows:
            deepest += 1
        raise ConfigError(
            f"depth {depth} is too deep for {n_rows:,} rows",
            why=f"{arity}**{depth} parts are more than there are rows",
            fix=f"a depth of at most {deepest}" if n_rows else "",
        )
    return depth
