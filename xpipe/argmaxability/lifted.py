"""A layer whose scores are compared with each other (modes topk and argmax), and its rows for the searches.

Holds no search and no proof. The threshold t is one more coordinate: row i is ((w_i - c) / R, -1), for R the largest
norm of a row and c a point near the rows of the set, so that z_i - t is a score like any other. Moving all rows by c
moves t alone. In box units |x_j| <= 1, so |t| stays below 2 sqrt(d) + max |b_i| / (R box): a wider box for t bounds
nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.argmaxability.evidence import SMALL
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.regions import Regions, find_regions
from xpipe.argmaxability.search import WorkingRows, first_rows, rows_per_round
from xpipe.argmaxability.stored_rows import StoredRows, check_bias, stored_rows

CACHED = SMALL  # numbers of weights that are kept in float64: 256 MB
MOST_FIRST_ROWS, MOST_ROWS_PER_ROUND = 512, 256  # working rows, where there are many inputs


@dataclasses.dataclass(frozen=True)
class LiftedLayer:
    """Weights for modes topk and argmax. Made by `prepare_rows`.

    Attributes
    ----------
    rows : StoredRows
        The weights.
    cached : ndarray of float64, shape (n_labels, n_inputs), or None
        The same weights, where they are small.
    bias : ndarray of float64, shape (n_labels,), or None
        The biases.
    largest : float
        R, the largest norm of a row; 1 where all weights are 0.
    mean : ndarray of float64, shape (n_inputs,)
        The mean row.
    real, norms, shifts : ndarray, shape (n_labels,)
        What `search` asks for: all labels, 1, and the biases divided by R.
    regions : Regions or None
        Rows that are near each other, where all of many labels are asked about by themselves.

    Examples
    --------
    >>> from xpipe.argmaxability import prepare_rows
    >>> prepare_rows([[1.0, 0.0], [0.0, 3.0]]).mean.tolist()
    [0.5, 1.5]
    """

    rows: StoredRows
    cached: np.ndarray | None
    bias: np.ndarray | None
    largest: float
    mean: np.ndarray
    real: np.ndarray
    norms: np.ndarray
    shifts: np.ndarray
    regions: Regions | None = None

    @property
    def n_labels(self) -> int:
        return len(self.rows)

    @property
    def n_inputs(self) -> int:
        return self.rows.d

    @property
    def d(self) -> int:
        """The number of inputs, and the threshold."""
        return self.rows.d + 1

    def weights_of(self, labels: Any) -> np.ndarray:
        """Rows of W in float64."""
        return self.rows.take(labels) if self.cached is None else np.asarray(self.cached[labels])

    def directions_of(self, labels: np.ndarray) -> np.ndarray:
        """Rows of W divided by R, and the column of the threshold; not moved."""
        return np.column_stack([self.weights_of(labels) / self.largest, np.full(len(labels), -1.0)])

    def scores(self, points: np.ndarray) -> np.ndarray:
        """Scores without bias and threshold, divided by R, of all labels at points with a threshold."""
        x = points[:, :-1] / self.largest
        if self.cached is not None:
            return np.asarray(x @ self.cached.T)
        found = np.empty((len(x), len(self.rows)))
        dtype = np.float32 if self.rows.narrow else np.float64  # good enough to see which rows a search has missed
        x = x.astype(dtype)
        for first, block in self.rows.blocks(dtype):
            found[:, first : first + len(block)] = x @ block.T
        return found

    def first_points(self, indptr: np.ndarray, indices: np.ndarray, limits: Limits) -> np.ndarray:
        """Points to try first, in box units: from the mean of all rows to the mean of the rows of each set.

        They settle almost every set of one label, and most small sets of an index of many inputs. Rounded to float32,
        so that products in float32 prove what they can.
        """
        points = np.zeros((len(indptr) - 1, self.n_inputs))
        for number in range(len(points)):
            own = indices[indptr[number] : indptr[number + 1]]
            if 0 < len(own) <= MOST_FIRST_ROWS:
                points[number] = self.weights_of(own).mean(axis=0) - self.mean
        points = np.maximum(points, 0.0) if limits.nonnegative else points
        points /= np.maximum(np.abs(points).max(axis=1, keepdims=True), 1e-300)
        return points.astype(np.float32).astype(np.float64)


def prepare_rows(W: Any, bias: Any = None, *, every_label: bool = False) -> LiftedLayer:
    """Check weights, and compute what all label sets share in modes topk and argmax.

    Parameters
    ----------
    W : array_like of real numbers, shape (n_labels, d), or StoredRows
        One row per label. float16 and float32 stay as they are, in memory or mapped from a file.
    bias : array_like of real numbers, shape (n_labels,), optional
        The biases; None where there are none.
    every_label : bool, default False
        Whether every label will be asked about by itself (mode argmax without Y). Of many rows it is then found out
        which are near each other: that takes a while, and settles most labels at once.

    Returns
    -------
    LiftedLayer

    Raises
    ------
    DataError
        If W or bias has a wrong shape or type, or numbers that are not finite or out of range.

    Examples
    --------
    >>> from xpipe.argmaxability import prepare_rows
    >>> layer = prepare_rows([[3.0, 4.0], [0.0, 1.0]])
    >>> layer.n_labels, layer.n_inputs, layer.largest
    (2, 2, 5.0)
    """
    rows = stored_rows(W)
    n = len(rows)
    shift = check_bias(bias, n)
    cached = rows.take(slice(None)) if rows.stored.size <= CACHED else None
    largest = float(rows.norms().max()) or 1.0
    shifts = np.zeros(n) if shift is None else shift / largest
    regions = find_regions(rows, shift) if every_label and cached is None else None
    ones = np.broadcast_to(1.0, n)
    return LiftedLayer(rows, cached, shift, largest, rows.mean(), np.arange(n), ones, shifts, regions)


class LiftedRows(WorkingRows):
    """Working rows with a threshold, moved by a point near the rows of the set."""

    def __init__(self, layer: LiftedLayer, positives: np.ndarray, limits: Limits):
        super().__init__(layer, positives, limits)
        self.lifted = layer
        near = layer.weights_of(positives[: self.first_rows()])
        self.centre = near.mean(axis=0) if len(near) else layer.mean
        top = 2.1 * np.sqrt(self.d) + float(np.abs(layer.shifts).max()) / limits.box
        low, high = self.sides
        low[-1] = high[-1] = 2.0 ** np.ceil(np.log2(top))

    def directions_of(self, labels: np.ndarray) -> np.ndarray:
        moved = (self.lifted.weights_of(labels) - self.centre) / self.lifted.largest
        return np.column_stack([moved, np.full(len(labels), -1.0)])

    def complete(self, scores: np.ndarray, x: np.ndarray) -> None:
        scores -= self.centre @ x[:-1] / self.lifted.largest + x[-1]

    def input_of(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[:-1])

    @staticmethod
    def most_first(d: int) -> int:
        """Working rows at the start, for d inputs and the threshold."""
        return min(first_rows(d), MOST_FIRST_ROWS)

    def first_rows(self) -> int:
        return self.most_first(self.d)

    def rows_per_round(self) -> int:
        return min(rows_per_round(self.d), MOST_ROWS_PER_ROUND)
