"""The search for the radius of a label set: the simplex method on the dual of its Chebyshev LP.

For sets that the nearest point leaves open, for exact radii, and for layers with bias. Holds no proof.
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability import _simplex_numba as kernels
from xpipe.argmaxability import search
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.search import Found, WorkingRows

REFRESH = 128  # pivots between two corrections of the inverse
SPOILED = 1e-3  # a larger error of the inverse before a correction ends the search
MOST_PIVOTS = 300  # per column of the basis, in one round
MOST_CORRECTIONS = 3  # of the inverse, when no rows are left to add


class ChebyshevSearch:
    """The radius itself, by the simplex method. rows: empty, or those that an earlier search worked with."""

    def __init__(self, rows: WorkingRows, limits: Limits):
        d = rows.d
        self.rows, self.limits, self.done = rows, limits, False
        self.x, self.started = np.zeros(d), False
        self.basis = kernels.Basis(
            names=np.empty(d + 1, dtype=np.int64), inverse=np.empty((d + 1, d + 1)), cost=np.empty(d + 1)
        )
        self.values, self.used = np.zeros(d + 1), np.zeros(0, dtype=bool)
        self.best, self.point, self.rounds, self.corrections = -np.inf, np.zeros(0), 0, 0

    def _start(self) -> None:
        """Begin at the vertex of the row with the lowest shift."""
        rows = self.rows
        lowest = int(np.argmin(rows.beta[: rows.n]))
        kernels.start_at(rows.A[lowest], rows.beta[lowest], lowest, self.basis, rows.sides)
        self.used = np.zeros(rows.n, dtype=bool)
        self.used[lowest] = self.started = True

    def advance(self) -> None:
        if not self.rows.n:  # nothing to solve before all labels were scored once
            return
        if not self.started:
            self._start()
        rows = self.rows
        self.used = np.concatenate([self.used, np.zeros(rows.n - len(self.used), dtype=bool)])
        pivots, self.why = 0, kernels.PIVOTS
        while self.why == kernels.PIVOTS and pivots < MOST_PIVOTS * len(self.basis.names):
            done, self.why = kernels.descend(
                rows.A, rows.beta, rows.n, self.basis, rows.sides, self.used, self.x, REFRESH, self.limits.none
            )
            pivots += done
            if self.why == kernels.PIVOTS and self._correct_inverse() > SPOILED:
                self.why = kernels.LOST
        self.done = self.why in (kernels.LOW, kernels.LOST)
        if self.why != kernels.LOST:
            self._refine()
        np.clip(self.x, -rows.sides.low, rows.sides.high, out=self.x)

    def _columns(self) -> np.ndarray:
        """The columns of the basis, one per row of the result."""
        names, inverse = self.basis.names, self.basis.inverse
        columns = np.zeros_like(inverse)
        is_row = names >= 0
        columns[is_row, :-1] = self.rows.A[names[is_row]]
        columns[is_row, -1] = 1.0
        places = np.flatnonzero(~is_row)
        coordinates = -names[places] - 1
        columns[places, coordinates] = np.sign(inverse[places, coordinates])  # p or q: the sign in the inverse says
        return columns

    def _correct_inverse(self) -> float:
        """One Newton step on the inverse. Returns its largest error before the step."""
        inverse = self.basis.inverse
        error = inverse @ self._columns().T - np.eye(len(inverse))
        inverse -= error @ inverse
        return float(np.abs(error).max())

    def _refine(self) -> None:
        """Prices and weights of the vertex, corrected twice for rounding."""
        inverse, cost, columns = self.basis.inverse, self.basis.cost, self._columns()
        prices, values = cost @ inverse, inverse[:, -1].copy()
        for _ in range(2):
            prices += (cost - columns @ prices) @ inverse
            missing = -(values @ columns)
            missing[-1] += 1.0
            values += inverse @ missing
        self.x[:] = -prices[:-1]
        self.values, self.level, self.objective = values, float(prices[-1]), float(cost @ values)

    def absorb(self, scores: np.ndarray) -> None:
        rows = self.rows
        rows.complete(scores, self.x)
        scores += rows.layer.shifts / rows.box
        if not self.started:
            rows.begin(scores)
            return
        added, least = rows.take_lowest(scores, self.level - 1e-13, rows.rows_per_round())
        if least > self.best:
            self.best, self.point = least, self.x.copy()
        self.rounds += 1
        settled = self.limits.settled(self.best, self.objective)
        if not added and not settled and self.corrections < MOST_CORRECTIONS:
            self._correct_inverse()  # rounding in the inverse may be all that is left
            self.corrections += 1
            return
        self.done = settled or not added or self.rounds >= search.MOST_ROUNDS

    def vertex(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(labels of the working rows, the basis at the end or None): where a sharper search can begin."""
        return self.rows.labels[: self.rows.n].copy(), self.basis.names.copy() if self.started else None

    def found(self) -> Found:
        """The best point and the multipliers so far."""
        point = self.rows.input_of(self.point) if self.best > 0 else None
        if not self.started or self.why == kernels.LOST:
            return Found(point, np.zeros(0, dtype=np.int32), np.zeros(0))
        kept = self.basis.names >= 0
        return Found(point, *self.rows.multipliers(self.basis.names[kept], self.values[kept]))
