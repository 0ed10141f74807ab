"""The classifiers of a tree, unit by unit: a unit is some children of one node, and needs nothing of the others.

Holds no tree (`planning`) and no threads (`model`). What a unit gives depends on the rows that reach its node, on their
labels and on the options alone. Kernels are `_gather_numba` and `_solver_numba`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import Triple, canonical, check_shapes, row_norms, to_matrix, to_triple
from xpipe.trees.options import TreeOptions
from xpipe.trees.planning import TreePlan, Unit

SMALLEST = 1e-30  # weights below it are no weights, whatever the threshold


@dataclass(frozen=True)
class TrainingData:
    """Rows and their labels, checked. Made by `state_data`."""

    X: Triple  # samples x features
    n_features: int
    scales: np.ndarray  # float32: rows count times these
    label_rows: sp.csr_matrix  # labels x samples; values: the weights of positives

    @property
    def n_labels(self) -> int:
        return self.label_rows.shape[0]

    @property
    def labels(self) -> np.ndarray:
        """Labels with positives, ascending, int64."""
        return np.flatnonzero(np.diff(self.label_rows.indptr))


class UnitWeights(NamedTuple):
    """What a unit has learnt: the weights of features[f] are entries feature_ptr[f] to feature_ptr[f + 1]."""

    features: np.ndarray  # int32, ascending; only those with weights
    feature_ptr: np.ndarray  # int64
    lanes: np.ndarray  # uint8: which of the unit's children
    weights: np.ndarray  # float32
    biases: np.ndarray  # float32, one a child


class Owners(NamedTuple):
    """Rows that reach a node, ascending, and the children among a unit's that each of them is in."""

    rows: np.ndarray  # int64
    owner_ptr: np.ndarray  # int64
    owners: np.ndarray  # int64, from 0: children of the unit
    weights: np.ndarray  # float32


def state_data(
    X: sp.csr_matrix, Y: sp.csr_matrix, label_scores: sp.csr_matrix | None = None, *, normalize: bool = True
) -> TrainingData:
    """Check and arrange what a forest is trained on.

    X: samples x features. Y: samples x labels; its stored entries that are not zero are positives, whatever their
    values. label_scores: same entries as Y, values >= 0, weights of the positives; 0 leaves out a row for a label.
    Raises DataError where they are wrong or do not fit each other.
    """
    X, Y = canonical(X, "features (X)"), canonical(Y, "labels (Y)")
    check_shapes(X, Y=Y)
    weights = np.ones(Y.nnz, dtype=np.float32)
    if label_scores is not None:
        scores = canonical(label_scores, "label_scores")
        same = scores.shape == Y.shape and scores.nnz == Y.nnz
        if not (same and np.array_equal(scores.indptr, Y.indptr) and np.array_equal(scores.indices, Y.indices)):
            raise DataError(
                "label_scores do not fit the labels (Y)",
                why=f"they have {scores.nnz:,} entries in {scores.shape}, the labels {Y.nnz:,} in {Y.shape}",
                fix="give one score for every entry of Y and no other",
            )
        if (scores.data < 0).any():
            raise DataError("label_scores has a value below 0", fix="scores are weights: give them from 0 on")
        weights = scores.data
    positive = Y.data != 0
    indptr = np.concatenate([[0], np.cumsum(positive)])[Y.indptr]
    owned = to_matrix(Triple(indptr, Y.indices[positive].astype(np.int32), np.arange(positive.sum())), Y.shape[1])
    label_rows = owned.tocsc().T  # CSR of the transpose, its values the place each entry had
    label_rows.data = weights[positive][label_rows.data]
    triple = to_triple(X)
    scales = row_scales(triple) if normalize else np.ones(X.shape[0], dtype=np.float32)
    return TrainingData(triple, X.shape[1], scales, label_rows)


def row_scales(X: Triple) -> np.ndarray:
    """1 / length of each row, float32; 0 for rows without length."""
    norms = row_norms(X)
    return np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0).astype(np.float32)


def unit_costs(data: TrainingData, plan: TreePlan) -> np.ndarray:
    """About how long each unit of a plan takes, int64: entries of the rows that may reach its node, times vectors."""
    from xpipe.trees._lanes_numba import LANES

    label_sizes = np.diff(data.label_rows.indptr)[plan.order]
    reached = np.concatenate([[0], np.cumsum(label_sizes)])
    entries_a_row = 1 + data.X.indptr[-1] // max(data.X.n_rows, 1)
    costs = []
    for unit in plan.units():
        start, stop = plan.span(unit.level, unit.node)
        rows = min(int(reached[stop] - reached[start]), data.X.n_rows)
        costs.append(rows * int(entries_a_row) * -(-(unit.last_child - unit.first_child) // LANES))
    return np.array(costs, dtype=np.int64)


def train_unit(data: TrainingData, plan: TreePlan, unit: Unit, options: TreeOptions) -> UnitWeights:
    """Train the classifiers of some children of one node on the rows that reach it.

    `data` may hold these rows only, or any others besides, as long as they keep their order: the bytes are the same.
    """
    from xpipe.trees import _gather_numba, _solver_numba
    from xpipe.trees._lanes_numba import LANES

    rows, owner_ptr, owners, owner_weights = unit_rows(data.label_rows, plan, unit)
    n_lanes = unit.last_child - unit.first_child
    width = LANES * -(-n_lanes // LANES)
    seen = np.zeros(data.n_features, dtype=np.uint8)
    n_entries, n_features = _gather_numba.count_features(data.X.indptr, data.X.indices, rows, seen)
    features, numbers = np.empty(n_features, dtype=np.int32), np.empty(data.n_features, dtype=np.uint32)
    own_ptr, columns = np.empty(len(rows) + 1, dtype=np.int64), np.empty(n_entries, dtype=np.uint32)
    own_values, squares = np.empty(n_entries, dtype=np.float32), np.empty(len(rows), dtype=np.float32)
    _gather_numba.gather_rows(
        *data.X, data.scales, rows, seen, options.bias, numbers, features, own_ptr, columns, own_values, squares
    )
    block = np.zeros((n_features + 1, width), dtype=np.float32)
    state = bit_generator(options.seed, "tree", plan.tree, "solve", *unit).random_raw()
    _solver_numba.solve_lanes(
        own_ptr, columns, own_values, squares, owner_ptr, owners, owner_weights * np.float32(options.cost), n_lanes,
        options.cost, np.float32(options.bias), options.loss == "logistic", options.tolerance, options.max_rounds,
        np.uint64(state), block, np.zeros((len(rows), width), dtype=np.float32), np.empty(width, dtype=np.float32),
    )  # fmt: skip
    threshold = np.float32(max(options.threshold, SMALLEST))
    counts = np.zeros(n_features, dtype=np.int64)
    _gather_numba.count_large(block, n_lanes, threshold, counts)
    lanes, weights = np.empty(counts.sum(), dtype=np.uint8), np.empty(counts.sum(), dtype=np.float32)
    _gather_numba.keep_large(block, n_lanes, threshold, lanes, weights)
    kept = np.flatnonzero(counts)
    feature_ptr = np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)
    return UnitWeights(
        features[kept], feature_ptr, lanes, weights, block[n_features, :n_lanes] * np.float32(options.bias)
    )


def unit_rows(label_rows: sp.csr_matrix, plan: TreePlan, unit: Unit) -> Owners:
    """The rows that reach the unit's node, and which of its children they are in.

    A row is in a child with the largest weight it has for any label below it.
    """
    positions = np.arange(*plan.span(unit.level, unit.node))
    labels = plan.order[positions]
    starts = label_rows.indptr[labels].astype(np.int64)
    sizes = label_rows.indptr[labels + 1] - starts
    children = plan.child_of(unit.level, unit.node, positions)
    n_children = int(children[-1]) + 1
    entries = np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    pairs, weights = label_rows.indices[entries].astype(np.int64), label_rows.data[entries]
    del entries  # as large as what is sorted: a root has all labels of all rows
    pairs *= n_children
    pairs += np.repeat(children, sizes)
    order = np.argsort(pairs, kind="stable")
    pairs, weights = pairs[order], weights[order]
    del order
    firsts = np.flatnonzero(_changes(pairs))
    if len(firsts):
        weights = np.maximum.reduceat(weights, firsts)
    found, child = np.divmod(pairs[firsts], n_children)
    new_row = _changes(found)
    inside = (child >= unit.first_child) & (child < unit.last_child)
    counts = np.bincount((np.cumsum(new_row) - 1)[inside], minlength=int(new_row.sum()))
    owner_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Owners(found[new_row], owner_ptr, child[inside] - unit.first_child, weights[inside].astype(np.float32))


def _changes(numbers: np.ndarray) -> np.ndarray:
    """True where a number is not that before it."""
    found = np.ones(len(numbers), dtype=bool)
    found[1:] = numbers[1:] != numbers[:-1]
    return found
