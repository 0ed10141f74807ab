"""The search for the radius of a label set: the simplex method on the dual of its Chebyshev LP.

For what the nearest point leaves open, for exact radii, and for heads with bias. Holds no proof.
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability import _simplex_numba as kernels
from xpipe.argmaxability import search
from xpipe.argmaxability.head import Head
from xpipe.argmaxability.search import Found, Limits, WorkingRows

REFRESH = 128  # pivots between two corrections of the inverse
SPOILED = 1e-3  # how far the inverse may be off before a correction
MOST_PIVOTS = 300  # a row of the basis, in one round
MOST_CORRECTIONS = 3  # once nothing else is left to do


class ChebyshevSearch:
    """The radius itself, by the simplex method; `rows`: those of an earlier search, or none yet."""

    def __init__(self, head: Head, positives: np.ndarray, limits: Limits, rows: WorkingRows | None):
        d = head.d
        self.rows, self.limits, self.done = rows or WorkingRows(head, positives, limits.box), limits, False
        self.x, self.started = np.zeros(d), False
        self.inverse, self.basis, self.cost = np.empty((d + 1, d + 1)), np.empty(d + 1, dtype=np.int64), np.empty(d + 1)
        self.values, self.used = np.zeros(d + 1), np.zeros(0, dtype=bool)
        self.best, self.point, self.rounds, self.corrections = -np.inf, np.zeros(0), 0, 0

    def _start(self) -> None:
        rows = self.rows
        lowest = int(np.argmin(rows.beta[: rows.n]))
        kernels.start_at(rows.A[lowest], rows.beta[lowest], lowest, self.inverse, self.basis, self.cost)
        self.used = np.zeros(rows.n, dtype=bool)
        self.used[lowest] = self.started = True

    def advance(self) -> None:
        if not self.rows.n:  # nothing to solve before the first look
            return
        if not self.started:
            self._start()
        rows = self.rows
        self.used = np.concatenate([self.used, np.zeros(rows.n - len(self.used), dtype=bool)])
        pivots, self.why = 0, kernels.PIVOTS
        while self.why == kernels.PIVOTS and pivots < MOST_PIVOTS * len(self.basis):
            done, self.why = kernels.descend(
                rows.A, rows.beta, rows.n, self.inverse, self.basis, self.cost, self.used, self.x, REFRESH,
                self.limits.none,
            )  # fmt: skip
            pivots += done
            if self.why == kernels.PIVOTS and self._correct_inverse() > SPOILED:
                self.why = kernels.LOST
        self.done = self.why in (kernels.LOW, kernels.LOST)
        if self.why != kernels.LOST:
            self._refine()
        np.clip(self.x, -1, 1, out=self.x)

    def _columns(self) -> np.ndarray:
        """The basis, a row for each of its columns."""
        columns = np.zeros_like(self.inverse)
        is_row = self.basis >= 0
        columns[is_row, :-1] = self.rows.A[self.basis[is_row]]
        columns[is_row, -1] = 1.0
        places = np.flatnonzero(~is_row)
        coordinates = -self.basis[places] - 1
        columns[places, coordinates] = np.sign(self.inverse[places, coordinates])  # p or q: the inverse's own row says
        return columns

    def _correct_inverse(self) -> float:
        """One Newton step; gives how far the inverse was off."""
        off = self.inverse @ self._columns().T - np.eye(len(self.basis))
        self.inverse -= off @ self.inverse
        return float(np.abs(off).max())

    def _refine(self) -> None:
        """Prices and weights of the vertex, corrected twice for rounding."""
        columns = self._columns()
        prices, values = self.cost @ self.inverse, self.inverse[:, -1].copy()
        for _ in range(2):
            prices += (self.cost - columns @ prices) @ self.inverse
            missing = -(values @ columns)
            missing[-1] += 1.0
            values += self.inverse @ missing
        self.x[:] = -prices[:-1]
        self.values, self.level, self.objective = values, float(prices[-1]), float(self.cost @ values)

    def absorb(self, scores: np.ndarray) -> None:
        rows = self.rows
        scores += rows.head.shifts / rows.box
        if not self.started:
            rows.begin(scores)
            return
        found, least = rows.take_lowest(scores, self.level - 1e-13, search.rows_a_round(len(self.x)))
        if least > self.best:
            self.best, self.point = least, self.x.copy()
        self.rounds += 1
        settled = self.limits.settled(self.best, self.objective)
        if not found and not settled and self.corrections < MOST_CORRECTIONS:
            self._correct_inverse()  # rounding in the inverse may be all that is left
            self.corrections += 1
            return
        self.done = settled or not found or self.rounds >= search.MOST_ROUNDS

    def vertex(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(places of the working rows, the basis it ended at or None): where a sharper search can begin."""
        return self.rows.labels[: self.rows.n].copy(), self.basis.copy() if self.started else None

    def found(self) -> Found:
        point = self.point if self.best > 0 else None
        if not self.started or self.why == kernels.LOST:
            return Found(point, np.zeros(0, dtype=np.int32), np.zeros(0))
        kept = self.basis >= 0
        return Found(point, *self.rows.multipliers(self.basis[kept], self.values[kept]))
