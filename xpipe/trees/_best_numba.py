"""Kernels that choose the best labels of each row from the scores of all trees.

Holds no weights: the scores of the leaves come from `_beam_numba`. They are logarithms of probabilities.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit, jit_inline

LOWEST = -87.0  # no probability is 0: float32 holds no smaller exponential
BLUR = 1e-6  # scores whose probabilities differ by less than this part may change places when these are rounded
LANES = 8  # scores that are compared at once
POWERS = 2.0 ** -np.arange(128.0)


class Leaves(NamedTuple):
    """The leaves of all trees. Leaf i of tree t is number at = tree_ptr[t] + i.

    It has the labels orders[t, leaf_ptr[at] : leaf_ptr[at + 1]].
    """

    tree_ptr: np.ndarray  # int64: the first leaf of each tree in leaf_ptr
    leaf_ptr: np.ndarray  # int64
    strides: np.ndarray  # int64: the most labels of a leaf, one per tree
    orders: np.ndarray  # int32 [n_trees, n_labels]: label at each position
    positions: np.ndarray  # int32 [n_trees, n_labels]: the position of each label
    leaves: np.ndarray  # int32 [n_trees, n_labels]: the leaf of each position


class Reached(NamedTuple):
    """The leaves that each row reaches in each tree, and the scores of their labels.

    Labels of the leaf in place s of row q begin at scores[tree, q, s * stride of the tree].
    """

    nodes: np.ndarray  # int32 [n_trees, n_rows, beam]
    counts: np.ndarray  # int64 [n_trees, n_rows]
    scores: np.ndarray  # float32 [n_trees, n_rows, beam * largest stride]


class LabelScratch(NamedTuple):
    """Work space of one thread. `slots` and `seen` are zeros before and after every use."""

    best: np.ndarray  # float32 [k * n_trees + 1]
    best_at: np.ndarray  # int32 [k * n_trees + 1]
    lanes: np.ndarray  # float32 [LANES]
    slots: np.ndarray  # int32 [n_trees, most leaves of a tree]
    seen: np.ndarray  # int32 [n_labels]


class Best(NamedTuple):
    """The best labels of each row, best first."""

    scores: np.ndarray  # float32 [n_rows, k]: probabilities
    labels: np.ndarray  # int32 [n_rows, k]
    counts: np.ndarray  # int64 [n_rows]


@jit
def exp_of_negative(x):
    """exp(x) for x <= 0, but no less than exp(LOWEST); the same on every machine, to 1e-8 of its value."""
    x = max(x, LOWEST)
    whole = np.int64(0.5 - x * 1.4426950408889634)
    r = x + whole * 0.6931471805599453
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040))))))
    return series * POWERS[whole]


@jit
def insert_best(score, number, scores, numbers, count):
    """Put a pair into a list sorted by score, then by number; returns the length. A full list drops its last pair."""
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


@jit_inline
def least_of_best(leaves, reached, q, lanes):
    """A score that at least len(lanes) labels of row q reach, where there is one tree; -inf where it has fewer.

    Label i goes to lane i % len(lanes), and each lane keeps its best score: whole vectors are compared. Most of the
    labels are below the least of these, so that they never enter the list of the best.
    """
    candidates = reached.scores[0, q]
    lanes[:] = -np.inf
    for s in range(reached.counts[0, q]):
        node = reached.nodes[0, q, s]
        offset = s * leaves.strides[0]
        for start in range(0, leaves.leaf_ptr[node + 1] - leaves.leaf_ptr[node] - LANES + 1, LANES):
            for lane in range(LANES):
                lanes[lane] = max(lanes[lane], candidates[offset + start + lane])
    least = lanes[0]
    for lane in range(LANES):
        least = min(least, lanes[lane])
    return least


@jit_inline
def find_limit(leaves, reached, q, k, scratch):
    """A bound for row q: each of its k best labels has a score at or above it in some tree.

    The k * n_trees best scores belong to k labels or more, and each of these has a mean of at least its score /
    n_trees. So a label whose scores are all below the least of them / n_trees is not among the k best.
    """
    leaf_ptr, strides = leaves.leaf_ptr, leaves.strides
    n_trees = len(strides)
    best, best_at = scratch.best[: k * n_trees], scratch.best_at[: k * n_trees]
    count = 0
    for tree in range(n_trees):
        row = reached.scores[tree, q]
        for s in range(reached.counts[tree, q]):
            leaf = leaves.tree_ptr[tree] + reached.nodes[tree, q, s]
            offset = s * strides[tree] - leaf_ptr[leaf]
            for position in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
                if count < k * n_trees or row[offset + position] >= best[count - 1]:
                    count = insert_best(row[offset + position], position, best, best_at, count)
    limit = np.float32(-np.inf)
    if count == k * n_trees:
        limit = np.float32(best[count - 1] - np.log(n_trees) - 1e-3)
    return limit if limit > LOWEST else np.float32(-np.inf)  # below LOWEST all have the same probability


@jit_inline
def best_of_one_tree(leaves, reached, q, scratch, scores, labels):
    """The best labels of row q and their probabilities, where there is one tree; returns how many there are.

    Labels are chosen by their scores, so that only probabilities of the chosen ones are computed. Different scores may
    round to the same probability, and then the label number decides: where the best label that is out comes near the
    lowest probability that is in, all are compared by probability.
    """
    candidates, order = reached.scores[0, q], leaves.orders[0]
    full = len(scores) + 1  # one more than is asked for: the best label that is out
    best, best_at = scratch.best[:full], scratch.best_at[:full]
    count = 0
    last = least_of_best(leaves, reached, q, scratch.lanes) if full <= len(scratch.lanes) else np.float32(-np.inf)
    for s in range(reached.counts[0, q]):
        node = reached.nodes[0, q, s]
        first = leaves.leaf_ptr[node]
        n_labels = leaves.leaf_ptr[node + 1] - first
        offset = s * leaves.strides[0]
        for place in range(n_labels):
            score = candidates[offset + place]
            if score < last:
                continue
            count = insert_best(score, order[first + place], best, best_at, count)
            if count == full:
                last = best[count - 1]
    lowest = np.float32(np.inf)
    for place in range(min(count, len(scores))):
        scores[place] = np.float32(exp_of_negative(np.float64(best[place])))
        labels[place] = best_at[place]
        lowest = min(lowest, scores[place])
    if count == full:
        count -= 1
        if exp_of_negative(np.float64(best[count])) * (1 + BLUR) >= lowest:
            return best_by_probability(leaves, reached, q, scores, labels)
    return count


@jit
def best_by_probability(leaves, reached, q, scores, labels):
    """As `best_of_one_tree`, by the probabilities of all labels that the row reaches."""
    candidates, order = reached.scores[0, q], leaves.orders[0]
    count = 0
    for s in range(reached.counts[0, q]):
        node = reached.nodes[0, q, s]
        first, last = leaves.leaf_ptr[node], leaves.leaf_ptr[node + 1]
        offset = s * leaves.strides[0] - first
        for position in range(first, last):
            probability = np.float32(exp_of_negative(np.float64(candidates[offset + position])))
            count = insert_best(probability, order[position], scores, labels, count)
    return count


@jit_inline
def mean_probability(label, q, leaves, reached, slots):
    """The mean probability of a label of row q over all trees; 0 in trees where the row does not reach its leaf."""
    n_trees = len(leaves.strides)
    total = 0.0
    for tree in range(n_trees):
        at = leaves.positions[tree, label]
        leaf = leaves.leaves[tree, at]
        slot = slots[tree, leaf] - 1
        if slot >= 0:
            place = slot * leaves.strides[tree] + at - leaves.leaf_ptr[leaves.tree_ptr[tree] + leaf]
            total += exp_of_negative(np.float64(reached.scores[tree, q, place]))
    return np.float32(total / n_trees)


@jit_inline
def best_of_trees(leaves, reached, q, limit, scratch, scores, labels):
    """The best labels of row q by their mean probability over the trees; returns how many there are."""
    slots, seen = scratch.slots, scratch.seen
    leaf_ptr, orders, candidates = leaves.leaf_ptr, leaves.orders, reached.scores
    n_trees = len(leaves.strides)
    for tree in range(n_trees):
        for s in range(reached.counts[tree, q]):
            slots[tree, reached.nodes[tree, q, s]] = s + 1
    count = 0
    for tree in range(n_trees):
        for s in range(reached.counts[tree, q]):
            leaf = leaves.tree_ptr[tree] + reached.nodes[tree, q, s]
            offset = s * leaves.strides[tree] - leaf_ptr[leaf]
            for position in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
                if candidates[tree, q, offset + position] < limit:
                    continue
                label = orders[tree, position]
                if seen[label] == q + 1:
                    continue
                seen[label] = q + 1
                score = mean_probability(label, q, leaves, reached, slots)
                count = insert_best(score, label, scores, labels, count)
    for tree in range(n_trees):
        for s in range(reached.counts[tree, q]):
            slots[tree, reached.nodes[tree, q, s]] = 0
    return count


@jit
def choose_labels(leaves, reached, scratch, best):
    """For each row, the labels with the largest mean probability over the trees; of equal ones the smaller label."""
    k = best.scores.shape[1]
    for q in range(len(best.counts)):
        if len(leaves.strides) == 1:
            best.counts[q] = best_of_one_tree(leaves, reached, q, scratch, best.scores[q], best.labels[q])
        else:
            limit = find_limit(leaves, reached, q, k, scratch)
            best.counts[q] = best_of_trees(leaves, reached, q, limit, scratch, best.scores[q], best.labels[q])
    scratch.seen[:] = 0
