"""How good an assignment is, without a true label: expected precision, recall and F1, and how far they may be off.

Holds no assignment and no fitting. If chances q of pairs (sample, label) are right, then of n owners

    precision = sum of q over owners / n        recall = sum of q over owners / sum of q over all pairs

and F1 follows. Chances are as right as their calibration, so the interval is that of the calibration: its parameters
are estimated from the labels of some held-out groups. Their covariance allows for pairs that share a group or a label.
How far members own labels together (frailty) is barely visible in group labels: half and double of it count as equally
likely. What the form of the calibration cannot express is added: `MISFIT` and `MISFIT_ALIKE` are about as large as the
errors on Bibtex, Delicious and EURLEX57K.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.chances import Crowd, label_shifts, map_to_chances, shifted
from xpipe.eagle.discriminative import Fitted, calibrated_posteriors
from xpipe.eagle.regression import fit_hazards, hazard_growth
from xpipe.eagle.selection import SLOPES
from xpipe.eagle.trial import Forecast, Trial
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.sparse_rows import entry_rows

SURE = 1.96  # standard deviations of an interval of 95 %
MISFIT = 0.015  # standard deviation of what a calibration of this form misses; of precision, recall and F1 alike
MISFIT_ALIKE = 0.04  # the same where members of groups are alike, and rates of labels do not help
OTHER_FRAILTY = 2.0  # a frailty this much higher or lower is as likely
STEP = 0.02  # of a parameter, for derivatives
PRIOR = (3.0, 1.0, 1.0)  # standard deviations of offset, per_group and slope before any group is looked at


class Quality(NamedTuple):
    """Precision, recall and F1 of owners, or a standard deviation of each."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Figure:
    """An expected figure, and its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Expected:
    """The quality to expect of an assignment."""

    precision: Figure
    recall: Figure
    f1: Figure


@dataclass(frozen=True)
class TrialQuality:
    """What the trial says about the owners of the method that was chosen.

    quality: of the owners of the trial's labels. spread: the standard deviation of each figure. to_chances: from the
    scores of owners to chances, where the method's own scores are none.
    """

    quality: tuple[float, ...]
    spread: tuple[float, ...]
    to_chances: CalibrationMap | None = None


def quality_of(owned: float, n_owners: float, total: float) -> Quality:
    """The quality of owners: `owned` of `n_owners` are true, of `total` true pairs; each may be an expectation."""
    return Quality(owned / max(n_owners, 1e-300), owned / max(total, 1e-300), 2 * owned / max(n_owners + total, 1e-300))


def expectation(
    trial: TrialQuality | None, n_owners: int, owned: float | None, total: float | None
) -> tuple[Expected | None, str]:
    """(The quality to expect of all owners, where that comes from in one sentence).

    owned: the sum of the chances of the owners; total: of all pairs; None where owners have no chances. The expectation
    is None where nothing is known.
    """
    if owned is not None and total is not None:
        return expected_quality(owned, n_owners, total, trial), "from the chances of all pairs that groups allow"
    if trial is not None:
        sentence = "from the chances of the pairs of some labels"
        return expected_by_trial(trial, n_owners), sentence
    return None, "not known: nothing was calibrated by held-out groups, so owners have no chances"


def expected_quality(owned: float, n_owners: int, total: float, trial: TrialQuality | None) -> Expected:
    """The quality to expect of all owners, from sums of their chances and of the chances of all pairs.

    Examples
    --------
    >>> from xpipe.eagle.trust import TrialQuality, expected_quality
    >>> found = expected_quality(owned=80.0, n_owners=100, total=160.0, trial=None)
    >>> found.precision.value, found.recall.value, found.precision.low < 0.8 < found.precision.high
    (0.8, 0.5, True)
    """
    found = quality_of(owned, n_owners, total)
    spread = (0.0,) * 3 if trial is None else trial.spread
    return _with_intervals(found, spread, (n_owners, total, (n_owners + total) / 2))


def expected_by_trial(trial: TrialQuality, n_owners: int) -> Expected:
    """The quality to expect of all owners where only those of the trial have chances."""
    return _with_intervals(Quality(*trial.quality), trial.spread, (n_owners,) * 3)


def _with_intervals(found: Quality, spread: tuple[float, ...], counts: tuple[float, ...]) -> Expected:
    """Figures with intervals: from the calibration, from its form, and from the luck of so many pairs."""
    figures = []
    for expected, calibration, count in zip(found, spread, counts, strict=True):
        value = min(max(expected, 0.0), 1.0)
        luck = value * (1 - value) / max(count, 1)
        figures.append(_figure(value, math.sqrt(calibration**2 + MISFIT**2 + luck)))
    return Expected(*figures)


def _figure(value: float, spread: float) -> Figure:
    """A figure from 0 to 1 with its interval, which stays between these."""
    low, high = max(value - SURE * spread, 0.0), min(value + SURE * spread, 1.0)
    return Figure(round(value, 4), round(low, 4), round(high, 4))


def trial_quality(
    fitted: Fitted,
    forecast: Forecast,
    trial: Trial,
    calibration: tuple[float, ...],
    crowd: Crowd,
    owned: np.ndarray,
    threads: int,
    scores: np.ndarray | None = None,
) -> TrialQuality | None:
    """What the trial says about some of its pairs as owners (`owned`, bool); None where nothing is calibrated.

    scores: of the owners, by a method whose scores are no chances.
    """
    if not calibration or not owned.any():
        return None

    labels, n_groups = entry_rows(fitted.score.indptr), np.asarray(trial.Y2.getnnz(axis=0))
    share = 1 - trial.n_held / max(sum(crowd.counts), trial.n_held + 1)  # of the groups that take part

    def chances_at(parameters: np.ndarray, frailty: float) -> np.ndarray:
        offset, per_group, slope = parameters.tolist()
        chances = calibrated_posteriors(fitted.score, trial.Y1, trial.Y2, (offset, slope, per_group, frailty), threads)
        shift = label_shifts(chances, labels, n_groups, crowd, share)
        return shifted(chances, shift[labels])

    def quality_at(parameters: np.ndarray, frailty: float) -> Quality:
        counted = chances_at(parameters, frailty)
        return quality_of(float(counted[owned].sum()), int(owned.sum()), float(counted.sum()))

    offset, slope, per_group, frailty = calibration
    fitted_at = np.array([offset, per_group, slope])
    held = HeldOut(forecast, trial, frailty)
    found = quality_at(fitted_at, frailty)
    variance = _propagated(lambda at: quality_at(at, frailty), fitted_at, held.covariance(fitted_at))
    if frailty > 0:
        others = [
            quality_at(held.refitted(slope, frailty * factor), frailty * factor)
            for factor in (1 / OTHER_FRAILTY, OTHER_FRAILTY)
        ]
        variance = variance + ((np.array(others[1]) - np.array(others[0])) / 2) ** 2
    variance = variance + ((1 - crowd.weight) * MISFIT_ALIKE) ** 2
    to_chances = None if scores is None else map_to_chances(scores, chances_at(fitted_at, frailty)[owned])
    return TrialQuality(tuple(found), tuple(np.sqrt(variance).tolist()), to_chances)


def _propagated(quality_at: Callable[[np.ndarray], Quality], at: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The variances of the figures, from the covariance of the parameters that they depend on."""
    slopes = []
    for number in range(len(at)):
        step = np.where(np.arange(len(at)) == number, STEP, 0.0)
        slopes.append((np.array(quality_at(at + step)) - np.array(quality_at(at - step))) / (2 * STEP))
    grown = np.array(slopes)  # parameters x figures
    variances: np.ndarray = np.maximum(np.einsum("pf,pq,qf->f", grown, covariance, grown), 0.0)
    return variances


class HeldOut:
    """The labels of held-out groups, as the calibration sees them."""

    def __init__(self, forecast: Forecast, trial: Trial, frailty: float):
        self.forecast, self.trial, self.frailty = forecast, trial, frailty
        self.truth = trial.held_labels
        self.log_groups = np.log(np.maximum(trial.n_groups, 1))[:, None] * np.ones(self.truth.shape[1])

    def refitted(self, slope: float, frailty: float) -> np.ndarray:
        """The parameters (offset, per_group, slope) that make the labels most likely under another frailty."""
        inputs = np.stack([np.ones(self.truth.size), self.log_groups.ravel()])
        number = int(np.argmin(np.abs(SLOPES - slope)))
        weights, _ = fit_hazards(inputs, self.truth.ravel(), self.forecast.log_sums[number].ravel(), frailty)
        return np.array([*weights, slope])

    def covariance(self, at: np.ndarray) -> np.ndarray:
        """The covariance of the parameters: pairs of a group, and pairs of a label, are not independent."""
        offset, per_group, slope = at.tolist()
        number = int(np.argmin(np.abs(SLOPES - slope)))
        low, high = max(number - 1, 0), min(number + 1, len(SLOPES) - 1)
        sums = self.forecast.log_sums
        by_slope = (sums[high] - sums[low]) / (SLOPES[high] - SLOPES[low])
        inputs = np.stack([np.ones(self.truth.shape), self.log_groups, by_slope])  # parameters x labels x groups
        hazard, growth = hazard_growth(offset + per_group * self.log_groups + sums[number], self.frailty)
        pull = np.where(self.truth, -growth / np.expm1(hazard), growth) * inputs
        weight = growth**2 / np.expm1(hazard)
        curve = np.einsum("plg,lg,qlg->pq", inputs, weight, inputs)
        of_groups, of_labels = pull.sum(axis=1), pull.sum(axis=2)
        spread = of_groups @ of_groups.T + of_labels @ of_labels.T - np.einsum("plg,qlg->pq", pull, pull)
        known = np.diag(1 / np.square(PRIOR))  # where held-out groups tell nothing, parameters are as uncertain as this
        inverse = np.linalg.inv(curve + known)
        values, vectors = np.linalg.eigh(inverse @ (spread + known) @ inverse)
        result: np.ndarray = (vectors * np.maximum(values, 0)) @ vectors.T
        return result


def places_of(pairs: sp.csr_matrix, some: sp.csr_matrix) -> np.ndarray:
    """Which stored entries of `pairs` are stored in `some` as well; bool, one per pair."""
    chosen = np.zeros(pairs.nnz, dtype=bool)
    width = np.int64(max(pairs.shape[1], 1))
    keys, wanted = (
        np.repeat(np.arange(each.shape[0], dtype=np.int64), np.diff(each.indptr)) * width + each.indices
        for each in (pairs, some)
    )
    chosen[np.searchsorted(keys, wanted)] = True
    return chosen
