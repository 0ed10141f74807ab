"""Kernels that turn scores into posteriors, and find the best sample of every group.

Holds no scores of its own: `_rounds_numba` computes them. A pair is a label and a sample of one of its groups.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._rows_numba import Lists
from xpipe.ground.accelerate import jit

FLOOR, CEILING = 1e-4, 0.999  # scores as chances stay between these: no sample is ruled out, none is certain
RULED_OUT = 1e-6  # the smallest chance that a held-out sample is given
SURE = 1e30  # the highest score that counts: powers of it stay finite
SMALL_HAZARD = -30.0  # where the log of a hazard h is below this, 1 - exp(-h) is h in float64
MOST_HAZARD = 300.0  # log of the highest hazard that counts: it stays finite


class Pairs(NamedTuple):
    """The pairs that groups allow, with the groups that allow them."""

    samples: Lists  # samples of each label, ascending
    groups: Lists  # groups of each label
    members: Lists  # samples of each group


class Calibration(NamedTuple):
    """How scores s become chances of owning: hazards e^a s^slope, a = offset + per_group log n_groups.

    spread: the standard deviation of a from label to label, where every label has one of its own; 0: where none has.
    """

    offset: float
    slope: float
    per_group: float
    spread: float


@jit
def noisy_or(scores, chances):
    """chances[i] = chance that member i of a group owns the label, given that some member does; the largest change.

    scores are taken for independent chances.
    """
    log_none, change = 0.0, np.float32(0)
    for place in range(len(scores)):
        log_none += np.log1p(-min(max(scores[place], FLOOR), CEILING))
    some = -np.expm1(log_none)
    for place in range(len(scores)):
        chance = np.float32(min(max(scores[place], FLOOR), CEILING) / some)
        change = max(change, abs(chance - chances[place]))
        chances[place] = chance
    return change


@jit
def log_sums_of(scores, quarters, log_sums):
    """log_sums[n] = the log of the sum of scores to the power quarters[n] / 4, by products of their fourth roots."""
    log_sums[:] = 0
    for place in range(len(scores)):
        root = np.sqrt(np.sqrt(np.float64(min(max(scores[place], RULED_OUT), SURE))))
        for number in range(len(quarters)):
            power, square, left = 1.0, root, quarters[number]
            while left > 0:
                if left & 1:
                    power *= square
                square *= square
                left >>= 1
            log_sums[number] += power
    for number in range(len(quarters)):
        log_sums[number] = np.log(log_sums[number])


@jit
def log_chance(log_hazard):
    """log(1 - exp(-h)), finite for any finite hazard h, where the chance itself could be zero."""
    if log_hazard < SMALL_HAZARD:
        return log_hazard
    return np.log(-np.expm1(-np.exp(min(log_hazard, MOST_HAZARD))))


@jit
def calibrate_group(scores, offset, slope, chances):
    """chances[i] = chance of the hazard e^offset scores[i]^slope / chance of the hazard of the whole group; float64."""
    most = -np.inf
    for place in range(len(scores)):
        chances[place] = offset + slope * np.log(min(max(scores[place], RULED_OUT), SURE))  # the log of the hazard
        most = max(most, chances[place])
    total = 0.0
    for place in range(len(scores)):
        total += np.exp(chances[place] - most)
    some = log_chance(most + np.log(total))
    for place in range(len(scores)):
        chances[place] = np.exp(min(log_chance(chances[place]) - some, 0.0))


@jit
def calibrate_pairs(labels, pairs, score, slope, offsets, posterior):
    """posterior[pair] = chance of the sample's hazard / chance of the group's hazard; the largest of its groups.

    offsets: of each label. posterior is 0 on entry.
    """
    pair_starts, pair_samples = pairs.samples
    label_starts, label_groups = pairs.groups
    group_starts, group_samples = pairs.members
    for label in labels:
        samples = pair_samples[pair_starts[label] : pair_starts[label + 1]]
        for at in range(label_starts[label], label_starts[label + 1]):
            members = group_samples[group_starts[label_groups[at]] : group_starts[label_groups[at] + 1]]
            places, chances = np.empty(len(members), np.int64), np.empty(len(members), np.float64)
            for place in range(len(members)):
                places[place] = pair_starts[label] + np.searchsorted(samples, members[place])
            calibrate_group(score[places], offsets[label], slope, chances)
            for place in range(len(members)):
                posterior[places[place]] = max(posterior[places[place]], np.float32(chances[place]))


@jit
def best_of_groups(labels, pairs, score, best):
    """best[pair] = True for the largest score of each (group, label); on ties for the lowest sample number.

    Every group with members has one, whatever the scores: NaN loses against any other score.
    """
    pair_starts, pair_samples = pairs.samples
    label_starts, label_groups = pairs.groups
    group_starts, group_samples = pairs.members
    for label in labels:
        samples = pair_samples[pair_starts[label] : pair_starts[label + 1]]
        for at in range(label_starts[label], label_starts[label + 1]):
            group = label_groups[at]
            winner, largest = -1, np.float32(-np.inf)
            for place in range(group_starts[group], group_starts[group + 1]):
                pair = pair_starts[label] + np.searchsorted(samples, group_samples[place])
                if winner < 0 or score[pair] > largest or (np.isnan(largest) and not np.isnan(score[pair])):
                    winner, largest = pair, score[pair]
            if winner >= 0:
                best[winner] = True
