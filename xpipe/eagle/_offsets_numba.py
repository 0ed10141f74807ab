"""Kernel that fits the offset of each label to the groups that have the label and to groups that lack it.

Holds no scores. A group whose scores add up to S has the label with the chance 1 - exp(-H), H = e^offset S.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

STEPS = 60  # Newton steps at most; ten are enough for nearly all labels
LONGEST = 1.5  # of a step: where all hazards are tiny, a full step would leave the range of floats
SETTLED = 1e-9  # a shorter step is the last one
LEAST_HAZARD, MOST_HAZARD = 1e-12, 50.0  # beyond these, hazards count as these


@jit
def lacking_terms(hazard):
    """(loss, slope, curve) of a group that lacks the label, by its hazard. Loss: -log of the chance."""
    return hazard, hazard, hazard


@jit
def having_terms(hazard):
    """(loss, slope, curve) of a group that has the label, by its hazard."""
    if hazard < 1e-5:
        return -np.log(hazard), -1.0 + hazard / 2, hazard / 2
    odds = hazard / np.expm1(hazard)
    return -np.log(-np.expm1(-hazard)), -odds, max(odds * (hazard + odds - 1.0), 0.0)


@jit
def add_terms(log_sums, has, offset, totals):
    """Add loss, slope and curve (by the offset) of some groups to `totals`."""
    for place in range(len(log_sums)):
        hazard = min(max(np.exp(min(log_sums[place] + offset, 10.0)), LEAST_HAZARD), MOST_HAZARD)
        loss, slope, curve = having_terms(hazard) if has else lacking_terms(hazard)
        totals[0] += loss
        totals[1] += slope
        totals[2] += curve


@jit
def fit_offsets(cells, expected, variance, offsets, curves, losses):
    """The most likely offset of each label; curves, losses: of the groups alone, without the prior, at this offset.

    cells: (starts of the groups that have each label, logs of their sums, and the same of groups that lack it). The
    prior of the offset of a label is normal: expected[label], variance. The loss has one valley.
    """
    having_starts, having, lacking_starts, lacking = cells
    totals = np.zeros(3)
    for label in range(len(offsets)):
        has = np.sort(having[having_starts[label] : having_starts[label + 1]])  # the order of groups must not matter
        lacks = np.sort(lacking[lacking_starts[label] : lacking_starts[label + 1]])
        offset = expected[label]
        for _ in range(STEPS):
            totals[:] = 0
            add_terms(has, True, offset, totals)
            add_terms(lacks, False, offset, totals)
            slope, curve = totals[1] + (offset - expected[label]) / variance, totals[2] + 1 / variance
            step = min(max(slope / curve, -LONGEST), LONGEST)
            if abs(step) < SETTLED:
                break
            offset -= step
        offsets[label], curves[label], losses[label] = offset, totals[2], totals[0]
