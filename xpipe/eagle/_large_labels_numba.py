"""Kernels of the rounds of labels with many rows: a batch of labels takes every step of a round together.

Holds no product of the whole batch: that is a call of BLAS between the steps (`large_labels`). Symbols as in
`_rounds_numba`: q = posterior, s = score.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._posteriors_numba import calibrate_label, noisy_or
from xpipe.eagle._rounds_numba import LabelGroups, gather_groups, largest_change, leave_groups_out, list_news
from xpipe.eagle._whitened_numba import add_coordinates, add_rows, score_rows
from xpipe.ground.accelerate import jit


class LabelBatch(NamedTuple):
    """Some labels, with arrays of all of them one label after the other.

    starts, group_starts, member_starts [labels + 1]: where the rows, groups and members of each label begin. numbers,
    ends, members: `LabelGroups` of each label, one after the other.
    """

    labels: np.ndarray  # int64
    starts: np.ndarray  # int64
    group_starts: np.ndarray  # int64
    member_starts: np.ndarray  # int64
    numbers: np.ndarray  # int32
    ends: np.ndarray  # int64
    members: np.ndarray  # int64


class BatchState(NamedTuple):
    """What the rounds of a batch change. All are float32, except `active`.

    told, news, before: one per row. outside: one per member. dense [labels, n_features], leading [labels, rank]: sums
    of weighted rows. weights [labels, n_features]: what scores the rows. active: labels that are not settled, bool.
    """

    told: np.ndarray
    news: np.ndarray
    before: np.ndarray
    outside: np.ndarray
    dense: np.ndarray
    leading: np.ndarray
    weights: np.ndarray
    active: np.ndarray


@jit
def gather_batch(batch, pairs, position, start, posterior):
    """Fill the groups of all labels, and the posteriors to start from. position: int32 [n_samples], any content."""
    pair_starts, pair_samples = pairs.samples
    for number in range(len(batch.labels)):
        label = batch.labels[number]
        first, last = pair_starts[label], pair_starts[label + 1]
        found = gather_groups(label, pairs, pair_samples[first:last], position, posterior[first:last])
        batch.numbers[batch.group_starts[number] : batch.group_starts[number + 1]] = found.numbers
        batch.ends[batch.group_starts[number] : batch.group_starts[number + 1]] = found.ends
        batch.members[batch.member_starts[number] : batch.member_starts[number + 1]] = found.members
        if len(start) > 0:
            posterior[first:last] = start[first:last]


@jit
def groups_of(batch, number):
    """The groups of label `number` of a batch."""
    inside = slice(batch.group_starts[number], batch.group_starts[number + 1])
    members = batch.members[batch.member_starts[number] : batch.member_starts[number + 1]]
    return LabelGroups(batch.numbers[inside], batch.ends[inside], members)


@jit
def tell_sums(batch, pairs, rows, posterior, state):
    """Add the changes of the posteriors of active labels to their sums."""
    indptr, indices, values = rows.sparse
    pair_starts, pair_samples = pairs.samples
    for number in range(len(batch.labels)):
        if not state.active[number]:
            continue
        label, inside = batch.labels[number], slice(batch.starts[number], batch.starts[number + 1])
        first, last = pair_starts[label], pair_starts[label + 1]
        samples, news = pair_samples[first:last], state.news[inside]
        list_news(posterior[first:last], state.told[inside], news)
        add_rows(samples, news, indptr, indices, values, state.dense[number])
        add_coordinates(samples, news, rows.coordinates, state.leading[number])


@jit
def score_batch(batch, pairs, rows, kinship, score, state):
    """Score all rows of active labels by the weights of the features, and leave each group out of its own scores."""
    indptr, indices, values = rows.sparse
    pair_starts, pair_samples = pairs.samples
    for number in range(len(batch.labels)):
        if not state.active[number]:
            continue
        label, inside = batch.labels[number], slice(batch.starts[number], batch.starts[number + 1])
        first, last = pair_starts[label], pair_starts[label + 1]
        samples, scores = pair_samples[first:last], score[first:last]
        score_rows(samples, indptr, indices, values, state.weights[number], scores)
        outside = state.outside[batch.member_starts[number] : batch.member_starts[number + 1]]
        leave_groups_out(
            groups_of(batch, number), samples, kinship, rows.influence, state.told[inside], scores, outside
        )


@jit
def share_batch(batch, pairs, tolerance, posterior, state):
    """Noisy-or posteriors of active labels; labels whose posteriors no longer move become inactive."""
    pair_starts, _ = pairs.samples
    for number in range(len(batch.labels)):
        if not state.active[number]:
            continue
        label, inside = batch.labels[number], slice(batch.starts[number], batch.starts[number + 1])
        owned, before = posterior[pair_starts[label] : pair_starts[label + 1]], state.before[inside]
        before[:] = owned
        groups = groups_of(batch, number)
        outside = state.outside[batch.member_starts[number] : batch.member_starts[number + 1]]
        noisy_or(groups.ends, groups.members, outside, owned)
        if largest_change(before, owned) < tolerance:
            state.active[number] = False


@jit
def calibrate_batch(batch, pairs, calibration, posterior, state):
    """Calibrated posteriors of all labels. calibration: offset, slope, per_group, frailty."""
    pair_starts, _ = pairs.samples
    for number in range(len(batch.labels)):
        label, groups = batch.labels[number], groups_of(batch, number)
        outside = state.outside[batch.member_starts[number] : batch.member_starts[number + 1]]
        owned = posterior[pair_starts[label] : pair_starts[label + 1]]
        calibrate_label(groups.ends, groups.members, outside, calibration, owned)


@jit
def take_scores(batch, pairs, score, state):
    """score[pair] = the largest score of the sample among its groups, without the group."""
    pair_starts, _ = pairs.samples
    for number in range(len(batch.labels)):
        label, members = batch.labels[number], groups_of(batch, number).members
        outside = state.outside[batch.member_starts[number] : batch.member_starts[number + 1]]
        scores = score[pair_starts[label] : pair_starts[label + 1]]
        scores[:] = -np.inf
        for place in range(len(members)):
            scores[members[place]] = max(scores[members[place]], outside[place])
