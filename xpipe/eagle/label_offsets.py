"""A calibration of its own for every label: how far its scores mean owning it, by groups that have it or lack it.

Holds no scores and no posteriors. A member with score s owns a label with the hazard e^offset s^slope, so a group has
the label with the chance 1 - exp(-H), H = e^offset S, where S is the sum of s^slope over its members. Where members of
groups are alike, a label easily takes a broader concept of its groups for its own. Its scores are then high in groups
that lack it too, and its offset falls: the offset makes the labels of all these groups most likely. Few groups tell
little, so offsets have a prior, which comes from the labels of a trial:

    offset ~ N(expected + per_group log n_groups, spread^2)
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from xpipe.eagle import _offsets_numba as kernels
from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle.slopes import SLOPES, best_slope, slope_number, tells_something
from xpipe.ground.sparse_rows import entries_of_rows

ROUNDS = 20  # of expectation and maximisation; the spread settles after about ten
LEAST_VARIANCE, MOST_VARIANCE = 0.01, 4.0  # of offsets
MOST_SLOPE = 3.0  # groups that took part confirm each other: they want a higher one, and chances would be too sure


class LabelCells(NamedTuple):
    """Sums of scores to some powers, for groups that have each label and for groups that lack it.

    starts: where the groups of each label begin. log_sums: [groups of all labels, powers], logs of the sums.
    """

    having_starts: np.ndarray
    having: np.ndarray
    lacking_starts: np.ndarray
    lacking: np.ndarray

    def of_power(self, number: int) -> LabelCells:
        """The same with one power only; sums are one-dimensional then."""
        return self._replace(
            having=np.ascontiguousarray(self.having[:, number]), lacking=np.ascontiguousarray(self.lacking[:, number])
        )

    def of_slope(self, slope: float) -> LabelCells:
        """The same with the power `slope` only. It must have the powers SLOPES."""
        number = slope_number(slope)
        return self._replace(having=self.having[:, [number]], lacking=self.lacking[:, [number]])

    def of_labels(self, labels: np.ndarray) -> LabelCells:
        """The same with some labels only."""
        having = entries_of_rows(self.having_starts, labels)
        lacking = entries_of_rows(self.lacking_starts, labels)
        return LabelCells(having.indptr, self.having[having.places], lacking.indptr, self.lacking[lacking.places])

    def n_groups(self) -> np.ndarray:
        """Per label, the groups that have it."""
        counts: np.ndarray = np.diff(self.having_starts)
        return counts


class Prior(NamedTuple):
    """The prior of offsets, and the loss of the labels of groups under it, offsets integrated out (Laplace)."""

    expected: float
    per_group: float
    variance: float
    loss: float


def fit_prior(cells: LabelCells) -> tuple[Calibration | None, float]:
    """(The slope and the prior of offsets that make the labels of groups most likely, what part of the loss they save).

    The calibration is None where scores tell nothing: they save nothing of the loss without scores, then. cells: with
    the powers SLOPES, of labels that have groups.
    """

    @cache
    def fit(number: int) -> Prior:
        return _fit_prior(cells.of_power(number))

    number = best_slope(lambda number: fit(number).loss, MOST_SLOPE)
    found, blind = fit(number), LabelCells(*(np.zeros_like(part) for part in cells))
    blind = blind._replace(having_starts=cells.having_starts, lacking_starts=cells.lacking_starts)
    without_scores = _fit_prior(blind.of_power(0)).loss
    saved = 1 - found.loss / max(without_scores, 1e-300)
    if not tells_something(found.loss, without_scores):
        return None, saved
    return Calibration(found.expected, float(SLOPES[number]), found.per_group, math.sqrt(found.variance)), saved


def _fit_prior(cells: LabelCells) -> Prior:
    """The prior that makes the labels of groups most likely, by expectation and maximisation. cells: of one power."""
    n_labels = len(cells.having_starts) - 1
    inputs = np.stack([np.ones(n_labels), np.log(np.maximum(cells.n_groups(), 1))])
    weights, variance = np.linalg.lstsq(inputs.T, _plain_offsets(cells), rcond=None)[0], 1.0
    for _ in range(ROUNDS):
        expected = weights @ inputs
        offsets, curves, losses = fit_offsets(cells, expected, variance)
        weights = np.linalg.lstsq(inputs.T, offsets, rcond=None)[0]
        square = (offsets - weights @ inputs) ** 2 + 1 / (curves + 1 / variance)
        variance = min(max(float(square.mean()), LEAST_VARIANCE), MOST_VARIANCE)
    expected = weights @ inputs
    offsets, curves, losses = fit_offsets(cells, expected, variance)
    loss = losses + (offsets - expected) ** 2 / (2 * variance) + np.log1p(variance * curves) / 2
    return Prior(float(weights[0]), float(weights[1]), variance, float(loss.sum()))


def _plain_offsets(cells: LabelCells) -> np.ndarray:
    """Offsets with which as many groups have each label as do, if hazards are small: where fitting starts."""
    n_labels = len(cells.having_starts) - 1
    totals = np.zeros(n_labels)
    for starts, sums in ((cells.having_starts, cells.having), (cells.lacking_starts, cells.lacking)):
        of_label = np.repeat(np.arange(n_labels), np.diff(starts))
        totals += np.bincount(of_label, np.exp(np.minimum(sums, 600.0)), n_labels)
    found: np.ndarray = np.log(np.maximum(cells.n_groups(), 1)) - np.log(np.maximum(totals, 1e-300))
    return found


def offsets_of(calibration: Calibration, n_groups: np.ndarray, cells: LabelCells | None) -> np.ndarray:
    """The offset of each label, float64: of its own where the calibration has a spread, else the expected one.

    n_groups: of each label; cells: with the power of the calibration, and only needed where it has a spread.
    """
    expected: np.ndarray = calibration.offset + calibration.per_group * np.log(np.maximum(n_groups, 1))
    if not calibration.spread or cells is None:
        return expected
    return fit_offsets(cells.of_power(0), expected, calibration.spread**2)[0]


def fit_offsets(cells: LabelCells, expected: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the most likely offset of each label, how sharply its groups determine it, their loss). cells: of one power."""
    offsets, curves, losses = (np.zeros(len(expected)) for _ in range(3))
    kernels.fit_offsets(tuple(cells), expected, variance, offsets, curves, losses)
    return offsets, curves, losses
