"""The search for the direction of largest margin of a label set, or for multipliers that prove there is none.

For layers without bias: the nearest point of the hull of the signed rows settles almost every set. Holds no proof.
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability import _nearest_numba as kernels
from xpipe.argmaxability import search
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.output_layer import OutputLayer
from xpipe.argmaxability.search import Found, WorkingRows

CLOSE = 1e-3  # relative to |x|^2: margins this close to optimal are good enough to score all labels


class NearestSearch:
    """The direction of largest margin, or multipliers that prove there is none. For layers without bias.

    totals: the sum of all rows of `layer.directions`.
    """

    def __init__(self, layer: OutputLayer, positives: np.ndarray, limits: Limits, totals: np.ndarray):
        d = layer.d
        self.rows, self.limits, self.done = WorkingRows(layer, positives, limits), limits, False
        self.x = 2 * layer.directions[positives].sum(axis=0) - totals  # the sum of all signed rows
        self.support = kernels.Support(
            slots=np.empty(d + 2, dtype=np.int64),
            C=np.empty((d + 2, d)),
            lam=np.zeros(d + 2),
            L=np.zeros((d + 2, d + 2)),
            ones=np.zeros(d + 2),
        )
        self.size = 0
        self.used = np.zeros(0, dtype=bool)
        self.best, self.point, self.rounds = 0.0, np.zeros(0), 0

    def advance(self) -> None:
        if not self.rows.n:  # nothing to solve before all labels were scored once
            return
        rows = self.rows
        self.used = np.concatenate([self.used, np.zeros(rows.n - len(self.used), dtype=bool)])
        most_steps = 50 * len(self.x) + 1000
        self.size, _, self.why = kernels.approach(
            rows.A, rows.n, self.size, self.support, self.used, self.x, most_steps, self.limits.none, CLOSE
        )
        self.done = self.why in (kernels.ZERO, kernels.STUCK)

    def absorb(self, scores: np.ndarray) -> None:
        rows = self.rows
        if not rows.n:
            rows.begin(scores)
            lowest = int(np.argmax(scores[rows.labels[: rows.n]]))  # the scores are minus the margins by now
            kernels.start_at(rows.A[lowest], lowest, self.support)
            self.used = np.zeros(rows.n, dtype=bool)
            self.used[lowest] = True
            self.size, self.x = 1, rows.A[lowest].copy()
            return
        square = float(self.x @ self.x)
        added, least = rows.take_lowest(scores, square * (1 - CLOSE), search.rows_per_round(len(self.x)))
        radius = least / np.abs(self.x).max()
        if radius > self.best:
            self.best, self.point = radius, self.x.copy()
        self.rounds += 1
        self.done = not added or self.best >= self.limits.enough or self.rounds >= search.MOST_ROUNDS

    def found(self) -> Found:
        """The best point and the multipliers so far."""
        point = self.point / np.abs(self.point).max() if len(self.point) else None
        slots, lam = self.support.slots[: self.size], self.support.lam[: self.size]
        return Found(point, *self.rows.multipliers(slots, lam))
