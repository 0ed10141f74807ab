"""Kernels of prediction: the nodes of one level scored for many rows at once, and the best of what they give.

Holds no threads. Rows are sorted by node, so that a node's weights are read once for all of them. Scores are logarithms
of probabilities until the last step: a path's score is a sum, and the squared hinge needs no exponential.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit
from xpipe.trees._lanes_numba import LANES, add_all_products

DENSE_SHARE = 0.02  # of the weights of a unit that are not zero: above it whole vectors are faster than single weights
DENSE_ROWS = 24  # rows a unit must serve before its weights are worth spreading out
LOWEST = -87.0  # no probability is 0: float32 holds no smaller exponential
POWERS = 2.0 ** -np.arange(128.0)


class Weights(NamedTuple):
    """Weights of all units, back to back: unit u has the features feature_ptr[u] to feature_ptr[u + 1]."""

    feature_ptr: np.ndarray  # int64
    features: np.ndarray  # int32
    entry_ptr: np.ndarray  # int64: weights of a feature of a unit
    lanes: np.ndarray  # uint8
    weights: np.ndarray  # float32
    child_ptr: np.ndarray  # int64: the unit's biases
    biases: np.ndarray  # float32


class Level(NamedTuple):
    """Nodes of one level of a tree: their units, and their children's numbers in the next level, or in the order."""

    unit_ptr: np.ndarray  # int64, numbers of units of the whole forest
    child_ptr: np.ndarray  # int64


@jit
def exp_of_negative(x):
    """exp(x) for x <= 0, but no less than exp(LOWEST); the same on every machine, to 1e-8 of its value."""
    x = max(x, LOWEST)
    whole = np.int64(0.5 - x * 1.4426950408889634)
    r = x + whole * 0.6931471805599453
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040))))))
    return series * POWERS[whole]


@jit
def log_probability(margin, logistic):
    """log of 1 / (1 + exp(-margin)), or of exp(-max(0, 1 - margin)^2)."""
    if logistic:
        return np.float32(min(margin, 0.0) - np.log1p(np.exp(-abs(np.float64(margin)))))
    short = max(np.float32(1.0) - margin, np.float32(0.0))
    return -short * short


@jit
def spread_weights(model, unit, width, block):
    """The weights of a unit as whole vectors, one a feature."""
    first, last = model.feature_ptr[unit], model.feature_ptr[unit + 1]
    for place in range(last - first):
        for lane in range(width):
            block[place * width + lane] = np.float32(0.0)
        for entry in range(model.entry_ptr[first + place], model.entry_ptr[first + place + 1]):
            block[place * width + model.lanes[entry]] = model.weights[entry]


@jit
def score_level(
    indptr, indices, values, scales, first_row, model, level, logistic, beam_nodes, beam_scores, beam_counts, stride,
    numbers, columns, own_values, block, margins, candidates
):  # fmt: skip
    """Scores of all children of the nodes in the rows' beams; row q is row first_row + q of the matrix.

    The children of the node in place s of row q get candidates[q, s * stride], ... Scratch: numbers (zeros, one a
    feature), columns and own_values (longest row), block and margins.
    """
    n_rows = len(beam_counts)
    n_nodes = len(level.child_ptr) - 1
    starts = np.zeros(n_nodes + 1, np.int64)
    for q in range(n_rows):
        for s in range(beam_counts[q]):
            starts[beam_nodes[q, s] + 1] += 1
    for node in range(n_nodes):
        starts[node + 1] += starts[node]
    free = starts[:-1].copy()
    pair_rows, pair_slots = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    for q in range(n_rows):
        for s in range(beam_counts[q]):
            at = free[beam_nodes[q, s]]
            free[beam_nodes[q, s]] += 1
            pair_rows[at], pair_slots[at] = q, s
    for node in range(n_nodes):
        if starts[node] == starts[node + 1]:
            continue
        done = 0
        for unit in range(level.unit_ptr[node], level.unit_ptr[node + 1]):
            n_lanes = model.child_ptr[unit + 1] - model.child_ptr[unit]
            first, last = model.feature_ptr[unit], model.feature_ptr[unit + 1]
            width = (n_lanes + LANES - 1) // LANES * LANES
            n_weights = model.entry_ptr[last] - model.entry_ptr[first]
            dense = n_weights > DENSE_SHARE * (last - first) * width and starts[node + 1] - starts[node] >= DENSE_ROWS
            if dense:
                spread_weights(model, unit, width, block)
            for place in range(first, last):
                numbers[model.features[place]] = place - first + 1
            for pair in range(starts[node], starts[node + 1]):
                q, s = pair_rows[pair], pair_slots[pair]
                row = first_row + q
                for lane in range(n_lanes):
                    margins[lane] = model.biases[model.child_ptr[unit] + lane]
                count = 0
                for entry in range(indptr[row], indptr[row + 1]):
                    number = numbers[indices[entry]]
                    columns[count] = np.uint32(number - 1)
                    own_values[count] = values[entry] * scales[row]
                    count += 1 if number > 0 else 0
                if dense:
                    add_all_products(columns, own_values, 0, count, block, width, margins)
                else:
                    for at in range(count):
                        place = first + columns[at]
                        value = own_values[at]
                        for entry in range(model.entry_ptr[place], model.entry_ptr[place + 1]):
                            margins[model.lanes[entry]] += value * model.weights[entry]
                score = beam_scores[q, s]
                target = candidates[q]
                offset = s * stride + done
                for lane in range(n_lanes):
                    target[offset + lane] = score + log_probability(margins[lane], logistic)
            for place in range(first, last):
                numbers[model.features[place]] = 0
            done += n_lanes


@jit
def insert_best(score, number, scores, numbers, count):
    """Put a pair into a list sorted by score, then number; gives how many are in it. Full lists drop their last."""
    place = count
    if count == len(scores):
        place = count - 1
        if score < scores[place] or (score == scores[place] and number > numbers[place]):
            return count
    else:
        count += 1
    while place > 0 and (score > scores[place - 1] or (score == scores[place - 1] and number < numbers[place - 1])):
        scores[place] = scores[place - 1]
        numbers[place] = numbers[place - 1]
        place -= 1
    scores[place] = score
    numbers[place] = number
    return count


@jit
def choose_nodes(level, stride, candidates, beam_nodes, beam_scores, beam_counts, next_nodes, next_scores, next_counts):
    """The best children of each row's nodes."""
    for q in range(len(beam_counts)):
        count = 0
        for s in range(beam_counts[q]):
            first, last = level.child_ptr[beam_nodes[q, s]], level.child_ptr[beam_nodes[q, s] + 1]
            for child in range(first, last):
                score = candidates[q, s * stride + child - first]
                count = insert_best(score, child, next_scores[q], next_nodes[q], count)
        next_counts[q] = count


@jit
def find_limit(tree_ptr, leaf_ptr, strides, candidates, beam_nodes, beam_counts, q, k, best, best_at):
    """The least score a label of a row's k best has somewhere, a little less at most.

    k * trees scores belong to k labels or more, and each of these has a mean of at least its score / trees: a label
    whose scores are all below the least of them / trees is not among the k best. Scratch: best, best_at.
    """
    n_trees = len(strides)
    count = 0
    for tree in range(n_trees):
        row = candidates[tree, q]
        for s in range(beam_counts[tree, q]):
            leaf = tree_ptr[tree] + beam_nodes[tree, q, s]
            offset = s * strides[tree] - leaf_ptr[leaf]
            for position in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
                if count < k * n_trees or row[offset + position] >= best[count - 1]:
                    count = insert_best(row[offset + position], position, best, best_at, count)
    limit = np.float32(-np.inf)
    if count == k * n_trees:
        limit = np.float32(best[count - 1] - np.log(n_trees) - 1e-3)
    return limit if limit > LOWEST else np.float32(-np.inf)  # below, all have the same probability


@jit
def best_of_one_tree(leaf_ptr, order, stride, candidates, nodes, n_nodes, scores, labels):
    """The best labels of one row and their probabilities, into scores and labels; gives how many there are.

    A score that is out is the cut for those that follow: only few probabilities are computed.
    """
    count = 0
    cut = np.float32(-np.inf)
    for s in range(n_nodes):
        first, last = leaf_ptr[nodes[s]], leaf_ptr[nodes[s] + 1]
        offset = s * stride - first
        for position in range(first, last):
            score = candidates[offset + position]
            if score < cut:
                continue
            probability = np.float32(exp_of_negative(np.float64(score)))
            if count == len(scores) and probability < scores[count - 1]:
                cut = score - np.float32(1e-3)  # a little less: the exponential is rounded
                continue
            count = insert_best(probability, order[position], scores, labels, count)
    return count


@jit
def choose_labels(
    k, tree_ptr, leaf_ptr, orders, positions, leaves, strides, candidates, beam_nodes, beam_counts, best, best_at,
    slots, seen, best_scores, best_labels, best_counts
):  # fmt: skip
    """The k labels of each row with the largest mean probability over the trees; of equal ones, the smaller labels.

    Leaf i of tree t has the labels orders[t, leaf_ptr[at] : leaf_ptr[at + 1]], at = tree_ptr[t] + i; positions is the
    inverse of orders, leaves the leaf of each position. candidates, beam_nodes, beam_counts: those of `score_level` for
    the last level, tree by tree. Scratch: best and best_at (k * trees), slots (trees x leaves, zeros), seen (labels,
    zeros).
    """
    n_trees = len(strides)
    for q in range(len(best_counts)):
        if n_trees == 1:
            best_counts[q] = best_of_one_tree(
                leaf_ptr, orders[0], strides[0], candidates[0, q], beam_nodes[0, q], beam_counts[0, q], best_scores[q],
                best_labels[q]
            )  # fmt: skip
            continue
        limit = find_limit(tree_ptr, leaf_ptr, strides, candidates, beam_nodes, beam_counts, q, k, best, best_at)
        for tree in range(n_trees):
            for s in range(beam_counts[tree, q]):
                slots[tree, beam_nodes[tree, q, s]] = s + 1
        count = 0
        for tree in range(n_trees):
            for s in range(beam_counts[tree, q]):
                leaf = tree_ptr[tree] + beam_nodes[tree, q, s]
                offset = s * strides[tree] - leaf_ptr[leaf]
                for position in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
                    if candidates[tree, q, offset + position] < limit:
                        continue
                    label = orders[tree, position]
                    if seen[label] == q + 1:
                        continue
                    seen[label] = q + 1
                    total = 0.0
                    for other in range(n_trees):
                        at = positions[other, label]
                        slot = slots[other, leaves[other, at]] - 1
                        if slot >= 0:
                            place = slot * strides[other] + at - leaf_ptr[tree_ptr[other] + leaves[other, at]]
                            total += exp_of_negative(np.float64(candidates[other, q, place]))
                    score = np.float32(total / n_trees)
                    count = insert_best(score, label, best_scores[q], best_labels[q], count)
        best_counts[q] = count
        for tree in range(n_trees):
            for s in range(beam_counts[tree, q]):
                slots[tree, beam_nodes[tree, q, s]] = 0
    seen[:] = 0
