"""The powers of scores that hazards may grow with, and how one of them is chosen.

Holds no scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SLOPES = np.array([0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0])  # whole quarters
USUAL = 4  # the place in SLOPES where the search starts
LEAST_GAIN = 1e-4  # part of the loss by which scores must lower it, or they tell nothing
NO_POWERS = np.zeros(0)


def quarters_of(powers: np.ndarray) -> np.ndarray:
    """Powers in quarters, int64."""
    quarters: np.ndarray = np.rint(4 * powers).astype(np.int64)
    return quarters


def slope_number(slope: float) -> int:
    """The place of a slope in SLOPES."""
    return int(np.argmin(np.abs(SLOPES - slope)))


def best_slope(loss_of: Callable[[int], float], most: float = np.inf) -> int:
    """The place in SLOPES with the lowest loss, up to the slope `most`. The loss has one valley: walk downhill."""
    at, n_slopes = USUAL, int((most >= SLOPES).sum())
    for direction in (1, -1):
        while 0 <= at + direction < n_slopes and loss_of(at + direction) < loss_of(at):
            at += direction
    return at


def tells_something(loss: float, without_scores: float) -> bool:
    """Whether scores lower the loss by enough to be believed."""
    return loss < (1 - LEAST_GAIN) * without_scores
