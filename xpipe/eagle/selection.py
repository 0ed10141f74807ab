"""How choices are made without a true label of a sample: by the labels of held-out groups.

Holds no trial (`trial`), no fitting of posteriors (`discriminative`) and no order of choices (`choice`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle.regression import fit_hazards, logistic_loss
from xpipe.eagle.trial import Forecast, Trial

POWERS = np.array([1, 2, 3, 4, 6, 8])  # of the norms that are tried on the scores of a group; whole powers are fast
NOBODY = -1e-12  # a forecast of log_none above this counts as this: its logarithm stays finite


def likelihood(log_none: np.ndarray, held_labels: np.ndarray) -> float:
    """The mean log likelihood of which labels held-out groups have. Both [labels, groups]."""
    log_some = np.log(-np.expm1(np.minimum(log_none, NOBODY)))
    return float(np.where(held_labels, log_some, log_none).mean())


def explained(forecast: Forecast, trial: Trial) -> float:
    """The share of the uncertainty about held-out groups that a forecast removes: 0 nothing, 1 all.

    The uncertainty is what remains when only the rates of the labels are known. The forecast is brought to a scale of
    its own first (a logistic regression on log(-log_none) and the log odds of the rate): methods differ in how sure
    they are, and that tells nothing about who owns a label.
    """
    rates = np.clip(trial.rates, 1e-6, 1 - 1e-6)[:, None] * np.ones(forecast.log_none.shape[1])
    truth = trial.held_labels.ravel().astype(np.float64)
    known = np.log(rates / (1 - rates)).ravel()
    said = np.log(-np.minimum(forecast.log_none, NOBODY)).ravel()
    without = logistic_loss(np.stack([np.ones_like(known), known]), truth)
    return 1 - logistic_loss(np.stack([np.ones_like(known), known, said]), truth) / max(without, 1e-12)


def calibrate(forecast: Forecast, trial: Trial, likeness: float) -> Calibration | None:
    """The calibration that makes the labels of held-out groups most likely; None where scores tell nothing.

    Group labels barely reveal whether members share ownership: many powers are about equally likely. So the power is
    inferred from how similar the rows of members are: power / slope is 1 (members are independent) at likeness 0, and
    2 for copies.
    """
    shared = 1 + min(max(likeness, 0), 1)
    number = int(np.argmin(abs(POWERS - 2 * shared)))
    for _ in range(3):  # the slope depends on the power, but only a little
        weights = _fit_chances(forecast.log_norms[number], trial)
        if weights[1] <= 0:
            return None
        before, number = number, int(np.argmin(abs(POWERS - weights[1] * shared)))
        if number == before:
            break
    offset, slope, per_group = weights.tolist()
    return Calibration(offset, slope, per_group, int(POWERS[before]))


def _fit_chances(log_norm: np.ndarray, trial: Trial) -> np.ndarray:
    """offset, slope and per_group of a calibration, for the scores of groups under one norm."""
    truth = trial.held_labels.ravel()
    n_groups = np.log(np.maximum(trial.n_groups, 1))[:, None] * np.ones(log_norm.shape[1])
    return fit_hazards(np.stack([np.ones(truth.size), log_norm.ravel(), n_groups.ravel()]), truth)


def threshold_of(chances: np.ndarray) -> float:
    """The threshold for the highest expected F1, if the chances are right: pairs above it should be chosen."""
    falling = np.sort(chances.astype(np.float64))[::-1]
    expected = 2 * np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(falling[np.argmax(expected)])


def expected_f1(chances: np.ndarray, chosen: np.ndarray) -> float:
    """The F1 to expect when these pairs are chosen, if the chances are right. chosen: bool, one per pair."""
    return float(2 * chances[chosen].sum() / max(chosen.sum() + chances.sum(), 1e-300))


class Attempt(Protocol):
    """Anything that was made from a point of a grid, with a measure of how good it is."""

    @property
    def likelihood(self) -> float: ...


Made = TypeVar("Made", bound=Attempt)


def climb(grid: tuple[float, ...], start: int, attempt: Callable[[float], Made]) -> tuple[Made, dict[float, float]]:
    """(the best attempt on a grid, the likelihood of every attempt), by walking uphill from place `start`.

    A new attempt replaces the best one only where it is better, so among equals the one nearest to the start is kept.
    At most two attempts are in memory at a time, provided that the caller keeps none.
    """
    best, at = attempt(grid[start]), start
    seen = {grid[start]: best.likelihood}
    for direction in (1, -1):
        while 0 <= at + direction < len(grid) and grid[at + direction] not in seen:
            following = attempt(grid[at + direction])
            seen[grid[at + direction]] = following.likelihood
            if not following.likelihood > best.likelihood:
                del following
                break
            best, at = following, at + direction
    return best, seen
