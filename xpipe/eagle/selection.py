"""How choices are made without a true label of a sample: by the labels of held-out groups.

Holds no trial (`trial`), no fitting of posteriors (`discriminative`) and no order of choices (`choice`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Protocol, TypeVar

import numpy as np

from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle.regression import fit_hazards, logistic_loss
from xpipe.eagle.slopes import LEAST_GAIN, SLOPES, best_slope, tells_something
from xpipe.eagle.trial import Forecast, Trial

NOBODY = -1e-12  # a forecast of log_none above this counts as this: its logarithm stays finite


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


def calibrate(forecast: Forecast, trial: Trial) -> tuple[Calibration | None, float]:
    """(The calibration that makes the labels of held-out groups most likely, their mean log likelihood).

    The calibration is None where scores tell nothing. The forecast must have the sums of scores to the powers SLOPES.
    """
    truth = trial.held_labels.ravel()
    n_groups = (np.log(np.maximum(trial.n_groups, 1))[:, None] * np.ones(trial.held_labels.shape[1])).ravel()
    inputs = np.stack([np.ones(truth.size), n_groups])
    _, nothing = fit_hazards(inputs, truth, np.zeros(truth.size))

    @cache
    def fit(number: int) -> tuple[np.ndarray, float]:
        return fit_hazards(inputs, truth, forecast.log_sums[number].ravel())

    at = best_slope(lambda number: fit(number)[1])
    (offset, per_group), loss = fit(at)
    if not tells_something(loss, nothing):
        return None, -(1 - LEAST_GAIN) * nothing
    return Calibration(float(offset), float(SLOPES[at]), float(per_group), 0.0), -loss


def threshold_of(chances: np.ndarray, recall: float = 1.0) -> float:
    """The threshold for the highest expected F1, if the chances are right: pairs above it should be chosen.

    recall: how many times as much as precision it counts; F3 is 9.
    """
    falling = np.sort(chances.astype(np.float64))[::-1]
    expected = np.cumsum(falling) / (np.arange(1, len(falling) + 1) + recall * falling.sum())
    return float(falling[np.argmax(expected)])


def expected_f1(chances: np.ndarray, chosen: np.ndarray) -> float:
    """The F1 to expect when these pairs are chosen, if the chances are right. chosen: bool, one per pair."""
    return float(2 * chances[chosen].sum() / max(chosen.sum() + chances.sum(), 1e-300))


class Attempt(Protocol):
    """Anything that was made from a point of a grid, with a measure of how good it is."""

    @property
    def likelihood(self) -> float: ...


Made = TypeVar("Made", bound=Attempt)


def climb(
    grid: tuple[float, ...], starts: tuple[int, ...], attempt: Callable[[float], Made]
) -> tuple[Made, dict[float, float]]:
    """(the best attempt on a grid, the likelihood of every attempt), by walking uphill from the best place of `starts`.

    Several starts find the higher one of two hills. A new attempt replaces the best one only where it is better, so
    among equals the first start, and then the one nearest to it, is kept.
    At most two attempts are in memory at a time, provided that the caller keeps none.
    """
    best, at = attempt(grid[starts[0]]), starts[0]
    seen = {grid[at]: best.likelihood}
    for start in starts[1:]:
        following = attempt(grid[start])
        seen[grid[start]] = following.likelihood
        if following.likelihood > best.likelihood:
            best, at = following, start
        del following
    for direction in (1, -1):
        while 0 <= at + direction < len(grid) and grid[at + direction] not in seen:
            following = attempt(grid[at + direction])
            seen[grid[at + direction]] = following.likelihood
            if not following.likelihood > best.likelihood:
                del following
                break
            best, at = following, at + direction
    return best, seen


def top_of(seen: dict[float, float], best: float) -> float:
    """Where the parabola through the best point and its neighbours has its top, on a logarithmic scale.

    The grid is coarse. seen: the likelihood of every point tried. Without two neighbours, it is the best point.
    """
    points = sorted(seen)
    at = points.index(best)
    if not 0 < at < len(points) - 1 or points[at - 1] <= 0:
        return best
    known = points[at - 1 : at + 2]
    (low, middle, high), values = np.log(known), [seen[point] for point in known]
    below, above = (values[0] - values[1]) / (low - middle), (values[2] - values[1]) / (high - middle)
    curve = (above - below) / (high - low)
    if not (np.isfinite(curve) and curve < 0):
        return best
    top = (low + middle) / 2 - below / (2 * curve)
    return _rounded(math.exp(top)) if low < top < high else best


def descend(
    grid: tuple[float, ...], seen: dict[float, float], loss: float, attempt: Callable[[float], Made]
) -> tuple[float, dict[float, float]]:
    """(about the lowest point where the likelihood is at most the part `loss` worse, the likelihood of every attempt).

    seen: what `climb` found; likelihoods are logarithms, below 0. Points of the grid are tried downwards until one is
    not good enough, then one between it and the last good one; between the two that are left the curve is a line.
    """
    seen = dict(seen)
    enough = max(seen.values()) * (1 + loss)

    def good_at(point: float) -> bool:
        if point not in seen:
            seen[point] = attempt(point).likelihood
        return seen[point] >= enough

    good = min(point for point in seen if seen[point] >= enough)
    below = [point for point in grid if point < good]
    while below and good_at(below[-1]):
        good = below.pop()
    if below:
        bad, middle = below[-1], _rounded(math.sqrt(below[-1] * good))
        good, bad = (middle, bad) if good_at(middle) else (good, middle)
        part = (seen[good] - enough) / (seen[good] - seen[bad])
        good = _rounded(math.exp((1 - part) * math.log(good) + part * math.log(bad)))
    return good, seen


def _rounded(point: float) -> float:
    """A point to three digits."""
    return float(f"{point:.3g}")
