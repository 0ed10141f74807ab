"""The best labels of each row by beam search: level by level, the best nodes of each row only.

Holds no training. The arithmetic is `_beam_numba`; rows are cut into chunks, which threads share.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.machine import lent
from xpipe.ground.sparse import Triple, to_matrix, to_triple
from xpipe.trees.forest import Forest

CHUNK_ROWS = 4096
CHUNK_SCORES = 1 << 22  # scores of candidates a chunk may hold: 16 MB


class Scratch(NamedTuple):
    """What one thread needs; as it was before after every use."""

    numbers: np.ndarray
    columns: np.ndarray
    own_values: np.ndarray
    block: np.ndarray
    margins: np.ndarray
    best: np.ndarray
    best_at: np.ndarray
    slots: np.ndarray
    seen: np.ndarray


class Search(NamedTuple):
    """A forest and a width of the beam, as the kernels want them."""

    forest: Forest
    beam: int
    strides: np.ndarray  # most children of a leaf, one a tree
    widest: int  # most children of a node of any level
    tree_ptr: np.ndarray  # first leaf of a tree in leaf_ptr
    leaf_ptr: np.ndarray
    labels: np.ndarray  # those in the trees, ascending; below, a label is its place here
    orders: np.ndarray  # trees x labels that are in them
    positions: np.ndarray  # trees x labels that are in them: where a label is in its order
    leaves: np.ndarray  # trees x labels that are in them: the leaf of each position


def predict_rows(
    forest: Forest, X: sp.csr_matrix, scales: np.ndarray, k: int, beam: int, threads: int
) -> sp.csr_matrix:
    """CSR matrix (rows x labels) of the k best labels of each row, indices ascending; fewer where fewer are reached."""
    triple = to_triple(X)
    n_rows = triple.n_rows
    if not (n_rows and forest.plans):
        return sp.csr_matrix((n_rows, forest.n_labels), dtype=np.float32)
    search = _prepare(forest, beam)
    k = min(k, search.orders.shape[1])
    scores, labels = np.empty((n_rows, k), dtype=np.float32), np.empty((n_rows, k), dtype=np.int32)
    counts = np.zeros(n_rows, dtype=np.int64)
    rows = _chunk_rows(search, n_rows, threads)
    spare: SimpleQueue[Scratch] = SimpleQueue()
    longest = int(np.diff(triple.indptr).max(initial=0))
    for _ in range(threads):
        spare.put(_scratch(search, longest, k))

    def work(first: int) -> None:
        part = slice(first, min(first + rows, n_rows))
        with lent(spare) as scratch:
            _search_chunk(search, triple, scales, first, scratch, scores[part], labels[part], counts[part])

    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
        list(pool.map(work, range(0, n_rows, rows)))
    there = np.arange(k) < counts[:, None]
    return _to_csr(scores, search.labels[np.where(there, labels, 0)], counts, forest.n_labels)


def _prepare(forest: Forest, beam: int) -> Search:
    leaves = [levels[-1].child_ptr for levels in forest.levels]
    most = max(int(np.diff(level.child_ptr).max()) for levels in forest.levels for level in levels)
    labels = np.sort(forest.plans[0].order)  # all trees have the same
    orders = np.array([np.searchsorted(labels, plan.order) for plan in forest.plans], dtype=np.int32)
    positions = np.zeros(orders.shape, dtype=np.int32)
    np.put_along_axis(positions, orders, np.arange(orders.shape[1], dtype=np.int32)[None, :], axis=1)
    return Search(
        forest,
        beam,
        np.array([int(np.diff(ptr).max()) for ptr in leaves], dtype=np.int64),
        most,
        np.cumsum([0, *(len(ptr) for ptr in leaves)]).astype(np.int64),
        np.concatenate(leaves),
        labels,
        orders,
        positions,
        np.array([np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)) for ptr in leaves], dtype=np.int32),
    )


def _chunk_rows(search: Search, n_rows: int, threads: int) -> int:
    """Rows a chunk: few enough for its memory and for all threads to have some."""
    a_row = max(1, (len(search.strides) + 1) * search.beam * search.widest)
    return max(1, min(CHUNK_ROWS, CHUNK_SCORES // a_row, -(-n_rows // threads)))


def _scratch(search: Search, longest: int, k: int) -> Scratch:
    from xpipe.trees._lanes_numba import LANES

    weights, n_trees = search.forest.weights, len(search.strides)
    widths = -(-np.diff(weights.child_ptr) // LANES) * LANES
    return Scratch(
        np.zeros(search.forest.n_features, dtype=np.int32),
        np.empty(longest + 1, dtype=np.uint32),
        np.empty(longest + 1, dtype=np.float32),
        np.empty(int((np.diff(weights.feature_ptr) * widths).max(initial=0)), dtype=np.float32),
        np.zeros(int(widths.max(initial=0)), dtype=np.float32),
        np.empty(k * n_trees, dtype=np.float32),
        np.empty(k * n_trees, dtype=np.int32),
        np.zeros((n_trees, int(np.diff(search.tree_ptr).max())), dtype=np.int32),
        np.zeros(len(search.labels), dtype=np.int32),
    )


def _search_chunk(
    search: Search, X: Triple, scales: np.ndarray, first: int, scratch: Scratch, scores: np.ndarray,
    labels: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    from xpipe.trees import _beam_numba

    forest, beam, n_rows, n_trees = search.forest, search.beam, len(counts), len(search.forest.plans)
    logistic = forest.loss == "logistic"
    nodes = np.zeros((n_trees, n_rows, beam), dtype=np.int32)
    reached = np.ones((n_trees, n_rows), dtype=np.int64)
    candidates = np.empty((n_trees, n_rows, beam * int(search.strides.max())), dtype=np.float32)
    for tree, levels in enumerate(forest.levels):
        beam_nodes, beam_counts = np.zeros((n_rows, 1), dtype=np.int32), np.ones(n_rows, dtype=np.int64)
        beam_scores = np.zeros((n_rows, 1), dtype=np.float32)
        for depth, level in enumerate(levels):
            last = depth == len(levels) - 1
            stride = int(search.strides[tree]) if last else int(np.diff(level.child_ptr).max())
            found = candidates[tree] if last else np.empty((n_rows, beam_nodes.shape[1] * stride), dtype=np.float32)
            _beam_numba.score_level(
                X.indptr, X.indices, X.values, scales, first, forest.weights, level, logistic, beam_nodes, beam_scores,
                beam_counts, stride, *scratch[:5], found,
            )  # fmt: skip
            if last:
                nodes[tree, :, : beam_nodes.shape[1]], reached[tree] = beam_nodes, beam_counts
            else:
                next_nodes, next_counts = np.zeros((n_rows, beam), dtype=np.int32), np.zeros(n_rows, dtype=np.int64)
                next_scores = np.zeros((n_rows, beam), dtype=np.float32)
                _beam_numba.choose_nodes(
                    level, stride, found, beam_nodes, beam_scores, beam_counts, next_nodes, next_scores, next_counts
                )
                beam_nodes, beam_scores, beam_counts = next_nodes, next_scores, next_counts
    _beam_numba.choose_labels(
        scores.shape[1], search.tree_ptr, search.leaf_ptr, search.orders, search.positions, search.leaves,
        search.strides, candidates, nodes, reached, *scratch[5:], scores, labels, counts,
    )  # fmt: skip


def _to_csr(scores: np.ndarray, labels: np.ndarray, counts: np.ndarray, n_labels: int) -> sp.csr_matrix:
    there = np.arange(scores.shape[1]) < counts[:, None]
    labels = np.where(there, labels, n_labels)  # what is not there goes to the end of its row
    order = np.argsort(labels, axis=1, kind="stable")
    labels, scores = np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return to_matrix(Triple(indptr, labels[there].astype(np.int32), scores[there]), n_labels)
