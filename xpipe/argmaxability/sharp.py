"""The search for the radius of a label set in twice the precision of float64, for the few sets float64 leaves open.

Holds no proof. The same simplex method on the dual as `_simplex_numba`, over `Pairs`, with columns scaled to one size,
so that columns of 1e-12 and of 1e12 make no difference. In box units, with c_j the size of column j:
maximise t with a_i.x + beta_i >= t and -low_j <= x_j <= high_j, where a_ij = y_i w_ij / (||w_i|| c_j). low_j and high_j
are c_j times the box of the working rows, so mostly c_j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.argmaxability._simplex_numba import Sides
from xpipe.argmaxability.lifted import LiftedLayer, LiftedRows
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.pairs import Pairs, product, times, transposed
from xpipe.argmaxability.search import Found, rows_per_round

ROUNDING = 1e-28  # error of a sum, relative to the sizes of its terms
CLOSE = 1e-9  # relative: smaller gains are left at the end
MOST_PIVOTS = 60  # per column of the basis
MOST_ROUNDS = 200
STALLED = 30  # after so many pivots without gain, the first row enters instead of the best: this cannot cycle
NEWTON = 4  # Newton steps that bring an inverse of float64 to twice the precision
NO_PIVOT = 1e-20  # relative to the largest change: too small to divide by


class SharpSearch:
    """The search of one set. Labels are given by their position in `OutputLayer.real`.

    positives: the labels of the set. first: labels to begin with, those an earlier search worked with. basis: where
    that search ended, or None.
    """

    def __init__(
        self,
        layer: Any,
        positives: np.ndarray,
        limits: Limits,
        sides: Sides,
        first: np.ndarray,
        basis: np.ndarray | None,
    ):
        self.layer, self.limits, self.d = layer, limits, layer.d
        self.signs = np.full(len(layer.real), -1.0)
        self.signs[positives] = 1.0
        columns = self._largest_of_columns()
        self.size = np.ldexp(1.0, np.where(columns > 0, np.frexp(columns)[1], 0).astype(np.int32))
        self.low, self.high = sides.low * self.size, sides.high * self.size
        self.places, self.first_basis = np.zeros(0, dtype=np.int64), basis
        none = Pairs.of(np.zeros(0))
        self.A, self.beta, self.norms = Pairs.of(np.zeros((0, layer.d))), none, none
        self.best, self.point, self.objective = -np.inf, none, np.inf
        self.at_the_end = False  # after `run`: whether it ended at the optimum, so that another start cannot help
        self._add(first if len(first) else np.arange(min(len(layer.real), layer.d + 1)))

    def _largest_of_columns(self) -> np.ndarray:
        """The largest number of each column of the scaled weights, about."""
        return np.asarray(np.abs(self.layer.directions).max(axis=0))

    def _margins(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(margins of all labels at the input u in box units, how far rounding may be off)."""
        layer = self.layer
        shifts = layer.shifts / self.limits.box
        margins = self.signs * (layer.directions @ u + shifts)
        error = 4 * (layer.d + 16) * 2.0**-53 * (np.abs(layer.directions) @ np.abs(u) + np.abs(shifts))
        return margins, error

    def _rows_of(self, places: np.ndarray) -> tuple[Pairs, Pairs, Pairs]:
        """(scaled rows, shifts, norms) of some labels."""
        labels = self.layer.real[places]
        W = Pairs.of(self.layer.W[labels])
        norms = (W * W).sum().root()
        signs = self.signs[places]
        A = (W / norms[:, None]).scaled(signs[:, None] / self.size)
        bias = np.zeros(len(labels)) if self.layer.bias is None else self.layer.bias[labels]
        beta = (Pairs.of(bias) / (norms * Pairs.of(np.full(len(labels), self.limits.box)))).scaled(signs)
        return A, beta, norms

    def _add(self, places: np.ndarray) -> None:
        """Add the rows of some labels to the working rows."""
        more = self._rows_of(places)
        self.A, self.beta, self.norms = (
            Pairs(np.concatenate([old.high, new.high]), np.concatenate([old.low, new.low]))
            for old, new in zip((self.A, self.beta, self.norms), more, strict=True)
        )
        self.places, self.reach = np.concatenate([self.places, places]), np.abs(self.A.high)

    def run(self) -> Found:
        """Search to the end."""
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
        """Begin with one row of weight 1, and |row_j| on every coordinate."""
        d = self.d
        slot = int(np.argmin(self.beta.high))
        row = self.A[slot]
        signs = np.where(row.high >= 0, -1.0, 1.0)
        self.inverse = Pairs.of(np.zeros((d + 1, d + 1)))
        self.inverse.high[np.arange(d), np.arange(d)] = signs
        self.inverse[:d, d] = row.scaled(-signs)
        self.inverse.high[d, d] = 1.0
        self.basis = np.append(-np.arange(1, d + 1), slot)
        self.columns = Pairs.of(np.zeros((d + 1, d + 1)))  # the columns of the basis, one per row
        self.columns.high[np.arange(d), np.arange(d)] = signs
        self.columns[d] = self._column(slot)
        costs = np.where(signs < 0, self.high, self.low)
        self.cost = Pairs(np.append(costs, self.beta.high[slot]), np.append(np.zeros(d), self.beta.low[slot]))

    def _start_at(self, basis: np.ndarray) -> bool:
        """Begin at the basis of an earlier search, its inverse sharpened by Newton steps; False if that fails."""
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
        high[~is_row], low[~is_row] = self.low[coordinates], 0.0
        self.cost = Pairs(high, low)
        return self._repair()

    def _repair(self) -> bool:
        """Replace rows of negative weight, left by rounding, by coordinates. Returns False if some remain."""
        for _ in range(len(self.basis)):
            self._price()
            negative = self.weights.high < 0
            flipped = np.flatnonzero(negative & (self.basis < 0))  # p_j instead of q_j, or the other way round
            for sides in (self.inverse, self.columns, self.weights):
                sides[flipped] = -sides[flipped]
            self._swap_costs(flipped)
            places = np.flatnonzero(negative & (self.basis >= 0))
            if not len(places):
                return True
            free = np.setdiff1d(np.arange(self.d), -self.basis[self.basis < 0] - 1)
            if not len(free):
                return False
            j = int(free[np.argmax(np.abs(self.inverse.high[places[0], free]))])
            column = Pairs.of(np.zeros(len(self.basis)))
            column.high[j] = 1.0
            self._replace(int(places[0]), self.inverse[:, j].copy(), column, -(j + 1), Pairs.of(self.low[j]))
        return False

    def _swap_costs(self, places: np.ndarray) -> None:
        """Make p_j of q_j, or the other way round, in the costs of some places of the basis."""
        coordinates = -self.basis[places] - 1
        self.cost.high[places] = self.low[coordinates] + self.high[coordinates] - self.cost.high[places]

    def _column(self, slot: int) -> Pairs:
        """The column of a working row: its weights, then a 1."""
        return Pairs(np.append(self.A.high[slot], 1.0), np.append(self.A.low[slot], 0.0))

    def _price(self) -> None:
        """Compute x, t, weights and objective of the basis, with one correction for a nearly singular inverse."""
        backward, forward = transposed(self.inverse), transposed(self.columns)
        prices, weights = times(backward, self.cost), self.inverse[:, -1]
        prices += times(backward, self.cost - times(self.columns, prices))
        missing = -times(forward, weights)
        missing[-1] += Pairs.of(1.0)
        self.weights = weights + times(self.inverse, missing)
        self.x, self.t = -prices[:-1], prices[-1]
        self.objective = float((self.cost * self.weights).sum().high)

    def _descend(self) -> bool:
        """Pivot until the working rows leave nothing to gain. Returns False if that is not reached, or not needed."""
        stalled, last = 0, np.inf
        for _ in range(MOST_PIVOTS * (self.d + 1)):
            self._price()
            if self.objective < self.limits.none:
                return False
            stalled = 0 if self.objective < last * (1 - 1e-14) else stalled + 1
            last = min(last, self.objective)
            entering, slope = self._find_entering(take_first=stalled > STALLED)
            if entering < 0:
                return True
            if not self._pivot(entering, slope):
                return False
        return False

    def _find_entering(self, take_first: bool) -> tuple[int, float]:
        """(number of the row, or of the coordinate after them, that enters; its slope); -1 where none gains."""
        x = np.abs(self.x.high)
        gains = self.A.high @ self.x.high + self.beta.high - self.t.high
        slack = np.minimum(self.high - self.x.high, self.low + self.x.high)
        reach = self.reach @ x + np.abs(self.beta.high) + abs(float(self.t.high))
        gains[self.basis[self.basis >= 0]] = slack[-self.basis[self.basis < 0] - 1] = np.inf
        error = 4 * (self.d + 16) * 2.0**-53 * reach
        near = np.flatnonzero(gains < error)  # float64 sees a gain, or cannot decide
        gains[near] = (times(self.A[near], self.x) + self.beta[near] - self.t[None]).high
        slopes = np.concatenate([gains, slack])
        floor = CLOSE * abs(self.objective)
        low = slopes < -np.maximum(ROUNDING * np.concatenate([reach, x]), floor)
        if not low.any():
            return -1, 0.0
        entering = int(np.flatnonzero(low)[0] if take_first else np.argmin(np.where(low, slopes, np.inf)))
        return entering, float(slopes[entering])

    def _pivot(self, entering: int, slope: float) -> bool:
        """Bring a working row, or a coordinate, into the basis. Returns False if nothing can leave it."""
        n_rows, d = len(self.places), self.d
        if entering < n_rows:
            column, name, cost = self._column(entering), entering, self.beta[entering]
        else:
            j = entering - n_rows
            upwards = self.high[j] - self.x.high[j] < self.low[j] + self.x.high[j]
            column, name = Pairs.of(np.zeros(d + 1)), -(j + 1)
            cost = Pairs.of(self.high[j] if upwards else self.low[j])
            column.high[j] = -1.0 if upwards else 1.0
        change = times(self.inverse, column)
        places = np.flatnonzero(change.high > NO_PIVOT * np.abs(change.high).max())
        ratios = self.weights[places] / change[places]
        ratios[ratios.high < 0] = Pairs.of(0.0)
        leaving = -1
        for place in places[np.lexsort((-change.high[places], ratios.low, ratios.high))].tolist():
            coordinate = -self.basis[place] - 1
            width = self.low[coordinate] + self.high[coordinate] if coordinate >= 0 else 0.0
            if coordinate < 0 or slope + width * change.high[place] >= 0:
                leaving = place
                break
            slope += float(width * change.high[place])  # v_j passes through 0
            self._swap_costs(np.array([place]))
            for flipped in (self.inverse, self.columns, change):
                flipped[place] = -flipped[place]
        if leaving < 0:
            return False
        self._replace(leaving, change, column, name, cost)
        return True

    def _replace(self, leaving: int, change: Pairs, column: Pairs, name: int, cost: Pairs) -> None:
        """Put a column at a place of the basis. change: the column in terms of the basis."""
        row = self.inverse[leaving] / change[leaving][None]
        change.high[leaving] = change.low[leaving] = 0.0
        self.inverse = self.inverse - Pairs(change.high[:, None], change.low[:, None]) * row[None, :]
        self.inverse[leaving] = row
        self.basis[leaving] = name
        self.columns[leaving], self.cost[leaving] = column, cost

    def _look(self) -> bool:
        """Score all labels, keep the point if it is the best, add rows that were missed. Returns whether to go on."""
        t = float(self.t.high)
        outside = (self.x.high > self.high) | (self.x.high < -self.low)
        nearest = np.clip(self.x.high, -self.low, self.high)
        x = Pairs(np.where(outside, nearest, self.x.high), np.where(outside, 0, self.x.low))
        margins, error = self._margins(x.high / self.size)
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
        self._add(np.sort(missed[by[: rows_per_round(self.d)]]))
        return True

    def _found(self) -> Found:
        """The best point and the multipliers of the last basis."""
        kept = np.flatnonzero((self.basis >= 0) & (self.weights.high > 0))
        slots = self.basis[kept]
        multipliers = self.weights[kept] / self.norms[slots]
        labels = self.layer.real[self.places[slots]]
        order = np.argsort(labels)
        multipliers = multipliers[order]
        point, tail = None, None
        if self.best > 0:
            whole = self.point.scaled(1 / self.size)
            point, tail = self._input_of(whole.high), self._input_of(whole.low)
        return Found(point, labels[order].astype(np.int32), multipliers.high, tail, multipliers.low)

    def _input_of(self, x: np.ndarray) -> np.ndarray:
        """The input that x stands for."""
        return x


class SharpSeparation(SharpSearch):
    """The same for modes topk and argmax: rows of a `LiftedLayer`, moved by `centre`, with a threshold."""

    layer: LiftedLayer

    def __init__(self, rows: LiftedRows, limits: Limits, first: np.ndarray, basis: np.ndarray | None):
        self.centre = rows.centre
        super().__init__(rows.lifted, rows.positives, limits, rows.sides, first, basis)

    def _largest_of_columns(self) -> np.ndarray:
        largest = np.zeros(self.d)
        for _, block in self.layer.rows.blocks():
            np.maximum(largest[:-1], np.abs(block - self.centre).max(axis=0), out=largest[:-1])
        largest /= self.layer.largest
        largest[-1] = 0.5  # so that the threshold is not scaled
        return largest

    def _margins(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        layer = self.layer
        shifts = layer.shifts / self.limits.box
        scores = layer.scores(u[None])[0] - (self.centre @ u[:-1] / layer.largest + u[-1]) + shifts
        reach = 3 * np.abs(u[:-1]).sum() + np.abs(u[-1]) + np.abs(shifts)
        return self.signs * scores, 4 * (self.d + 16) * 2.0**-53 * reach

    def _rows_of(self, places: np.ndarray) -> tuple[Pairs, Pairs, Pairs]:
        layer, n = self.layer, len(places)
        signs = self.signs[places]
        moved = Pairs.of(layer.weights_of(places)) - Pairs.of(np.broadcast_to(self.centre, (n, self.d - 1)).copy())
        moved = moved / Pairs.of(np.full((n, 1), layer.largest))
        A = Pairs(np.column_stack([moved.high, np.full(n, -1.0)]), np.column_stack([moved.low, np.zeros(n)])).scaled(
            signs[:, None] / self.size
        )
        bias = np.zeros(n) if layer.bias is None else layer.bias[places]
        scale = Pairs.of(np.full(n, layer.largest)) * Pairs.of(np.full(n, self.limits.box))
        return A, (Pairs.of(bias) / scale).scaled(signs), Pairs.of(np.ones(n))

    def _input_of(self, x: np.ndarray) -> np.ndarray:
        return x[:-1]
