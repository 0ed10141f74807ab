"""The search for a direction that puts the rows of a set above all others, or for two mixtures that are one point.

For modes topk and argmax without bias. Holds no proof. Wolfe's nearest point of the hull of the lifted rows: where it
is not 0 it is a direction (x, t) that separates both sides; 0 is a mixture of the set's rows that equals one of others.
"""

from __future__ import annotations

import numpy as np

from xpipe.argmaxability import _nearest_numba as kernels
from xpipe.argmaxability import search
from xpipe.argmaxability.lifted import LiftedLayer, LiftedRows
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.nearest import CLOSE
from xpipe.argmaxability.search import Found

FIRST_PLACES = 64  # of the support; it grows where a set needs more


class SeparationSearch:
    """The search of one set, for inputs of any sign. positives: the labels of the set, not empty and not all."""

    def __init__(self, layer: LiftedLayer, positives: np.ndarray, limits: Limits):
        self.rows, self.limits, self.done = LiftedRows(layer, positives, limits), limits, False
        self.x = np.append((self.rows.centre - layer.mean) / layer.largest, 0.0)
        self.support = _places(min(layer.d + 2, FIRST_PLACES), layer.d)
        self.size, self.used = 0, np.zeros(0, dtype=bool)
        self.best, self.point, self.rounds = 0.0, np.zeros(0), 0

    def advance(self) -> None:
        rows = self.rows
        if not rows.n:  # nothing to solve before all labels were scored once
            return
        self.used = np.concatenate([self.used, np.zeros(rows.n - len(self.used), dtype=bool)])
        most_steps, why = 50 * len(self.x) + 1000, kernels.FULL
        while why == kernels.FULL:
            self.size, steps, why = kernels.approach(
                rows.A, rows.n, self.size, self.support, self.used, self.x, most_steps, self._small(), CLOSE
            )
            most_steps -= steps
            if why == kernels.FULL:
                self.support = _grown(self.support, min(2 * len(self.support.slots), rows.d + 2))
        self.done = why in (kernels.ZERO, kernels.STUCK)

    def _small(self) -> float:
        """What counts as 0: a difference of the shares' sums moves the mixtures by as much as their side is wide."""
        return self.limits.none / 4

    def absorb(self, scores: np.ndarray) -> None:
        rows = self.rows
        lowest, highest = kernels.find_gap(scores, rows.is_positive)
        reach = float(np.abs(self.x[:-1]).max())
        radius = (lowest - highest) / 2 / reach if reach > 0 else 0.0
        if radius > self.best:
            self.best, self.point = radius, self.x[:-1] / reach
        rows.complete(scores, self.x)
        self.done = self.best >= self.limits.enough
        if self.done:
            return
        if not rows.n:
            rows.begin(scores)
            first = int(np.argmax(scores[rows.labels[: rows.n]]))  # the scores are minus the margins by now
            kernels.start_at(rows.A[first], first, self.support)
            self.used = np.zeros(rows.n, dtype=bool)
            self.used[first] = True
            self.size, self.x = 1, rows.A[first].copy()
            return
        square = float(self.x @ self.x)
        added, _ = rows.take_lowest(scores, square * (1 - CLOSE), rows.rows_per_round())
        self.rounds += 1
        self.done = not added or self.rounds >= search.MOST_ROUNDS

    def found(self) -> Found:
        """The best point and the multipliers so far."""
        point = self.point if len(self.point) else None
        return Found(point, *self.rows.multipliers(self.support.slots[: self.size], self.support.lam[: self.size]))


def _places(count: int, d: int) -> kernels.Support:
    """A support with so many places."""
    return kernels.Support(
        slots=np.empty(count, dtype=np.int64),
        C=np.empty((count, d)),
        lam=np.zeros(count),
        L=np.zeros((count, count)),
        ones=np.zeros(count),
    )


def _grown(old: kernels.Support, count: int) -> kernels.Support:
    """The same support with more places."""
    new = _places(count, old.C.shape[1])
    size = len(old.slots)
    new.slots[:size], new.C[:size], new.lam[:size], new.ones[:size] = old.slots, old.C, old.lam, old.ones
    new.L[:size, :size] = old.L
    return new
