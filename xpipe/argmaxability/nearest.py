"""The search for the direction of largest margin of a label set, or for multipliers that leave none.

For heads without bias: the nearest point of the hull of the signed rows settles almost every set. Holds no proof.
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability import _nearest_numba as kernels
from xpipe.argmaxability import search
from xpipe.argmaxability.head import Head
from xpipe.argmaxability.search import Found, Limits, WorkingRows

CLOSE = 1e-3  # of its square length: the point is near enough to go and look at all labels


class NearestSearch:
    """The direction of largest margin, or multipliers that leave none. For heads without bias."""

    def __init__(self, head: Head, positives: np.ndarray, limits: Limits, totals: np.ndarray):
        d = head.d
        self.rows, self.limits, self.done = WorkingRows(head, positives, limits.box), limits, False
        self.x = 2 * head.directions[positives].sum(axis=0) - totals  # each label's wish, added up
        self.support, self.size = np.empty(d + 2, dtype=np.int64), 0
        self.C, self.lam = np.empty((d + 2, d)), np.zeros(d + 2)
        self.L, self.ones = np.zeros((d + 2, d + 2)), np.zeros(d + 2)
        self.used = np.zeros(0, dtype=bool)
        self.best, self.point, self.rounds = 0.0, np.zeros(0), 0

    def advance(self) -> None:
        if not self.rows.n:  # nothing to solve before the first look
            return
        rows = self.rows
        self.used = np.concatenate([self.used, np.zeros(rows.n - len(self.used), dtype=bool)])
        self.size, _, self.why = kernels.approach(
            rows.A, rows.n, self.size, self.support, self.C, self.lam, self.L, self.ones, self.used, self.x,
            50 * len(self.x) + 1000, self.limits.none, CLOSE,
        )  # fmt: skip
        self.done = self.why in (kernels.ZERO, kernels.STUCK)

    def absorb(self, scores: np.ndarray) -> None:
        rows = self.rows
        if not rows.n:
            rows.begin(scores)
            lowest = int(np.argmax(scores[rows.labels[: rows.n]]))  # minus margins by now
            kernels.start_at(rows.A[lowest], lowest, self.support, self.C, self.lam, self.L, self.ones)
            self.used = np.zeros(rows.n, dtype=bool)
            self.used[lowest] = True
            self.size, self.x = 1, rows.A[lowest].copy()
            return
        square = float(self.x @ self.x)
        found, least = rows.take_lowest(scores, square * (1 - CLOSE), search.rows_a_round(len(self.x)))
        radius = least / np.abs(self.x).max()
        if radius > self.best:
            self.best, self.point = radius, self.x.copy()
        self.rounds += 1
        self.done = not found or self.best >= self.limits.enough or self.rounds >= search.MOST_ROUNDS

    def found(self) -> Found:
        point = self.point / np.abs(self.point).max() if len(self.point) else None
        return Found(point, *self.rows.multipliers(self.support[: self.size], self.lam[: self.size]))
