"""From scores to probabilities that can be believed: a rising map, fitted to held-out predictions.

Holds no model, no choice of held-out rows and no measure of calibration. Scores are numbers in 0..1 that rank well but
say little, such as the products of a tree or the softmax over labels. Each held-out prediction is a point: its score,
and whether it is right (or the chance that it is).

The fit is centred isotonic regression (Oron and Flournoy, 2017):

    1. Every truth is mixed with its own score, as if PRIOR points had said that scores are right: few points change
       little, and no probability becomes 0 or 1.
    2. Neighbours by score become groups of at least GROUP points, equal scores one group.
    3. Groups that do not rise are pooled (pool adjacent violators). Rising means by at least SLOPE per unit of score.
    4. The map is linear between the centres of the blocks (mean score, mean truth). Before the first centre and after
       the last one it rises by SLOPE. Below the lowest score it goes straight to 0.

So the map rises strictly: the order of predictions is that of their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from xpipe.errors import DataError
from xpipe.ground.sparse_rows import entry_rows

TOP = 5  # best labels of each held-out row that maps of models are fitted to
PRIOR = 10.0  # points that say that scores are right
GROUP = 50.0  # points of a group, at least
SLOPE = 0.01  # least rise of the map between groups, and above the last of them
MOST_KNOTS = 100_000  # that a file may have
SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class CalibrationMap:
    """A strictly rising, piecewise linear map of 0..1 into itself.

    Parameters
    ----------
    scores, probabilities : sequence of float
        The knots. Both begin with 0 and rise strictly; the last score is 1.

    Raises
    ------
    DataError
        They are no such knots.

    Examples
    --------
    >>> from xpipe.ground.calibration_map import CalibrationMap
    >>> CalibrationMap((0.0, 0.5, 1.0), (0.0, 0.8, 0.9)).apply([0.25, 0.5, 1.0]).tolist()
    [0.4, 0.8, 0.9]
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        scores, probabilities = (np.array(each, dtype=np.float64) for each in (self.scores, self.probabilities))
        right = 2 <= len(scores) == len(probabilities) <= MOST_KNOTS
        right = right and scores[0] == probabilities[0] == 0 and scores[-1] == 1 and probabilities[-1] <= 1
        if not (right and (np.diff(scores) > 0).all() and (np.diff(probabilities) > 0).all()):
            raise DataError("this is no calibration map", why="its knots do not rise from 0 on", fix="train again")

    def apply(self, scores: ArrayLike) -> np.ndarray:
        """The probabilities of scores, float64, above 0."""
        found = np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.probabilities)
        return np.asarray(np.maximum(found, SMALLEST))

    def apply_rows(self, indptr: np.ndarray, scores: np.ndarray, ties: np.ndarray | None = None) -> np.ndarray:
        """The probabilities of the scores of some rows, float32: within a row, they have the order of the scores.

        indptr: where each row begins. Different scores of a row have different probabilities, in float32 too. ties:
        numbers that rank equal scores, such as logits whose sigmoids are rounded to 1; they fall in every row.
        """
        from xpipe.ground._calibration_numba import separate_rows

        found = self.apply(scores).astype(np.float32)
        given = np.asarray(scores)
        separate_rows(np.asarray(indptr, dtype=np.int64), given, given if ties is None else ties, found)
        return found


SAME = CalibrationMap((0.0, 1.0), (0.0, 1.0))


def fit_map(scores: ArrayLike, truths: ArrayLike) -> CalibrationMap:
    """Fit a map to held-out predictions.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        In 0..1.
    truths : array_like of float, shape (n,)
        1 where the prediction is right, 0 where it is wrong, or the chance that it is right.

    Returns
    -------
    CalibrationMap
        Of no predictions, the map that changes nothing.

    Raises
    ------
    DataError
        A number is not in 0..1, or there are not as many truths as scores.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.ground.calibration_map import fit_map
    >>> scores, truths = np.repeat([0.2, 0.9], 1000), np.tile([1.0, 0.0], 1000)
    >>> fit_map(scores, truths).apply([0.2, 0.9]).round(2).tolist()
    [0.5, 0.5]
    """
    from xpipe.ground._calibration_numba import pool_adjacent

    given, right = (np.asarray(each, dtype=np.float64) for each in (scores, truths))
    if given.ndim != 1 or given.shape != right.shape:
        raise DataError("scores and truths do not fit each other", why=f"shapes {given.shape} and {right.shape}")
    for name, each in (("score", given), ("truth", right)):
        if not ((each >= 0) & (each <= 1)).all():
            raise DataError(f"a {name} is not in 0..1", fix="give probabilities, not logits")
    if not len(given):
        return SAME
    mixed = (len(given) * right + PRIOR * given) / (len(given) + PRIOR)
    points, weights, means = _group(given, mixed)
    sums = np.empty((len(points), 3))
    blocks = sums[: pool_adjacent(points, means, weights, SLOPE, sums)]
    lowest = given.min(where=given > 0, initial=1.0)
    return _through(lowest, blocks[:, 1] / blocks[:, 0], blocks[:, 2] / blocks[:, 0])


def _group(scores: np.ndarray, truths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean score, number of points, mean truth) of groups of neighbours, ascending."""
    points, point_of = np.unique(scores, return_inverse=True)
    weights = np.bincount(point_of).astype(np.float64)
    totals = np.bincount(point_of, truths)
    middles = np.cumsum(weights) - weights / 2
    _, group_of = np.unique(np.floor(middles / GROUP), return_inverse=True)
    counts = np.bincount(group_of, weights)
    return np.bincount(group_of, weights * points) / counts, counts, np.bincount(group_of, totals) / counts


def _through(lowest: float, centres: np.ndarray, means: np.ndarray) -> CalibrationMap:
    """The map through the centres of blocks. lowest: the lowest score above 0.

    Knots that do not rise, be it in their last bits only, are left out.
    """
    start = max(means[0] - SLOPE * (centres[0] - lowest), means[0] / 2)
    end = min(means[-1] + SLOPE * (1 - centres[-1]), (1 + means[-1]) / 2)
    beginning = ([lowest], [start]) if lowest < centres[0] else ([], [])
    scores = np.array([0.0, *beginning[0], *centres, 1.0])
    probabilities = np.array([0.0, *beginning[1], *np.maximum.accumulate(means), end])
    rises = np.append(True, (np.diff(scores) > 0) & (np.diff(probabilities) > 0))
    scores, probabilities = scores[rises], probabilities[rises]
    if len(scores) < 2:
        return SAME
    scores[-1] = 1.0
    return CalibrationMap(tuple(scores.tolist()), tuple(probabilities.tolist()))


def fit_predictions(predicted: Sequence[sp.csr_matrix], truths: Sequence[sp.csr_matrix]) -> CalibrationMap:
    """`fit_map` for the entries of predictions, rows x labels.

    Parameters
    ----------
    predicted : sequence of scipy.sparse.csr_matrix
        Scores in 0..1 of the best labels of each row, indices ascending.
    truths : sequence of scipy.sparse.csr_matrix
        The labels of the same rows, indices ascending. Values are the chances that they are right; more than 1 is 1.

    Returns
    -------
    CalibrationMap
        The map for all of them.
    """
    values = [_values_at(scores, truth) for scores, truth in zip(predicted, truths, strict=True)]
    nothing = np.zeros(0)
    return fit_map(
        np.concatenate([nothing, *(scores.data for scores in predicted)]), np.concatenate([nothing, *values])
    )


def _values_at(scores: sp.csr_matrix, truth: sp.csr_matrix) -> np.ndarray:
    """The values that `truth` has where `scores` has entries; 0 where it has none; 1 at most."""
    wanted, keys = (entry_rows(each.indptr) * each.shape[1] + each.indices for each in (scores, truth))
    places = np.searchsorted(keys, wanted)
    found = np.zeros(len(wanted))
    there = places < len(keys)
    there[there] = keys[places[there]] == wanted[there]
    found[there] = np.minimum(truth.data[places[there]], 1.0)
    return found
