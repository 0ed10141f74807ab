"""Kernels that score groups which lack a label, as if the regression had never seen the group.

Holds no rounds (`_rounds_numba`) and no blocks of labels (`lacking`). The score of a member is its sparse product less
its product along the leading directions. The first is taken label by label, right after the rounds of a label, while
the sums of the label are in cache. The second is taken group by group, for all labels of a block that look at the
group, so that its coordinates are read once for all of them.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._posteriors_numba import log_sums_of
from xpipe.eagle._rows_numba import Lists, prefetch_row
from xpipe.eagle._whitened_numba import AHEAD, MOST_OWN, multiply_leading, multiply_row
from xpipe.ground.accelerate import jit

ROWS_AT_ONCE = 64  # rows whose coordinates are copied together: 256 KiB at rank 1024, which stays in cache


class Lacking(NamedTuple):
    """The groups that lack each label and are looked at, and what is known of their members for a block of labels.

    The members of entry `at` of `groups` begin at firsts[at] in `scores` and in `known`, their posteriors by other
    groups. leading[slots[label]]: the sums of a label along the leading directions.
    """

    groups: Lists  # groups that lack each label
    firsts: np.ndarray  # int64
    scores: np.ndarray  # float32
    known: np.ndarray  # float32
    slots: np.ndarray  # int64
    leading: np.ndarray  # float32 [labels of the block, rank]


class Visits(NamedTuple):
    """The labels that look at each group: visit i of the block is entry entries.items[i] of `Lacking.groups`."""

    groups: np.ndarray  # int32: the groups that are looked at
    entries: Lists  # of each of these groups
    labels: np.ndarray  # int32: of each visit


@jit
def keep_for_lacking(label, samples, told, position, group_members, sparse, dense, along, lacking):
    """Keep what the groups that lack a label need of its sums. dense, along: the sums of the label."""
    first, last = lacking.groups.starts[label], lacking.groups.starts[label + 1]
    if first == last:
        return
    indptr, indices, values = sparse
    group_starts, group_samples = group_members
    lacking.leading[lacking.slots[label]] = along
    for at in range(first, last):
        group = lacking.groups.items[at]
        members = group_samples[group_starts[group] : group_starts[group + 1]]
        for one in range(len(members)):
            if one + AHEAD < len(members):
                following = members[one + AHEAD]
                prefetch_row(indices, values, indptr[following], indptr[following + 1])
            member = members[one]
            lacking.scores[lacking.firsts[at] + one] = multiply_row(member, indptr, indices, values, dense)
            place = position[member]
            known = np.float32(0)
            if place < len(samples) and samples[place] == member:
                known = told[place]
            lacking.known[lacking.firsts[at] + one] = known


@jit
def sum_lacking(chosen, visits, group_members, rows, kinship, lacking, quarters, sums):
    """sums[entry] = logs of the sums of scores to powers, for the visits of some groups. chosen: places in `visits`."""
    group_starts, group_samples = group_members
    tile = np.empty((ROWS_AT_ONCE, rows.coordinates.shape[1]), np.float32)
    for place in chosen:
        group = visits.groups[place]
        members = group_samples[group_starts[group] : group_starts[group + 1]]
        first, last = visits.entries.starts[place], visits.entries.starts[place + 1]
        for start in range(0, len(members), ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, len(members))
            for one in range(start, stop):
                tile[one - start] = rows.coordinates[members[one]]
            for visit in range(first, last):
                leading = lacking.leading[lacking.slots[visits.labels[visit]]]
                scores = lacking.scores[lacking.firsts[visits.entries.items[visit]] :]
                for one in range(start, stop):
                    scores[one] -= multiply_leading(tile[one - start], leading)
        for visit in range(first, last):
            at = visits.entries.items[visit]
            begin = lacking.firsts[at]
            outside = leave_out(
                lacking.scores[begin : begin + len(members)],
                lacking.known[begin : begin + len(members)],
                members,
                rows.influence,
                kinship.starts[group],
                kinship.values,
            )
            log_sums_of(outside, quarters, sums[at])


@jit
def leave_out(scores, known, members, influence, kin, kinship_values):
    """The scores that members would have if the regression had never seen their group; see `leave_group_out`."""
    size = len(members)
    outside = np.empty(size, np.float32)
    for one in range(size):
        outside[one] = known[one]
        if kin < 0:
            own = min(max(influence[members[one]], np.float32(0)), np.float32(MOST_OWN))
            outside[one] += (scores[one] - known[one]) / (np.float32(1) - own)
    if kin >= 0:
        for other in range(size):
            missing = scores[other] - known[other]
            source = kinship_values[kin + other * size : kin + (other + 1) * size]
            for one in range(size):
                outside[one] += missing * source[one]
    return outside
