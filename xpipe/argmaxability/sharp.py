"""The search for the radius of a label set in twice the precision of float64, for the few sets that one leaves open.

Holds no proof. The same simplex method on the dual as `_simplex_numba`, over `Pairs`, and with columns scaled to one
size: columns of 1e-12 and of 1e12 are the same to it. In units of the box and with c_j the size of column j:
maximise t with a_i.x + beta_i >= t and |x_j| <= c_j, where a_ij = y_i w_ij / (||w_i|| c_j).
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability.head import Head
from xpipe.argmaxability.pairs import Pairs, product, times, transposed
from xpipe.argmaxability.search import Found, Limits, rows_a_round

ROUNDING = 1e-28  # of the sizes that enter a sum
CLOSE = 1e-9  # relative: what is left to gain at the end
MOST_PIVOTS = 60  # a row of the basis
MOST_ROUNDS = 200
STALLED = 30  # pivots without gain after which rows enter by number: no circle can come of that
NEWTON = 4  # steps that make an inverse of float64 sharp
NO_PIVOT = 1e-20  # of the largest change: too small to divide by


class SharpSearch:
    """One set. first: places of labels to begin with, those an earlier search worked with; basis: where it ended."""

    def __init__(self, head: Head, positives: np.ndarray, limits: Limits, first: np.ndarray, basis: np.ndarray | None):
        self.head, self.limits = head, limits
        self.signs = np.full(len(head.real), -1.0)
        self.signs[positives] = 1.0
        columns = np.abs(head.directions).max(axis=0)
        self.size = np.ldexp(1.0, np.where(columns > 0, np.frexp(columns)[1], 0).astype(np.int32))
        self.places, self.first_basis = np.zeros(0, dtype=np.int64), basis
        none = Pairs.of(np.zeros(0))
        self.A, self.beta, self.norms = Pairs.of(np.zeros((0, head.d))), none, none
        self.best, self.point, self.objective = -np.inf, none, np.inf
        self.at_the_end = False  # after `run`: whether another start would come to nothing else
        self._add(first if len(first) else np.arange(min(len(head.real), head.d + 1)))

    def _rows_of(self, places: np.ndarray) -> tuple[Pairs, Pairs, Pairs]:
        """(scaled rows, shifts, norms) of labels."""
        labels = self.head.real[places]
        W = Pairs.of(self.head.W[labels])
        norms = (W * W).sum().root()
        signs = self.signs[places]
        A = (W / norms[:, None]).scaled(signs[:, None] / self.size)
        bias = np.zeros(len(labels)) if self.head.bias is None else self.head.bias[labels]
        beta = (Pairs.of(bias) / (norms * Pairs.of(np.full(len(labels), self.limits.box)))).scaled(signs)
        return A, beta, norms

    def _add(self, places: np.ndarray) -> None:
        more = self._rows_of(places)
        self.A, self.beta, self.norms = (
            Pairs(np.concatenate([old.high, new.high]), np.concatenate([old.low, new.low]))
            for old, new in zip((self.A, self.beta, self.norms), more, strict=True)
        )
        self.places, self.reach = np.concatenate([self.places, places]), np.abs(self.A.high)

    def run(self) -> Found:
        if self.first_basis is None or not self._start_at(self.first_basis):
            self._start()
        for _ in range(MOST_ROUNDS):
            optimal = self._descend()
            if not optimal or not self._look():
                break
        low = self.objective < self.limits.none
        self.at_the_end = (optimal or low) and float(self.weights.high.min()) >= -ROUNDING
        return self._found()

    def _start(self) -> None:
        """One row of weight 1, and |row_j| on every coordinate."""
        d = self.head.d
        slot = int(np.argmin(self.beta.high))
        row = self.A[slot]
        signs = np.where(row.high >= 0, -1.0, 1.0)
        self.inverse = Pairs.of(np.zeros((d + 1, d + 1)))
        self.inverse.high[np.arange(d), np.arange(d)] = signs
        self.inverse[:d, d] = row.scaled(-signs)
        self.inverse.high[d, d] = 1.0
        self.basis = np.append(-np.arange(1, d + 1), slot)
        self.columns = Pairs.of(np.zeros((d + 1, d + 1)))  # of the basis, a row for each
        self.columns.high[np.arange(d), np.arange(d)] = signs
        self.columns[d] = self._column(slot)
        self.cost = Pairs(np.append(self.size, self.beta.high[slot]), np.append(np.zeros(d), self.beta.low[slot]))

    def _start_at(self, basis: np.ndarray) -> bool:
        """The basis of an earlier search, its inverse made sharp by Newton's method; False where that does not come."""
        m, is_row = len(basis), basis >= 0
        columns = Pairs.of(np.zeros((m, m)))
        for place in np.flatnonzero(is_row):
            columns[place] = self._column(basis[place])
        coordinates = -basis[~is_row] - 1
        columns.high[np.flatnonzero(~is_row), coordinates] = 1.0
        try:
            inverse = Pairs.of(np.linalg.inv(columns.high.T))
        except np.linalg.LinAlgError:
            return False
        for _ in range(NEWTON):
            off = product(inverse, columns)
            off.high[np.arange(m), np.arange(m)] -= 1.0
            wrong = float(np.abs(off.high).max())
            if not wrong < 0.1:
                return False
            inverse = inverse - product(off, transposed(inverse))
        self.inverse, self.columns, self.basis = inverse, columns, basis.copy()
        slots = np.where(is_row, basis, 0)
        high, low = self.beta.high[slots], self.beta.low[slots]
        high[~is_row], low[~is_row] = self.size[coordinates], 0.0
        self.cost = Pairs(high, low)
        return self._repair()

    def _repair(self) -> bool:
        """Replace rows of negative weight, which rounding has left there, by coordinates; False where others follow."""
        for _ in range(len(self.basis)):
            self._price()
            negative = self.weights.high < 0
            flipped = np.flatnonzero(negative & (self.basis < 0))  # p_j instead of q_j, or the other way round
            for sides in (self.inverse, self.columns, self.weights):
                sides[flipped] = -sides[flipped]
            places = np.flatnonzero(negative & (self.basis >= 0))
            if not len(places):
                return True
            free = np.setdiff1d(np.arange(self.head.d), -self.basis[self.basis < 0] - 1)
            if not len(free):
                return False
            j = int(free[np.argmax(np.abs(self.inverse.high[places[0], free]))])
            column = Pairs.of(np.zeros(len(self.basis)))
            column.high[j] = 1.0
            self._replace(int(places[0]), self.inverse[:, j].copy(), column, -(j + 1), Pairs.of(self.size[j]))
        return False

    def _column(self, slot: int) -> Pairs:
        """The column of a working row: a 1 stands below its weights."""
        return Pairs(np.append(self.A.high[slot], 1.0), np.append(self.A.low[slot], 0.0))

    def _price(self) -> None:
        """x, t, weights and objective of the basis, corrected for what a nearly singular inverse has lost."""
        backward, forward = transposed(self.inverse), transposed(self.columns)
        prices, weights = times(backward, self.cost), self.inverse[:, -1]
        prices += times(backward, self.cost - times(self.columns, prices))
        missing = -times(forward, weights)
        missing[-1] += Pairs.of(1.0)
        self.weights = weights + times(self.inverse, missing)
        self.x, self.t = -prices[:-1], prices[-1]
        self.objective = float((self.cost * self.weights).sum().high)

    def _descend(self) -> bool:
        """Pivot until the working rows leave nothing to gain; False where that is not reached, or not needed."""
        d, stalled, last = self.head.d, 0, np.inf
        for _ in range(MOST_PIVOTS * (d + 1)):
            self._price()
            if self.objective < self.limits.none:
                return False
            stalled = 0 if self.objective < last * (1 - 1e-14) else stalled + 1
            last = min(last, self.objective)
            x = np.abs(self.x.high)
            gains = self.A.high @ self.x.high + self.beta.high - self.t.high
            slack = self.size - x
            reach = self.reach @ x + np.abs(self.beta.high) + abs(float(self.t.high))
            gains[self.basis[self.basis >= 0]] = slack[-self.basis[self.basis < 0] - 1] = np.inf
            floor = CLOSE * abs(self.objective)
            near = np.flatnonzero(gains < 4 * (d + 16) * 2.0**-53 * reach)  # where float64 cannot tell, or sees a gain
            gains[near] = (times(self.A[near], self.x) + self.beta[near] - self.t[None]).high
            least = -np.maximum(ROUNDING * np.concatenate([reach, x]), floor)
            low = np.concatenate([gains, slack]) < least
            if not low.any():
                return True
            both = np.where(low, np.concatenate([gains, slack]), np.inf)
            entering = int(np.flatnonzero(low)[0] if stalled > STALLED else np.argmin(both))
            if not self._pivot(entering, float(both[entering])):
                return False
        return False

    def _pivot(self, entering: int, slope: float) -> bool:
        """Bring a working row, or a coordinate after them, into the basis."""
        n_rows, d = len(self.places), self.head.d
        if entering < n_rows:
            column, name, cost = self._column(entering), entering, self.beta[entering]
        else:
            j = entering - n_rows
            column, name, cost = Pairs.of(np.zeros(d + 1)), -(j + 1), Pairs.of(self.size[j])
            column.high[j] = -1.0 if self.x.high[j] > 0 else 1.0
        change = times(self.inverse, column)
        places = np.flatnonzero(change.high > NO_PIVOT * np.abs(change.high).max())
        ratios = self.weights[places] / change[places]
        ratios[ratios.high < 0] = Pairs.of(0.0)
        leaving = -1
        for place in places[np.lexsort((-change.high[places], ratios.low, ratios.high))].tolist():
            coordinate = -self.basis[place] - 1
            if coordinate < 0 or slope + 2 * self.size[coordinate] * change.high[place] >= 0:
                leaving = place
                break
            slope += 2 * float(self.size[coordinate] * change.high[place])  # v_j passes through 0
            for flipped in (self.inverse, self.columns, change):
                flipped[place] = -flipped[place]
        if leaving < 0:
            return False
        self._replace(leaving, change, column, name, cost)
        return True

    def _replace(self, leaving: int, change: Pairs, column: Pairs, name: int, cost: Pairs) -> None:
        """Put a column at a place of the basis; change: the column in terms of the basis."""
        row = self.inverse[leaving] / change[leaving][None]
        change.high[leaving] = change.low[leaving] = 0.0
        self.inverse = self.inverse - Pairs(change.high[:, None], change.low[:, None]) * row[None, :]
        self.inverse[leaving] = row
        self.basis[leaving] = name
        self.columns[leaving], self.cost[leaving] = column, cost

    def _look(self) -> bool:
        """Score all labels, keep the point if it is the best, take in rows that were missed; whether to go on."""
        head, t = self.head, float(self.t.high)
        outside = np.abs(self.x.high) > self.size
        x = Pairs(np.where(outside, np.sign(self.x.high) * self.size, self.x.high), np.where(outside, 0, self.x.low))
        u = x.high / self.size
        shifts = head.shifts / self.limits.box
        margins = self.signs * (head.directions @ u + shifts)
        error = 4 * (head.d + 16) * 2.0**-53 * (np.abs(head.directions) @ np.abs(u) + np.abs(shifts))
        open_ones = np.flatnonzero(margins - error <= t + CLOSE * abs(t))
        if len(open_ones):
            A, beta, _ = self._rows_of(open_ones)
            exact = (times(A, x) + beta).high
            least = float(exact.min())
        else:
            exact, least = np.zeros(0), t
        if least > self.best:
            self.best, self.point = least, x
        if self.limits.settled(self.best, self.objective):
            return False
        new = ~np.isin(open_ones, self.places) & (exact < t)
        if not new.any():
            return False
        missed, by = open_ones[new], np.argsort(exact[new], kind="stable")
        self._add(np.sort(missed[by[: rows_a_round(head.d)]]))
        return True

    def _found(self) -> Found:
        kept = np.flatnonzero((self.basis >= 0) & (self.weights.high > 0))
        slots = self.basis[kept]
        multipliers = self.weights[kept] / self.norms[slots]
        labels = self.head.real[self.places[slots]]
        order = np.argsort(labels)
        multipliers = multipliers[order]
        point, tail = None, None
        if self.best > 0:
            whole = self.point.scaled(1 / self.size)
            point, tail = whole.high, whole.low
        return Found(point, labels[order].astype(np.int32), multipliers.high, tail, multipliers.low)
