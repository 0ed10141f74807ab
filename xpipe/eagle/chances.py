"""Chances of pairs that agree with how many groups have each label: posteriors, shifted label by label.

Holds no posteriors of its own. Methods that score by similarity get chances by a map from their scores to the chances
that the posteriors of a trial give to their owners (`map_to_chances`). Where samples are put into groups at random, the
share of groups with a label tells how often samples have it, whatever their scores: of groups of n samples a share of
(1 - p)^n has none. That is far more certain than the sum of a label's posteriors, above all for labels that most groups
have. Members that are alike own labels together, and the share tells little then: `Crowd.weight` says how far it
counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.ground.calibration_map import CalibrationMap, fit_map

ALIKE = 0.05  # likeness of members from which on rates of labels no longer tell how many own them; random groups: 0
STEPS = 12  # Newton steps; ten are enough for any label
FARTHEST = 3.0  # of one step, in log odds
SETTLED = 1e-7  # a label whose step is not longer has arrived
LEAST = 1e-9  # chances stay this far from 0 and 1


@dataclass(frozen=True)
class Crowd:
    """All groups by their size, and how far rates of labels tell how many own them: 0 not at all, 1 alone."""

    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    weight: float


def crowd_of(Y1: sp.csr_matrix, likeness: float) -> Crowd:
    """The groups of a membership. likeness: of members of a group."""
    members = np.bincount(Y1.indices, minlength=Y1.shape[1])
    sizes, counts = np.unique(members[members > 0], return_counts=True)
    weight = min(max(1 - max(likeness, 0.0) / ALIKE, 0.0), 1.0)
    return Crowd(tuple(sizes.tolist()), tuple(counts.tolist()), round(weight, 6))


def totals_by_rate(crowd: Crowd, n_groups: np.ndarray, share: float = 1.0) -> np.ndarray:
    """How many samples own each label if samples are in groups at random, float64. n_groups: those with the label.

    share: the part of all groups that `n_groups` counts from.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.eagle.chances import Crowd, totals_by_rate
    >>> totals_by_rate(Crowd((2,), (100,), 1.0), np.array([75])).round(6).tolist()  # (1 - 0.5)^2 of groups have none
    [100.0]
    """
    sizes, counts = np.array(crowd.sizes, np.float64), share * np.array(crowd.counts, np.float64)
    if not len(sizes):
        return np.zeros(len(n_groups))
    some, place = np.unique(np.asarray(n_groups, np.float64), return_inverse=True)
    wanted = np.minimum(some, counts.sum() - 0.5)  # a label of all groups: half a group stands for the next one
    low, high = np.full(len(some), -40.0), np.full(len(some), 10.0)  # logs of the hazard of one sample
    for _ in range(60):
        middle = (low + high) / 2
        present = (counts * -np.expm1(-sizes * np.exp(middle)[:, None])).sum(axis=1)
        low, high = np.where(present < wanted, middle, low), np.where(present < wanted, high, middle)
    totals: np.ndarray = (-np.expm1(-np.exp(low)) * (sizes @ counts))[place]
    return np.where(np.asarray(n_groups) > 0, np.maximum(totals, n_groups), 0.0)


def shifts_to(posterior: np.ndarray, labels: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """By how much the log odds of each label must move for its chances to add up to `wanted`; float64, per label.

    labels: the label of each pair. Labels without pairs, and labels whose pairs cannot add up to so much, stay.
    """
    n_labels = len(wanted)
    odds = log_odds(posterior)
    n_pairs = np.bincount(labels, minlength=n_labels)
    moving = (n_pairs > 0) & (wanted > 0) & (wanted < n_pairs)
    shift = np.zeros(n_labels)
    for _ in range(STEPS):  # each label by itself: which others there are changes no byte
        inside = moving[labels]
        odds, labels = odds[inside], labels[inside]
        chance = 1 / (1 + np.exp(-(odds + shift[labels])))
        total = np.bincount(labels, chance, n_labels)
        slope = np.maximum(np.bincount(labels, chance * (1 - chance), n_labels), 1e-12)
        step = np.where(moving, np.clip((wanted - total) / slope, -FARTHEST, FARTHEST), 0.0)
        shift += step
        moving &= np.abs(step) > SETTLED
    return shift


def shifted(posterior: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Chances whose log odds are moved by `shift`, one per pair; float64."""
    chance: np.ndarray = 1 / (1 + np.exp(-(log_odds(posterior) + shift)))
    return np.where(shift == 0, posterior, chance)


def log_odds(posterior: np.ndarray) -> np.ndarray:
    """The log odds of chances, finite."""
    inside = np.clip(posterior.astype(np.float64), LEAST, 1 - LEAST)
    odds: np.ndarray = np.log(inside) - np.log1p(-inside)
    return odds


def label_shifts(
    posterior: np.ndarray, labels: np.ndarray, n_groups: np.ndarray, crowd: Crowd, share: float = 1.0
) -> np.ndarray:
    """The shift of each label that makes its chances agree with its rate, as far as `crowd.weight` says."""
    if not crowd.weight:
        return np.zeros(len(n_groups))
    now = np.bincount(labels, posterior.astype(np.float64), len(n_groups))
    wanted = crowd.weight * totals_by_rate(crowd, n_groups, share) + (1 - crowd.weight) * now
    return shifts_to(posterior, labels, wanted)


def map_to_chances(scores: np.ndarray, chances: np.ndarray) -> CalibrationMap:
    """The rising map from scores of owners to chances that fits best. chances: of the same owners.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.eagle.chances import chances_by_map, map_to_chances
    >>> scores = np.repeat([0.2, 0.8], 500)
    >>> [round(float(chance), 2) for chance in chances_by_map(scores[[0, -1]], map_to_chances(scores, scores / 2))]
    [0.1, 0.4]
    """
    return fit_map(_in_unit(scores), np.clip(chances, 0.0, 1.0))


def chances_by_map(scores: np.ndarray, to_chances: CalibrationMap) -> np.ndarray:
    """The chances of owners with these scores, float32."""
    found: np.ndarray = to_chances.apply(_in_unit(scores)).astype(np.float32)
    return found


def _in_unit(scores: np.ndarray) -> np.ndarray:
    """Any scores, brought between 0 and 1 in the same order."""
    exact = scores.astype(np.float64)
    brought: np.ndarray = 0.5 + 0.5 * exact / (1 + np.abs(exact))
    return brought
