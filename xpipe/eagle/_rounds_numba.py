"""Kernels of the rounds of the discriminative method: scores and noisy-or posteriors of one label after the other.

Holds no form of a calibration (`_posteriors_numba`) and no threads. Symbols: q = posterior that a sample owns the
label, s = its score, H = what each row of a group adds to the score of each other row of the same group.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._lacking_numba import keep_for_lacking
from xpipe.eagle._posteriors_numba import log_sums_of, noisy_or
from xpipe.eagle._rows_numba import Lists, prefetch_all, prefetch_row
from xpipe.eagle._whitened_numba import (
    AHEAD,
    MOST_OWN,
    add_coordinates,
    add_row,
    add_rows,
    add_to,
    clear_rows,
    multiply_leading,
    multiply_row,
    score_rows,
    subtract_leading,
    transpose_rows,
)
from xpipe.ground.accelerate import jit

LARGE_GROUP = 32  # members from which on products of coordinates are worth a call of BLAS
UNTOLD = 0.2  # of the tolerance: a change of a posterior up to this is not added to the sums yet


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
    of the label. same: where `members` has the same sample next, in a circle; its own place for samples of one group.
    """

    numbers: np.ndarray  # int32
    ends: np.ndarray  # int64
    members: np.ndarray  # int64
    same: np.ndarray  # int64


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

    position: int32 [n_samples]. dense [n_features], leading [rank]: float32, zero on entry and on exit.
    """

    position: np.ndarray
    dense: np.ndarray
    leading: np.ndarray


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
def leave_group_out(members, samples, kin, kinship_values, influence, told, scores, outside):
    """outside[place] = the score that a member of a group would have if the regression had never seen the group.

    Ridge regression without the rows of a group scores them with q + (I - H)^-1 (s - q). Where the group is too large
    for that (kin < 0), only the member itself is left out. told: the posteriors q that the scores s know of.
    """
    size = len(members)
    for place in range(size):
        outside[place] = told[members[place]]
    for other in range(size):
        member = members[other]
        missing = scores[member] - told[member]
        if kin < 0:
            own = min(max(influence[samples[member]], np.float32(0)), np.float32(MOST_OWN))
            outside[other] += missing / (np.float32(1) - own)
        else:
            source = kinship_values[kin + other * size : kin + (other + 1) * size]
            for place in range(size):
                outside[place] += missing * source[place]


@jit
def gather_groups(label, pairs, samples, position):
    """The groups of a label."""
    label_starts, label_groups = pairs.groups
    group_starts, group_samples = pairs.members
    for place in range(len(samples)):
        position[samples[place]] = place
    numbers = label_groups[label_starts[label] : label_starts[label + 1]]
    n_members = 0
    for group in numbers:
        n_members += group_starts[group + 1] - group_starts[group]
    members, ends, same = np.empty(n_members, np.int64), np.empty(len(numbers), np.int64), np.empty(n_members, np.int64)
    latest = np.full(len(samples), -1, np.int64)
    n_members = 0
    for number in range(len(numbers)):
        for place in range(group_starts[numbers[number]], group_starts[numbers[number] + 1]):
            member = position[group_samples[place]]
            members[n_members] = member
            same[n_members] = n_members if latest[member] < 0 else same[latest[member]]
            if latest[member] >= 0:
                same[latest[member]] = n_members
            latest[member] = n_members
            n_members += 1
        ends[number] = n_members
    return LabelGroups(numbers, ends, members, same)


@jit
def fit_labels(labels, pairs, rows, kinship, schedule, space, cells, lacking, posterior, score):
    """Alternate scores and posteriors for some labels; fills posterior, score, cells and lacking at these labels.

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
        groups = gather_groups(label, pairs, samples, space.position)
        outside = np.empty(len(groups.members), np.float32)
        told = fit_label(samples, groups, rows, kinship, schedule, space, owned, scores, outside)
        if len(cells.quarters) > 0:
            start = 0
            for number in range(len(groups.numbers)):
                sums = cells.having_sums[pairs.groups.starts[label] + number]
                log_sums_of(outside[start : groups.ends[number]], cells.quarters, sums)
                start = groups.ends[number]
            keep_for_lacking(
                label, samples, told, space.position, pairs.members, rows.sparse, space.dense, space.leading, lacking
            )
        clear_rows(samples, rows.sparse.indptr, rows.sparse.indices, space.dense)
        space.leading[:] = 0
        scores[:] = -np.inf
        for place in range(len(groups.members)):
            scores[groups.members[place]] = max(scores[groups.members[place]], outside[place])


@jit
def fit_label(samples, groups, rows, kinship, schedule, space, owned, scores, outside):
    """The rounds of one label; fills its posteriors `owned`, and outside = the last scores of all members.

    At first, members of a group share a label evenly. A round goes from group to group, and scores each by what the
    groups before it have just found. A group whose posteriors hardly move any more takes no part in further rounds but
    the last, which scores all groups and changes no sums. Returns the posteriors that the last scores know of:
    space.dense and space.leading hold the sums over them.
    """
    told = np.zeros(len(samples), np.float32)
    chances = np.empty(len(groups.members), np.float32)
    stop = 0
    for number in range(len(groups.numbers)):
        start, stop = stop, groups.ends[number]
        chances[start:stop] = 1.0 / max(stop - start, 1)
    take_largest(groups, chances, owned)
    tell_sums(samples, owned, rows, space, told)
    moving = np.ones(len(groups.numbers), np.bool_)
    for number in range(schedule.rounds):
        last = number == schedule.rounds - 1 or not moving.any()
        stop = 0
        for at in range(len(groups.numbers)):
            start, stop = stop, groups.ends[at]
            if not (last or moving[at]):
                continue
            members, group = groups.members[start:stop], groups.numbers[at]
            score_members(members, samples, rows, space, scores)
            leave_group_out(
                members, samples, kinship.starts[group], kinship.values, rows.influence, told, scores,
                outside[start:stop],
            )  # fmt: skip
            change = noisy_or(outside[start:stop], chances[start:stop])
            if not last:
                moving[at] = change >= schedule.tolerance
                least = np.float32(UNTOLD * schedule.tolerance)
                tell_group(start, stop, groups, chances, samples, rows, space, told, least)
        if last:
            break
    take_largest(groups, chances, owned)
    return told


@jit
def take_largest(groups, chances, owned):
    """owned = the largest of the chances that a sample has in its groups."""
    owned[:] = 0
    for place in range(len(groups.members)):
        owned[groups.members[place]] = max(owned[groups.members[place]], chances[place])


@jit
def score_members(members, samples, rows, space, scores):
    """Score the members of a group by the sums."""
    sparse = rows.sparse
    for place in range(len(members)):
        if place + AHEAD < len(members):
            following = samples[members[place + AHEAD]]
            prefetch_row(sparse.indices, sparse.values, sparse.indptr[following], sparse.indptr[following + 1])
            prefetch_all(rows.coordinates[following])
        member = members[place]
        sample = samples[member]
        found = multiply_row(sample, sparse.indptr, sparse.indices, sparse.values, space.dense)
        scores[member] = found - multiply_leading(rows.coordinates[sample], space.leading)


@jit
def tell_group(start, stop, groups, chances, samples, rows, space, told, least):
    """Add the changes of the posteriors of a group to the sums; those up to `least` wait until they have grown."""
    for place in range(start, stop):
        chance, other = chances[place], groups.same[place]
        while other != place:
            chance = max(chance, chances[other])
            other = groups.same[other]
        member = groups.members[place]
        news = chance - told[member]
        if abs(news) > least:
            told[member] += news
            add_row(samples[member], news, rows.sparse.indptr, rows.sparse.indices, rows.sparse.values, space.dense)
            add_to(space.leading, news, rows.coordinates[samples[member]])


@jit
def tell_sums(samples, owned, rows, space, told):
    """Tell the sums of the first posteriors."""
    add_rows(samples, owned, rows.sparse.indptr, rows.sparse.indices, rows.sparse.values, space.dense)
    add_coordinates(samples, owned, rows.coordinates, space.leading)
    for place in range(len(told)):
        told[place] = owned[place]
