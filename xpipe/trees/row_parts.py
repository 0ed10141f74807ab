"""Nodes of many rows are trained in parts: which rows are in a part, and the mean of what the parts have learnt.

Holds no training. The rows that reach a node are dealt to the parts in turn, and every part learns from its rows alone.
The mean of their classifiers predicts as well as one that has seen all rows (benchmarks/row_parts.py), and parts are
trained side by side: no core waits for another one at the root of a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse_rows import entries_of_rows, row_pointers
from xpipe.trees.options import TreeOptions
from xpipe.trees.planning import TreePlan, Unit

ROWS_OF_PART = 200_000  # of a part, at least


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


def mean_of_parts(parts: Sequence[UnitWeights], unit: Unit, options: TreeOptions) -> UnitWeights:
    """The mean of what the parts of a unit have learnt; weights below the threshold become 0.

    Sums are in the order of the parts.
    """
    if len(parts) == 1:
        return parts[0]
    n_lanes = unit.last_child - unit.first_child
    features = np.unique(np.concatenate([part.features for part in parts]))
    total, biases = np.zeros((len(features), n_lanes), np.float32), np.zeros(n_lanes, np.float32)
    for part in parts:
        places = np.repeat(np.searchsorted(features, part.features), np.diff(part.feature_ptr))
        total[places, part.lanes] += part.weights
        biases += part.biases
    total /= np.float32(len(parts))
    large = (np.abs(total) >= np.float32(options.threshold)) & (total != 0)
    counts = np.count_nonzero(large, axis=1)
    kept, lanes = np.flatnonzero(counts), np.nonzero(large)[1].astype(np.uint8)
    return UnitWeights(features[kept], row_pointers(counts[kept]), lanes, total[large], biases / np.float32(len(parts)))
