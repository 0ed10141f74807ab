"""Kernels of the rounds of the discriminative method: scores and noisy-or posteriors of one label after the other.

Holds no form of a calibration (`_posteriors_numba`) and no threads. Symbols: q = posterior that a sample owns the
label, s = its score, H = what each row of a group adds to the score of each other row of the same group.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._posteriors_numba import log_sums_of, noisy_or
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import (
    add_coordinates,
    add_rows,
    clear_rows,
    copy_rows,
    multiply_leading,
    multiply_row,
    score_rows,
    subtract_leading,
    transpose_rows,
)
from xpipe.ground.accelerate import jit

MOST_OWN = 0.95  # of its own score that a row, or a direction of a group, adds: more would divide by nearly nothing
LARGE_GROUP = 32  # members from which on products of coordinates are worth a call of BLAS
UNTOLD = 5e-4  # a change of a posterior up to this is not added to the sums yet


class Kinship(NamedTuple):
    """(I - H)^-1 of each group, which leaves the group out of its own scores.

    values[starts[g] + i * size + j] belongs to members i and j of group g. starts[g] is -1 where the group is too
    large.
    """

    starts: np.ndarray  # int64
    values: np.ndarray  # float32


class LabelGroups(NamedTuple):
    """The groups of one label.

    The members of group i end at ends[i], where those of the next group begin. `members` are places among the samples
    of the label.
    """

    numbers: np.ndarray  # int32
    ends: np.ndarray  # int64
    members: np.ndarray  # int64


class OwnRows(NamedTuple):
    """The sparse rows of one label: places or numbers of the rows, and where their entries lie."""

    numbers: np.ndarray  # int32
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class Schedule(NamedTuple):
    """How many rounds at most. tolerance: a group of a label is settled when no posterior moves by this much in one."""

    rounds: int
    tolerance: float


class Cells(NamedTuple):
    """Sums of the scores of groups, to some powers: of groups that have each label, and of some that lack it.

    lacking: the groups that lack each label and are looked at. quarters: the powers, times 4; none: nothing is added
    up. having_sums [groups of all labels, powers], lacking_sums: float64, logs of the sums.
    """

    lacking: Lists
    quarters: np.ndarray
    having_sums: np.ndarray
    lacking_sums: np.ndarray


class RoundSpace(NamedTuple):
    """Work space of one thread.

    position: int32 [n_samples]. dense [n_features], leading [rank]: float32, zero on entry and on exit. own_indices,
    own_values: room for the entries of the rows of a label.
    """

    position: np.ndarray
    dense: np.ndarray
    leading: np.ndarray
    own_indices: np.ndarray
    own_values: np.ndarray


@jit
def measure_kinship(groups, members, rows, dense, kinship):
    """Fill H of some groups; of groups from LARGE_GROUP on without the products of coordinates, which BLAS adds.

    dense: float32 [n_features], zero on entry and on exit.
    """
    indptr, indices, values = rows.sparse
    group_starts, group_samples = members
    for group in groups:
        if kinship.starts[group] < 0:
            continue
        samples = group_samples[group_starts[group] : group_starts[group + 1]]
        size, rank = len(samples), rows.coordinates.shape[1]
        small = size < LARGE_GROUP
        tile = np.empty((rank if small else 0, size), np.float32)
        transpose_rows(rows.coordinates, samples, tile)
        for one in range(size):
            row = samples[one]
            found = kinship.values[kinship.starts[group] + one * size : kinship.starts[group] + (one + 1) * size]
            for entry in range(indptr[row], indptr[row + 1]):
                dense[indices[entry]] = values[entry]
            score_rows(samples, indptr, indices, values, dense, found)
            if small:
                subtract_leading(tile, rows.coordinates[row], found)
            for entry in range(indptr[row], indptr[row + 1]):
                dense[indices[entry]] = 0


@jit
def leave_groups_out(groups, moving, samples, kinship, influence, told, scores, outside):
    """outside[place] = the score that a member would have if the regression had never seen its group.

    Ridge regression without the rows of a group scores them with q + (I - H)^-1 (s - q). Where the group is too large
    for that, only the member itself is left out. told: the posteriors q that the scores s know of. moving: the groups
    that count.
    """
    start = stop = 0
    for number in range(len(groups.numbers)):
        start, stop = stop, groups.ends[number]
        if not moving[number]:
            continue
        size, kin = stop - start, kinship.starts[groups.numbers[number]]
        inside = outside[start:stop]
        for place in range(size):
            member = groups.members[start + place]
            inside[place] = told[member]
            if kin < 0:
                own = min(max(influence[samples[member]], np.float32(0)), np.float32(MOST_OWN))
                inside[place] += (scores[member] - told[member]) / (np.float32(1) - own)
        if kin >= 0:
            for other in range(size):
                member = groups.members[start + other]
                missing = scores[member] - told[member]
                source = kinship.values[kin + other * size : kin + (other + 1) * size]
                for place in range(size):
                    inside[place] += missing * source[place]


@jit
def gather_groups(label, pairs, samples, position, owned):
    """The groups of a label; `owned` starts with 1 / (size of the smallest group) of each sample."""
    label_starts, label_groups = pairs.groups
    group_starts, group_samples = pairs.members
    for place in range(len(samples)):
        position[samples[place]] = place
    numbers = label_groups[label_starts[label] : label_starts[label + 1]]
    n_members = 0
    for group in numbers:
        n_members += group_starts[group + 1] - group_starts[group]
    members, ends = np.empty(n_members, np.int64), np.empty(len(numbers), np.int64)
    n_members = 0
    owned[:] = 0
    for number in range(len(numbers)):
        group = numbers[number]
        size = group_starts[group + 1] - group_starts[group]
        for place in range(group_starts[group], group_starts[group + 1]):
            member = position[group_samples[place]]
            members[n_members] = member
            n_members += 1
            owned[member] = max(owned[member], np.float32(1.0 / size))
        ends[number] = n_members
    return LabelGroups(numbers, ends, members)


@jit
def fit_labels(labels, pairs, rows, kinship, schedule, space, cells, posterior, score):
    """Alternate scores and posteriors for some labels; fills posterior, score and cells at these labels.

    At first, members of a group share a label evenly. A sample of several groups takes its largest posterior and its
    largest score.
    """
    pair_starts, pair_samples = pairs.samples
    for label in labels:
        first, last = pair_starts[label], pair_starts[label + 1]
        if first == last:
            continue
        samples = pair_samples[first:last]
        owned, scores = posterior[first:last], score[first:last]
        groups = gather_groups(label, pairs, samples, space.position, owned)
        outside = np.empty(len(groups.members), np.float32)
        own, told = fit_label(samples, groups, rows, kinship, schedule, space, owned, scores, outside)
        if len(cells.quarters) > 0:
            start = 0
            for number in range(len(groups.numbers)):
                sums = cells.having_sums[pairs.groups.starts[label] + number]
                log_sums_of(outside[start : groups.ends[number]], cells.quarters, sums)
                start = groups.ends[number]
            add_lacking(label, samples, told, pairs.members, rows, kinship, space, cells)
        clear_rows(own.numbers, own.indptr, own.indices, space.dense)
        space.leading[:] = 0
        scores[:] = -np.inf
        for place in range(len(groups.members)):
            scores[groups.members[place]] = max(scores[groups.members[place]], outside[place])


@jit
def fit_label(samples, groups, rows, kinship, schedule, space, owned, scores, outside):
    """The rounds of one label, which start from the posteriors in `owned`; outside = the last scores of all members.

    A group whose posteriors hardly move any more takes no part in further rounds but the last, which has all groups.
    Returns the rows of the label, and the posteriors that the last scores know of: space.dense and space.leading hold
    the sums over them.
    """
    own = gather_own(samples, rows, space)
    told, news = np.zeros(len(samples), np.float32), np.empty(len(samples), np.float32)
    before = np.empty(len(samples), np.float32)
    moving, wanted = np.ones(len(groups.numbers), np.bool_), np.ones(len(samples), np.bool_)
    for number in range(schedule.rounds):
        last = number == schedule.rounds - 1 or not moving.any()
        if last:
            moving[:] = True
            wanted[:] = True
        before[:] = owned
        list_news(owned, told, news)
        score_label(samples, own, wanted, news, rows, space, scores)
        leave_groups_out(groups, moving, samples, kinship, rows.influence, told, scores, outside)
        noisy_or(groups, moving, outside, owned)
        if last:
            break
        find_moving(groups, before, owned, schedule.tolerance, moving, wanted)
    return own, told


@jit
def find_moving(groups, before, now, tolerance, moving, wanted):
    """Groups stop where no posterior moved by `tolerance`; wanted = the rows of groups that still move."""
    wanted[:] = False
    start = 0
    for number in range(len(groups.numbers)):
        stop = groups.ends[number]
        if moving[number]:
            change = np.float32(0)
            for place in range(start, stop):
                change = max(change, abs(now[groups.members[place]] - before[groups.members[place]]))
            moving[number] = change >= tolerance
        if moving[number]:
            for place in range(start, stop):
                wanted[groups.members[place]] = True
        start = stop


@jit
def add_lacking(label, samples, told, group_members, rows, kinship, space, cells):
    """Add up the scores of groups that lack the label, as if the regression had never seen the group.

    Their members can have posteriors by other groups, so scores are corrected as in `leave_groups_out`.
    """
    indptr, indices, values = rows.sparse
    group_starts, group_samples = group_members
    for at in range(cells.lacking.starts[label], cells.lacking.starts[label + 1]):
        group = cells.lacking.items[at]
        members = group_samples[group_starts[group] : group_starts[group + 1]]
        size, kin = len(members), kinship.starts[group]
        missing, outside = np.empty(size, np.float32), np.empty(size, np.float32)
        score_rows(members, indptr, indices, values, space.dense, missing)
        for one in range(size):
            missing[one] -= multiply_leading(rows.coordinates[members[one]], space.leading)
            place = space.position[members[one]]
            known = np.float32(0)
            if place < len(samples) and samples[place] == members[one]:
                known = told[place]
            missing[one] -= known
            outside[one] = known
            if kin < 0:
                own = min(max(rows.influence[members[one]], np.float32(0)), np.float32(MOST_OWN))
                outside[one] += missing[one] / (np.float32(1) - own)
        if kin >= 0:
            for other in range(size):
                source = kinship.values[kin + other * size : kin + (other + 1) * size]
                for one in range(size):
                    outside[one] += missing[other] * source[one]
        log_sums_of(outside, cells.quarters, cells.lacking_sums[at])


@jit
def gather_own(samples, rows, space):
    """The sparse rows of a label, copied where there is room."""
    indptr, indices, values = rows.sparse
    n_entries = 0
    for place in range(len(samples)):
        n_entries += indptr[samples[place] + 1] - indptr[samples[place]]
    if n_entries > len(space.own_indices):
        return OwnRows(samples, indptr, indices, values)
    own_indptr = np.empty(len(samples) + 1, np.int64)
    copy_rows(samples, rows.sparse, own_indptr, space.own_indices, space.own_values)
    return OwnRows(np.arange(len(samples)).astype(np.int32), own_indptr, space.own_indices, space.own_values)


@jit
def score_label(samples, own, wanted, news, rows, space, scores):
    """Add the changes of posteriors to the sums, and score the rows of the label that are wanted."""
    add_rows(own.numbers, news, own.indptr, own.indices, own.values, space.dense)
    add_coordinates(samples, news, rows.coordinates, space.leading)
    for place in range(len(samples)):
        if wanted[place]:
            found = multiply_row(own.numbers[place], own.indptr, own.indices, own.values, space.dense)
            scores[place] = found - multiply_leading(rows.coordinates[samples[place]], space.leading)


@jit
def list_news(owned, told, news):
    """news = the changes of posteriors that the sums are told now. Most posteriors settle after a few rounds."""
    for place in range(len(owned)):
        news[place] = owned[place] - told[place]
        if abs(news[place]) <= UNTOLD:
            news[place] = 0
        told[place] += news[place]
