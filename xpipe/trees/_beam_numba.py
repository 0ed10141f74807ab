"""Kernels that score the nodes of one level for many rows at once, and keep the best nodes of each row.

Holds no threads. Rows are sorted by node, so that a node's weights are read once for all rows. Scores are logarithms of
probabilities: the score of a path is a sum, and the squared hinge needs no exponential.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit, jit_inline
from xpipe.trees._best_numba import insert_best
from xpipe.trees._lanes_numba import LANES, add_all_products

DENSE_SHARE = 0.02  # share of a unit's weights that are not zero, above which whole vectors are faster than single ones
DENSE_ROWS = 24  # rows a unit must serve before its weights are worth spreading out


class Weights(NamedTuple):
    """Weights of all units, back to back: unit u has the features feature_ptr[u] to feature_ptr[u + 1] - 1."""

    feature_ptr: np.ndarray  # int64
    features: np.ndarray  # int32
    entry_ptr: np.ndarray  # int64: feature f has the entries entry_ptr[f] to entry_ptr[f + 1] - 1
    lanes: np.ndarray  # uint8: the child of each entry
    weights: np.ndarray  # float32
    child_ptr: np.ndarray  # int64: unit u has the biases child_ptr[u] to child_ptr[u + 1] - 1
    biases: np.ndarray  # float32


class Level(NamedTuple):
    """Nodes of one level of a tree. The children of the last level are positions in the tree's order of labels."""

    unit_ptr: np.ndarray  # int64: node i has the units unit_ptr[i] to unit_ptr[i + 1] - 1 of the whole forest
    child_ptr: np.ndarray  # int64: node i has the children child_ptr[i] to child_ptr[i + 1] - 1


class Beam(NamedTuple):
    """The nodes of one level that are followed for each row, and the scores of the paths to them."""

    nodes: np.ndarray  # int32 [n_rows, beam]
    scores: np.ndarray  # float32 [n_rows, beam]
    counts: np.ndarray  # int64 [n_rows]


class Scratch(NamedTuple):
    """Work space of one thread. `numbers` is zeros before and after every use."""

    numbers: np.ndarray  # int32 [n_features]
    columns: np.ndarray  # uint32 [longest row + 1]
    values: np.ndarray  # float32 [longest row + 1]
    block: np.ndarray  # float32: the weights of the largest unit as whole vectors
    margins: np.ndarray  # float32 [widest unit]


@jit
def log_probability(margin, logistic):
    """log of 1 / (1 + exp(-margin)), or of exp(-max(0, 1 - margin)^2)."""
    if logistic:
        return np.float32(min(margin, 0.0) - np.log1p(np.exp(-abs(np.float64(margin)))))
    short = max(np.float32(1.0) - margin, np.float32(0.0))
    return -short * short


@jit
def spread_weights(model, unit, width, block):
    """Write the weights of a unit as whole vectors, one per feature."""
    first, last = model.feature_ptr[unit], model.feature_ptr[unit + 1]
    for place in range(last - first):
        for lane in range(width):
            block[place * width + lane] = np.float32(0.0)
        for entry in range(model.entry_ptr[first + place], model.entry_ptr[first + place + 1]):
            block[place * width + model.lanes[entry]] = model.weights[entry]


@jit
def sort_pairs(beam, n_nodes):
    """(starts, rows, slots): the pairs of a row and a slot of its beam, sorted by the node in the slot.

    Pairs starts[i] to starts[i + 1] - 1 belong to node i.
    """
    starts = np.zeros(n_nodes + 1, np.int64)
    for q in range(len(beam.counts)):
        for s in range(beam.counts[q]):
            starts[beam.nodes[q, s] + 1] += 1
    for node in range(n_nodes):
        starts[node + 1] += starts[node]
    free = starts[:-1].copy()
    rows, slots = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    for q in range(len(beam.counts)):
        for s in range(beam.counts[q]):
            at = free[beam.nodes[q, s]]
            free[beam.nodes[q, s]] += 1
            rows[at], slots[at] = q, s
    return starts, rows, slots


@jit_inline
def fill_margins(X, row, model, unit, width, dense, scratch):
    """Scores of a row with the children of a unit. scratch.numbers: place of each of the unit's features, from 1."""
    columns, values, margins, numbers = scratch.columns, scratch.values, scratch.margins, scratch.numbers
    indices, row_values, scale = X.indices, X.values, X.scales[row]
    first_child = model.child_ptr[unit]
    for lane in range(model.child_ptr[unit + 1] - first_child):
        margins[lane] = model.biases[first_child + lane]
    count = 0
    for entry in range(X.indptr[row], X.indptr[row + 1]):
        number = numbers[indices[entry]]
        columns[count] = np.uint32(number - 1)
        values[count] = row_values[entry] * scale
        count += 1 if number > 0 else 0
    if dense:
        add_all_products(columns, values, 0, count, scratch.block, width, margins)
    else:
        first, entry_ptr, lanes, weights = model.feature_ptr[unit], model.entry_ptr, model.lanes, model.weights
        for at in range(count):
            place = first + columns[at]
            value = values[at]
            for entry in range(entry_ptr[place], entry_ptr[place + 1]):
                margins[lanes[entry]] += value * weights[entry]


@jit
def score_level(X, first_row, model, level, logistic, beam, stride, scratch, candidates):
    """Scores of all children of the nodes in the rows' beams; row q is row first_row + q of X (SparseRows).

    The children of the node in place s of row q get candidates[q, s * stride], candidates[q, s * stride + 1], ...
    """
    n_nodes = len(level.child_ptr) - 1
    unit_ptr, path_scores = level.unit_ptr, beam.scores
    child_ptr, feature_ptr, entry_ptr, features = model.child_ptr, model.feature_ptr, model.entry_ptr, model.features
    numbers, margins = scratch.numbers, scratch.margins
    starts, pair_rows, pair_slots = sort_pairs(beam, n_nodes)
    for node in range(n_nodes):
        n_pairs = starts[node + 1] - starts[node]
        if n_pairs == 0:
            continue
        done = 0
        for unit in range(unit_ptr[node], unit_ptr[node + 1]):
            n_lanes = child_ptr[unit + 1] - child_ptr[unit]
            first, last = feature_ptr[unit], feature_ptr[unit + 1]
            width = (n_lanes + LANES - 1) // LANES * LANES
            n_weights = entry_ptr[last] - entry_ptr[first]
            dense = n_weights > DENSE_SHARE * (last - first) * width and n_pairs >= DENSE_ROWS
            if dense:
                spread_weights(model, unit, width, scratch.block)
            for place in range(first, last):
                numbers[features[place]] = place - first + 1
            for pair in range(starts[node], starts[node + 1]):
                q, s = pair_rows[pair], pair_slots[pair]
                fill_margins(X, first_row + q, model, unit, width, dense, scratch)
                score = path_scores[q, s]
                offset = s * stride + done
                for lane in range(n_lanes):
                    candidates[q, offset + lane] = score + log_probability(margins[lane], logistic)
            for place in range(first, last):
                numbers[features[place]] = 0
            done += n_lanes


@jit
def choose_nodes(level, stride, candidates, beam, next_beam):
    """Fill next_beam with the best children of each row's nodes."""
    for q in range(len(beam.counts)):
        count = 0
        for s in range(beam.counts[q]):
            first, last = level.child_ptr[beam.nodes[q, s]], level.child_ptr[beam.nodes[q, s] + 1]
            for child in range(first, last):
                score = candidates[q, s * stride + child - first]
                count = insert_best(score, child, next_beam.scores[q], next_beam.nodes[q], count)
        next_beam.counts[q] = count
