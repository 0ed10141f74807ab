"""One unit: a few label sets searched side by side, their certificates bounded, verdicts given.

Holds no search and no proof of its own. A function of its arguments alone: nothing is kept from unit to unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 - the kernels' BLAS, loaded before its threads are counted

from xpipe.argmaxability.certificate import REPORTED, bound_radii, bound_radii_exactly, judge
from xpipe.argmaxability.chebyshev import ChebyshevSearch
from xpipe.argmaxability.head import Head
from xpipe.argmaxability.nearest import NearestSearch
from xpipe.argmaxability.pairs import Pairs
from xpipe.argmaxability.search import Found, Limits, WorkingRows, run_rounds
from xpipe.argmaxability.sharp import SharpSearch
from xpipe.argmaxability.verdicts import RELATIVE, Verdicts
from xpipe.ground.library_threads import one_thread_each

ROOM = 1 << 28  # bytes that searches of one unit may hold at a time; more than that are done one group after the other
SQUARES = 8  # matrices of d x d a search holds, or as much
NOTHING = Found(None, np.zeros(0, dtype=np.int32), np.zeros(0))

one_blas_thread = one_thread_each  # BLAS adds up in another order with more, and units keep all cores busy as it is


class Unit:
    """The label sets of a unit (indptr, indices) and what is known of them; hints: points to try, in box units."""

    def __init__(
        self, head: Head, indptr: np.ndarray, indices: np.ndarray, limits: Limits, hints: np.ndarray | None = None
    ):
        self.head, self.indptr, self.indices, self.limits = head, indptr, indices, limits
        self.n_sets = len(indptr) - 1
        self.found = [self._dead_label(row) for row in range(self.n_sets)]
        self.lower, self.upper = self._bounds(self.found)
        if not len(head.real):  # scores are biases, whatever the input
            hints = np.zeros((self.n_sets, head.d))
        if hints is not None:
            tried = [NOTHING._replace(point=hint) for hint in hints]
            self._keep_better(dict(enumerate(tried)), *self._bounds(tried))

    def verify(self) -> Verdicts:
        if not len(self.head.real):
            return self._state(self.found, self.lower, self.upper)
        together = max(1, ROOM // (SQUARES * 8 * self.head.d**2))
        for start in range(0, self.n_sets, together):
            self._search(range(start, min(start + together, self.n_sets)))
        return self._state(self.found, self.lower, self.upper)

    def _search(self, group: range) -> None:
        """Settle the sets of a group as far as it can be done."""
        head, limits = self.head, self.limits
        rows: dict[int, WorkingRows] = {}
        todo = self._unsettled(group)
        if head.bias is None and todo:
            totals = head.directions.sum(axis=0)
            searches = {row: NearestSearch(head, self._places(row), limits, totals) for row in todo}
            self._run(searches)
            rows = {row: search.rows for row, search in searches.items()}
            todo = self._unsettled(group)
        if todo:
            exact = {row: ChebyshevSearch(head, self._places(row), limits, rows.get(row)) for row in todo}
            self._run(exact)
            self._sharpen(group, exact)

    def _sharpen(self, group: range, earlier: dict[int, ChebyshevSearch]) -> None:
        """What float64 leaves open: its certificates bounded exactly, then a search in twice its precision."""
        todo = self._unsettled(group)
        if not todo:
            return
        self._keep_better({row: self.found[row] for row in todo}, *self._bounds_exactly(self.found, todo))
        for row in self._unsettled(group):
            first, vertex = earlier[row].vertex()
            for basis in (vertex, None):  # where the earlier search ended, if that leads anywhere
                search = SharpSearch(self.head, self._places(row), self.limits, first, basis)
                new = search.run()
                found = [new if other == row else NOTHING for other in range(self.n_sets)]
                self._keep_better({row: new}, *self._bounds_exactly(found, [row]))
                if search.at_the_end or not self._unsettled(range(row, row + 1)):
                    break

    def _unsettled(self, group: range) -> list[int]:
        """Sets of the group that need another search: what is unargmaxable is settled in either mode."""
        lower, upper, eps = self.lower, self.upper, self.limits.eps
        if self.limits.exact:
            settled = (lower > eps) & (upper - lower <= RELATIVE * upper)
        else:
            settled = (lower >= 1) | ((lower > eps) & (upper < 1))
        return [row for row in group if not settled[row] and upper[row] >= eps]

    def _run(self, searches: dict[int, Any]) -> None:
        """Take searches to their end and keep what they found."""
        run_rounds(self.head, list(searches.values()))
        found = {row: search.found() for row, search in searches.items()}
        self._keep_better(found, *self._bounds([found.get(row, NOTHING) for row in range(self.n_sets)]))

    def _keep_better(self, found: dict[int, Found], lower: np.ndarray, upper: np.ndarray) -> None:
        """Keep what was found for some sets where its bounds (of all sets) prove more than was known."""
        for row, new in found.items():
            old = self.found[row]
            by_point = new if lower[row] > self.lower[row] else old
            proof = new if upper[row] < self.upper[row] else old
            self.found[row] = Found(
                by_point.point, proof.labels, proof.multipliers, by_point.point_tail, proof.multiplier_tails
            )
        self.lower, self.upper = np.maximum(self.lower, lower), np.minimum(self.upper, upper)

    def _bounds(self, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        head = self.head
        return bound_radii(
            head.W, head.bias, head.norms, self.indptr, self.indices, self._unjudged(found), caution=REPORTED
        )

    def _bounds_exactly(self, found: list[Found], rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
        head = self.head
        return bound_radii_exactly(head.W, head.bias, self.indptr, self.indices, self._unjudged(found), rows)

    def _unjudged(self, found: list[Found]) -> Verdicts:
        return self._state(found, np.zeros(self.n_sets), np.full(self.n_sets, np.inf))

    def _state(self, found: list[Found], lower: np.ndarray, upper: np.ndarray) -> Verdicts:
        """Verdicts as columns; points in the units of the head, and inside the box whatever the rounding."""
        box = self.limits.box
        points, point_tails = np.full((self.n_sets, self.head.d), np.nan), np.zeros((self.n_sets, self.head.d))
        for row, one in enumerate(found):
            if one.point is not None:
                points[row] = np.clip(one.point * box, -box, box)
            if one.point is not None and one.point_tail is not None:
                exact = Pairs(one.point, one.point_tail) * Pairs.of(np.full(self.head.d, box))
                inside = np.abs(exact.high) < box
                points[row] = np.where(inside, exact.high, np.sign(exact.high) * box)
                point_tails[row] = np.where(inside, exact.low, 0.0)
        lengths = [len(one.labels) for one in found]
        tails = [np.zeros(len(one.labels)) if one.multiplier_tails is None else one.multiplier_tails for one in found]
        multiplier_tails = np.concatenate([NOTHING.multipliers, *tails])
        return Verdicts(
            codes=judge(lower, upper, self.limits.eps),
            radius_lower=lower,
            radius_upper=upper,
            points=points,
            multiplier_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            multiplier_labels=np.concatenate([NOTHING.labels, *(one.labels for one in found)]),
            multipliers=np.concatenate([NOTHING.multipliers, *(one.multipliers for one in found)]),
            eps=self.limits.eps,
            box=box,
            point_tails=point_tails if point_tails.any() else None,
            multiplier_tails=multiplier_tails if multiplier_tails.any() else None,
        )

    def _places(self, row: int) -> np.ndarray:
        """Places of the set's labels among the rows that are not all zeros."""
        places = self.head.place[self.indices[self.indptr[row] : self.indptr[row + 1]]]
        return places[places >= 0]

    def _dead_label(self, row: int) -> Found:
        """Proof from a label with weights of zero whose score, its bias, never has the wanted sign."""
        head = self.head
        dead = np.flatnonzero(head.place < 0)
        if not len(dead):
            return NOTHING
        signs = np.where(np.isin(dead, self.indices[self.indptr[row] : self.indptr[row + 1]]), 1.0, -1.0)
        wrong = dead if head.bias is None else dead[signs * head.bias[dead] <= 0]
        return Found(None, wrong[:1].astype(np.int32), np.ones(len(wrong[:1])))
