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
    """How scores s become chances of owning: hazards e^offset n_groups^per_group s^slope that share a gamma factor.

    frailty: the variance of the factor that the hazards of a group have in common; 0: members are independent.
    """

    offset: float
    slope: float
    per_group: float
    frailty: float


@jit
def noisy_or(group_ends, members, scores, owned):
    """owned[i] = chance that sample i owns the label, given that some member of its group does.

    scores are taken for independent chances. A sample of several groups takes its largest posterior.
    """
    owned[:] = 0
    start = 0
    for group in range(len(group_ends)):
        stop = group_ends[group]
        log_none = 0.0
        for place in range(start, stop):
            chance = min(max(scores[place], FLOOR), CEILING)
            log_none += np.log1p(-chance)
        some = -np.expm1(log_none)
        for place in range(start, stop):
            chance = min(max(scores[place], FLOOR), CEILING)
            owned[members[place]] = max(owned[members[place]], np.float32(chance / some))
        start = stop


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
def log_chance(log_hazard, frailty):
    """log(1 - (1 + frailty h)^(-1 / frailty)), finite for any finite hazard, where the chance itself could be zero."""
    if log_hazard < SMALL_HAZARD:
        return log_hazard
    hazard = np.exp(min(log_hazard, MOST_HAZARD))
    if frailty > 0:
        hazard = np.log1p(frailty * hazard) / frailty
    return np.log(-np.expm1(-hazard))


@jit
def calibrate_group(scores, start, slope, frailty, chances):
    """chances[i] = chance of the hazard e^start scores[i]^slope / chance of the hazard of the whole group; float64."""
    most = -np.inf
    for place in range(len(scores)):
        chances[place] = start + slope * np.log(min(max(scores[place], RULED_OUT), SURE))  # the log of the hazard
        most = max(most, chances[place])
    total = 0.0
    for place in range(len(scores)):
        total += np.exp(chances[place] - most)
    some = log_chance(most + np.log(total), frailty)
    for place in range(len(scores)):
        chances[place] = np.exp(min(log_chance(chances[place], frailty) - some, 0.0))


@jit
def calibrate_label(group_ends, members, scores, calibration, owned):
    """owned[i] = the calibrated posterior of sample i, in place of its noisy-or; the largest of its groups.

    calibration: offset, slope, per_group, frailty.
    """
    first_hazard = calibration[0] + calibration[2] * np.log(len(group_ends))
    owned[:] = 0
    chances = np.empty(len(members), np.float64)
    start = 0
    for group in range(len(group_ends)):
        stop = group_ends[group]
        if stop > start:
            calibrate_group(scores[start:stop], first_hazard, calibration[1], calibration[3], chances[start:stop])
        for place in range(start, stop):
            owned[members[place]] = max(owned[members[place]], np.float32(chances[place]))
        start = stop


@jit
def calibrate_pairs(labels, pairs, score, calibration, posterior):
    """posterior[pair] = chance of the sample's hazard / chance of the group's hazard; the largest of its groups.

    posterior is 0 on entry.
    """
    offset, slope, per_group, frailty = calibration
    pair_starts, pair_samples = pairs.samples
    label_starts, label_groups = pairs.groups
    group_starts, group_samples = pairs.members
    for label in labels:
        samples = pair_samples[pair_starts[label] : pair_starts[label + 1]]
        n_groups = label_starts[label + 1] - label_starts[label]
        start = offset + per_group * np.log(n_groups)
        for at in range(label_starts[label], label_starts[label + 1]):
            members = group_samples[group_starts[label_groups[at]] : group_starts[label_groups[at] + 1]]
            places, chances = np.empty(len(members), np.int64), np.empty(len(members), np.float64)
            for place in range(len(members)):
                places[place] = pair_starts[label] + np.searchsorted(samples, members[place])
            calibrate_group(score[places], start, slope, frailty, chances)
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
