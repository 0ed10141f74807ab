"""The best labels of each row by beam search: level by level, only the best nodes of each row are followed.

Holds no training. The arithmetic is `_beam_numba` and `_best_numba`; rows are cut into chunks, which threads share.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.machine import lent
from xpipe.ground.sparse import Triple, read_only, to_matrix, to_triple
from xpipe.ground.sparse_rows import entry_rows, row_pointers
from xpipe.trees.forest import Forest
from xpipe.trees.planning import TreePlan

if TYPE_CHECKING:
    from xpipe.trees._beam_numba import Beam, Level, Scratch, Weights
    from xpipe.trees._best_numba import Best, LabelScratch, Leaves, Reached
    from xpipe.trees._gather_numba import SparseRows

CHUNK_ROWS, MOST_ROWS = 4096, 32768  # of a chunk: the weights of a unit are spread out once for all of its rows, ...
WEIGHTS_PER_ROW = 4096  # ... so a model with more than CHUNK_ROWS times so many weights has larger chunks
CHUNK_SCORES, MOST_SCORES = 1 << 22, 1 << 26  # of candidates that a chunk may hold, by the weights: 16 to 256 MiB


class Search(NamedTuple):
    """A forest and the width of its beam, prepared for the kernels."""

    forest: Forest
    beam: int
    widest: int  # most children of a node of any level
    labels: np.ndarray  # int64: the labels in the trees, ascending; `leaves` numbers them by their place here
    leaves: Leaves


def predict_rows(
    forest: Forest, X: sp.csr_matrix, scales: np.ndarray, k: int, beam: int, threads: int
) -> sp.csr_matrix:
    """CSR matrix (rows x labels) of the k best labels of each row, indices ascending; fewer where fewer are reached."""
    from xpipe.trees._best_numba import Best
    from xpipe.trees._gather_numba import SparseRows

    n_rows = X.shape[0]
    if not (n_rows and forest.plans):
        return sp.csr_matrix((n_rows, forest.n_labels), dtype=np.float32)
    search = _prepare_search(forest, beam)
    k = min(k, len(search.labels))
    found = Best(
        np.empty((n_rows, k), dtype=np.float32), np.empty((n_rows, k), dtype=np.int32), np.zeros(n_rows, dtype=np.int64)
    )
    rows = SparseRows(*map(read_only, (*to_triple(X), scales)))
    chunk_rows = _rows_per_chunk(search, n_rows, threads)
    longest = int(np.diff(rows.indptr).max(initial=0))
    spare: SimpleQueue[tuple[Scratch, LabelScratch]] = SimpleQueue()
    for _ in range(threads):
        label_scratch = make_label_scratch(search.leaves, search.labels, k)
        spare.put((make_scratch(forest.weights, forest.n_features, longest), label_scratch))

    def work(first: int) -> None:
        part = slice(first, min(first + chunk_rows, n_rows))
        with lent(spare) as (scratch, label_scratch):
            _search_chunk(search, rows, first, scratch, label_scratch, Best(*(array[part] for array in found)))

    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
        list(pool.map(work, range(0, n_rows, chunk_rows)))
    return to_csr(found, search.labels, forest.n_labels)


def _prepare_search(forest: Forest, beam: int) -> Search:
    """The leaves of all trees in one place."""
    labels, leaves = leaves_of(forest.plans)
    widest = max(most(level.child_ptr) for levels in forest.levels for level in levels)
    return Search(forest, beam, widest, labels, leaves)


def leaves_of(plans: Sequence[TreePlan]) -> tuple[np.ndarray, Leaves]:
    """(the labels in the trees, int64, ascending; the leaves of all trees, which number labels by their places)."""
    from xpipe.trees._best_numba import Leaves

    leaf_pointers = [plan.child_ptr(plan.depth - 1) for plan in plans]
    labels = np.sort(plans[0].order)  # all trees have the same
    orders = np.array([np.searchsorted(labels, plan.order) for plan in plans], dtype=np.int32)
    positions = np.zeros(orders.shape, dtype=np.int32)
    np.put_along_axis(positions, orders, np.arange(orders.shape[1], dtype=np.int32)[None, :], axis=1)
    return labels, Leaves(
        tree_ptr=row_pointers([len(pointers) for pointers in leaf_pointers]),
        leaf_ptr=np.concatenate(leaf_pointers),
        strides=np.array([most(pointers) for pointers in leaf_pointers], dtype=np.int64),
        orders=orders,
        positions=positions,
        leaves=np.array([entry_rows(pointers) for pointers in leaf_pointers], dtype=np.int32),
    )


def most(pointers: np.ndarray) -> int:
    """The largest number of items between two pointers."""
    return int(np.diff(pointers).max())


def _rows_per_chunk(search: Search, n_rows: int, threads: int) -> int:
    """Rows that are worth spreading weights out for; few enough for the memory, and for all threads to have some."""
    n_weights = len(search.forest.weights.weights)
    worth = min(max(CHUNK_ROWS, n_weights // WEIGHTS_PER_ROW), MOST_ROWS)
    scores = min(max(CHUNK_SCORES, n_weights), MOST_SCORES)
    scores_per_row = max(1, (len(search.leaves.strides) + 1) * search.beam * search.widest)
    return max(1, min(worth, scores // scores_per_row, -(-n_rows // threads)))


def make_scratch(weights: Weights, n_features: int, longest: int) -> Scratch:
    """Work space of one thread to score children, for rows of at most `longest` entries."""
    from xpipe.trees._beam_numba import Scratch
    from xpipe.trees._lanes_numba import LANES

    widths = -(-np.diff(weights.child_ptr) // LANES) * LANES
    return Scratch(
        numbers=np.zeros(n_features, dtype=np.int32),
        columns=np.empty(longest + 1, dtype=np.uint32),
        values=np.empty(longest + 1, dtype=np.float32),
        block=np.empty(int((np.diff(weights.feature_ptr) * widths).max(initial=0)), dtype=np.float32),
        margins=np.zeros(int(widths.max(initial=0)), dtype=np.float32),
    )


def make_label_scratch(leaves: Leaves, labels: np.ndarray, k: int) -> LabelScratch:
    """Work space of one thread to choose labels."""
    from xpipe.trees._best_numba import LANES, LabelScratch

    n_trees = len(leaves.strides)
    return LabelScratch(
        best=np.empty(k * n_trees + 1, dtype=np.float32),
        best_at=np.empty(k * n_trees + 1, dtype=np.int32),
        lanes=np.empty(LANES, dtype=np.float32),
        slots=np.zeros((n_trees, most(leaves.tree_ptr)), dtype=np.int32),
        seen=np.zeros(len(labels), dtype=np.int32),
    )


def _search_chunk(
    search: Search, rows: SparseRows, first: int, scratch: Scratch, label_scratch: LabelScratch, best: Best
) -> None:
    """Fill `best` for the rows of a chunk, which begin with row `first`."""
    from xpipe.trees._best_numba import Reached, choose_labels

    strides = search.leaves.strides
    n_trees, n_rows = len(strides), len(best.counts)
    reached = Reached(
        nodes=np.zeros((n_trees, n_rows, search.beam), dtype=np.int32),
        counts=np.ones((n_trees, n_rows), dtype=np.int64),
        scores=np.empty((n_trees, n_rows, search.beam * int(strides.max())), dtype=np.float32),
    )
    for tree, levels in enumerate(search.forest.levels):
        _search_tree(search, levels, tree, rows, first, scratch, reached)
    choose_labels(search.leaves, reached, label_scratch, best)


def _search_tree(
    search: Search, levels: tuple[Level, ...], tree: int, rows: SparseRows, first: int, scratch: Scratch,
    reached: Reached,
) -> None:  # fmt: skip
    """Follow the beams of a chunk's rows through one tree, and note the leaves they reach."""
    from xpipe.trees._beam_numba import Weights, choose_nodes, score_level

    weights, logistic = Weights(*map(read_only, search.forest.weights)), search.forest.loss == "logistic"
    n_rows = reached.counts.shape[1]
    beam = beam_at_root(n_rows)
    for level in levels[:-1]:
        stride = most(level.child_ptr)
        candidates = np.empty((n_rows, beam.nodes.shape[1] * stride), dtype=np.float32)
        score_level(rows, first, weights, level, logistic, beam, stride, scratch, candidates)
        next_beam = empty_beam(n_rows, search.beam)
        choose_nodes(level, stride, candidates, beam, next_beam)
        beam = next_beam
    stride = int(search.leaves.strides[tree])
    score_level(rows, first, weights, levels[-1], logistic, beam, stride, scratch, reached.scores[tree])
    reached.nodes[tree, :, : beam.nodes.shape[1]], reached.counts[tree] = beam.nodes, beam.counts


def beam_at_root(n_rows: int) -> Beam:
    """The beam that every row begins with."""
    beam = empty_beam(n_rows, 1)
    beam.counts[:] = 1
    return beam


def empty_beam(n_rows: int, width: int) -> Beam:
    """A beam without nodes."""
    from xpipe.trees._beam_numba import Beam

    return Beam(
        np.zeros((n_rows, width), dtype=np.int32),
        np.zeros((n_rows, width), dtype=np.float32),
        np.zeros(n_rows, dtype=np.int64),
    )


def to_csr(best: Best, label_numbers: np.ndarray, n_labels: int) -> sp.csr_matrix:
    """The best labels of each row as CSR, indices ascending. label_numbers: what the numbers in `best` stand for."""
    there = np.arange(best.scores.shape[1]) < best.counts[:, None]
    # what is not there goes to the end of its row
    labels = np.where(there, label_numbers[np.where(there, best.labels, 0)], n_labels)
    # one number per pair, label first: numpy sorts whole numbers several times as fast as it sorts places
    pairs = np.sort(labels.astype(np.uint64) << np.uint64(32) | best.scores.view(np.uint32), axis=1)[there]
    labels, scores = (pairs >> np.uint64(32)).astype(np.int32), pairs.astype(np.uint32).view(np.float32)
    return to_matrix(Triple(row_pointers(best.counts), labels, scores), n_labels)
