"""Nodes of many rows are trained in parts: which rows are in a part, and the mean of what the parts have learnt.

Holds no training. The rows that reach a node are dealt to the parts in turn, and every part learns from its rows alone.
The mean of their classifiers predicts as well as one that has seen all rows (benchmarks/row_parts.py), and parts are
trained side by side: no core waits for another one at the root of a tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse_rows import entries_of_rows, row_pointers
from xpipe.trees.options import TreeOptions
from xpipe.trees.planning import TreePlan, Unit

if TYPE_CHECKING:
    from xpipe.trees._gather_numba import NodeFeatures

ROWS_OF_PART = 200_000  # of a part, at least
KEPT = 0.5  # of the threshold: weights of a part that are smaller do not count in the mean
SMALLEST = 1e-30  # smaller weights count as 0, whatever the threshold


class UnitWeights(NamedTuple):
    """What a unit has learnt: features[f] has the entries feature_ptr[f] to feature_ptr[f + 1] - 1."""

    features: np.ndarray  # int32, ascending; only those with weights
    feature_ptr: np.ndarray  # int64
    lanes: np.ndarray  # uint8: which of the unit's children
    weights: np.ndarray  # float32
    biases: np.ndarray  # float32, one per child


class Part(NamedTuple):
    """Rows number, number + of, number + 2 of, ... of those that reach a node."""

    number: int
    of: int


def parts_of(n_rows: int) -> list[Part]:
    """The parts of a node that so many rows reach.

    Examples
    --------
    >>> from xpipe.trees.row_parts import parts_of
    >>> parts_of(399_999), parts_of(400_000)
    ([Part(number=0, of=1)], [Part(number=0, of=2), Part(number=1, of=2)])
    """
    n_parts = max(1, n_rows // ROWS_OF_PART)
    return [Part(number, n_parts) for number in range(n_parts)]


def parts_of_units(label_rows: sp.csr_matrix, plan: TreePlan) -> list[list[Part]]:
    """The parts of all units of a plan, in their order. Rows are counted only where they may be many."""
    reached = row_pointers(np.diff(label_rows.indptr)[plan.order])
    found: list[list[Part]] = []
    of_node: dict[tuple[int, int], list[Part]] = {}
    for unit in plan.units():
        node = unit.level, unit.node
        if node not in of_node:
            start, stop = plan.span(*node)
            many = int(reached[stop] - reached[start]) >= 2 * ROWS_OF_PART
            of_node = {node: parts_of(_count_rows(label_rows, plan.order[start:stop]) if many else 0)}
        found.append(of_node[node])
    return found


def _count_rows(label_rows: sp.csr_matrix, labels: np.ndarray) -> int:
    """How many rows have one of the labels."""
    has_label = np.zeros(label_rows.shape[1], dtype=bool)
    has_label[label_rows.indices[entries_of_rows(label_rows.indptr, labels).places]] = True
    return int(np.count_nonzero(has_label))


def mean_of_parts(
    parts: Iterable[UnitWeights], part_of: int, unit: Unit, n_features: int, options: TreeOptions
) -> UnitWeights:
    """The mean of what the parts of a unit have learnt; weights below the threshold become 0.

    parts: `part_of` of them; one at a time is asked for, and sums are in their order.
    """
    from xpipe.trees._gather_numba import NodeFeatures, add_weights

    if part_of == 1:
        (only,) = parts
        return only
    n_lanes = unit.last_child - unit.first_child
    total, biases = np.zeros((n_features, n_lanes), np.float32), np.zeros(n_lanes, np.float32)
    for part in parts:
        add_weights(part.features, part.feature_ptr, part.lanes, part.weights, total)
        biases += part.biases
    total /= np.float32(part_of)
    every = NodeFeatures(np.arange(n_features, dtype=np.int32), np.arange(n_features), np.ones(n_features, np.float32))
    none = np.empty((0, n_lanes), np.float32)
    return large_weights(total, none, n_lanes, every, biases / np.float32(part_of), options.threshold)


def large_weights(
    block: np.ndarray, betas: np.ndarray, n_lanes: int, features: NodeFeatures, biases: np.ndarray, least: float
) -> UnitWeights:
    """The weights of a block that are not below `least`; those of features of one row are in `betas`."""
    from xpipe.trees._gather_numba import count_large, keep_large

    threshold = np.float32(max(least, SMALLEST))
    counts = np.zeros(len(features.features), dtype=np.int64)
    n_large = count_large(block, betas, features, n_lanes, threshold, counts)
    lanes, weights = np.empty(n_large + 1, dtype=np.uint8), np.empty(n_large + 1, dtype=np.float32)
    keep_large(block, betas, features, n_lanes, threshold, counts, lanes, weights)
    kept = np.flatnonzero(counts)
    return UnitWeights(features.features[kept], row_pointers(counts[kept]), lanes[:-1], weights[:-1], biases)
