"""Kernels that gather what a label needs: the samples of its groups, its features, its rows as one block.

Holds nothing of Algorithm 1.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._rows_numba import prefetch_row
from xpipe.ground.accelerate import jit

AHEAD = 8  # how many rows ahead the processor is asked to load a row
BITS = 64
DE_BRUIJN = 0x03F79D71B4CB0A89
BIT_OF = np.zeros(BITS, dtype=np.int64)  # the six highest bits of DE_BRUIJN << bit  ->  bit
for _bit in range(BITS):
    BIT_OF[((DE_BRUIJN << _bit) % 2**BITS) >> 58] = _bit


class Gathered(NamedTuple):
    """The samples of the groups of a label, numbered in the order in which they come.

    Group j has members[starts[j] : starts[j + 1]], which are such numbers. Groups without samples are left out.
    """

    starts: np.ndarray  # int64
    members: np.ndarray  # int32
    samples: np.ndarray  # int32, the sample of each number
    counts: np.ndarray  # int32, how many of the groups have the sample


@jit
def number_features(first, last, columns, marks, local_of, features):
    """Number the features that occur in some rows 0, 1, ... in ascending order; returns how many there are.

    local_of[feature] is the new number, features[number] the feature. `marks` has one bit per feature, clear on entry
    and on exit.
    """
    for i in range(len(first)):
        for p in range(first[i], last[i]):
            marks[columns[p] >> np.uint32(6)] |= np.uint64(1) << np.uint64(columns[p] & np.uint32(63))
    n_features = 0
    for word in range(len(marks)):
        bits = marks[word]
        while bits != 0:
            lowest = bits & (~bits + np.uint64(1))
            feature = word * BITS + BIT_OF[(lowest * np.uint64(DE_BRUIJN)) >> np.uint64(58)]
            local_of[feature] = n_features
            features[n_features] = feature
            n_features += 1
            bits ^= lowest
        marks[word] = 0
    return n_features


@jit
def copy_to_block(rows, source_columns, source_values, local_of, counts, e):
    """Copy rows into the block of `rows` and add them up in e, each row as often as `counts` says.

    rows.first and rows.last are places in the source on entry, places in the block on exit. Features become
    local_of[feature], unless `local_of` is empty.
    """
    first, last, block_columns, block_values, _, _ = rows
    start = 0
    for i in range(len(first)):
        if i + AHEAD < len(first):
            prefetch_row(source_columns, source_values, first[i + AHEAD], last[i + AHEAD])
        weight = np.float64(counts[i])
        n_entries = last[i] - first[i]
        old_columns, values = source_columns[first[i] : last[i]], source_values[first[i] : last[i]]
        new_columns, new_values = block_columns[start : start + n_entries], block_values[start : start + n_entries]
        for p in range(len(old_columns)):
            column = local_of[old_columns[p]] if len(local_of) > 0 else old_columns[p]
            new_columns[p] = column
            new_values[p] = values[p]
            e[column] += weight * values[p]
        first[i], last[i] = start, start + n_entries
        start += n_entries


@jit
def gather_samples(groups, group_members, place):
    """The samples of some groups, as `Gathered`. place: int32 per sample, -1 on entry and on exit."""
    group_starts, group_samples = group_members
    n_members = 0
    for group in groups:
        n_members += group_starts[group + 1] - group_starts[group]
    starts = np.empty(len(groups) + 1, np.int64)
    members = np.empty(n_members, np.int32)
    samples = np.empty(n_members, np.int32)
    counts = np.empty(n_members, np.int32)
    n_groups = n_samples = member = 0
    for group in groups:
        if group_starts[group] == group_starts[group + 1]:
            continue
        starts[n_groups] = member
        n_groups += 1
        for q in range(group_starts[group], group_starts[group + 1]):
            sample = group_samples[q]
            if place[sample] < 0:
                place[sample] = n_samples
                samples[n_samples] = sample
                counts[n_samples] = 0
                n_samples += 1
            members[member] = place[sample]
            counts[place[sample]] += 1
            member += 1
    starts[n_groups] = member
    for i in range(n_samples):
        place[samples[i]] = -1
    return Gathered(starts[: n_groups + 1], members, samples[:n_samples], counts[:n_samples])
