"""How good an assignment is, without a true label: expected precision, recall and F1, and how far they may be off.

Holds no assignment and no fitting. If chances q of pairs (sample, label) are right, then of n owners

    precision = sum of q over owners / n        recall = sum of q over owners / sum of q over all pairs

and F1 follows. Chances are as right as their calibration, so the interval is that of the calibration: its parameters
are estimated from the labels of some held-out groups. Their covariance allows for pairs that share a group or a label.
Where every label has a calibration of its own, errors of single labels average out. What the form of the calibration
cannot express is added: `MISFIT` and `MISFIT_ALIKE` are about as large as the errors on five datasets
(docs/results.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.chances import Crowd, label_shifts, map_to_chances, shifted
from xpipe.eagle.discriminative import posteriors_of
from xpipe.eagle.regression import hazards_of
from xpipe.eagle.rounds import Fitted
from xpipe.eagle.slopes import SLOPES, slope_number
from xpipe.eagle.trial import Forecast, Trial
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.sparse_rows import entry_rows

SURE = 1.96  # standard deviations of an interval of 95 %
MISFIT = 0.05  # standard deviation of what a calibration of this form misses; of precision, recall and F1 alike
MISFIT_ALIKE = 0.12  # the same where members of groups are alike, and rates of labels do not help
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
    forecast: Forecast | None,
    trial: Trial,
    calibration: tuple[float, ...],
    crowd: Crowd,
    owned: np.ndarray,
    threads: int,
    scores: np.ndarray | None = None,
) -> TrialQuality | None:
    """What the trial says about some of its pairs as owners (`owned`, bool); None where nothing is calibrated.

    forecast: for the held-out groups; None where there are none. scores: of the owners, by a method whose scores are no
    chances.
    """
    if not calibration or not owned.any():
        return None

    labels, n_groups = entry_rows(fitted.score.indptr), np.asarray(trial.Y2.getnnz(axis=0))
    share = 1 - trial.n_held / max(sum(crowd.counts), trial.n_held + 1)  # of the groups that take part

    def chances_at(parameters: np.ndarray) -> np.ndarray:
        offset, per_group, slope = parameters.tolist()
        moved = (offset, slope, per_group, calibration[3])
        chances = posteriors_of(fitted, trial.Y1, trial.Y2, moved, threads)
        shift = label_shifts(chances, labels, n_groups, crowd, share)
        return shifted(chances, shift[labels])

    def quality_at(parameters: np.ndarray) -> Quality:
        counted = chances_at(parameters)
        return quality_of(float(counted[owned].sum()), int(owned.sum()), float(counted.sum()))

    offset, slope, per_group, _ = calibration
    fitted_at = np.array([offset, per_group, slope])
    variance = np.full(3, ((1 - crowd.weight) * MISFIT_ALIKE) ** 2)
    if forecast is not None:
        variance += _propagated(quality_at, fitted_at, HeldOut(forecast, trial).covariance(fitted_at))
    to_chances = None if scores is None else map_to_chances(scores, chances_at(fitted_at)[owned])
    return TrialQuality(tuple(quality_at(fitted_at)), tuple(np.sqrt(variance).tolist()), to_chances)


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

    def __init__(self, forecast: Forecast, trial: Trial):
        self.forecast, self.truth = forecast, trial.held_labels
        self.log_groups = np.log(np.maximum(trial.n_groups, 1))[:, None] * np.ones(self.truth.shape[1])

    def covariance(self, at: np.ndarray) -> np.ndarray:
        """The covariance of the parameters: pairs of a group, and pairs of a label, are not independent."""
        offset, per_group, slope = at.tolist()
        number = slope_number(slope)
        low, high = max(number - 1, 0), min(number + 1, len(SLOPES) - 1)
        sums = self.forecast.log_sums
        by_slope = (sums[high] - sums[low]) / (SLOPES[high] - SLOPES[low])
        inputs = np.stack([np.ones(self.truth.shape), self.log_groups, by_slope])  # parameters x labels x groups
        hazard = hazards_of(offset + per_group * self.log_groups + sums[number])
        pull = np.where(self.truth, -hazard / np.expm1(hazard), hazard) * inputs
        weight = hazard**2 / np.expm1(hazard)
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
