"""One unit: a few label sets searched side by side, their certificates bounded, verdicts given.

Holds no search and no proof of its own. A function of its arguments alone: nothing is kept from unit to unit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 - the kernels' BLAS, loaded before its threads are counted
from threadpoolctl import threadpool_limits

from xpipe.argmaxability.certificate import REPORTED, bound_radii, judge
from xpipe.argmaxability.chebyshev import ChebyshevSearch
from xpipe.argmaxability.head import Head
from xpipe.argmaxability.nearest import NearestSearch
from xpipe.argmaxability.search import Found, Limits, WorkingRows, run_rounds
from xpipe.argmaxability.verdicts import Verdicts

RELATIVE = 1e-6  # difference of the bounds of an exact radius
ROOM = 1 << 28  # bytes that searches of one unit may hold at a time; more than that are done one group after the other
SQUARES = 8  # matrices of d x d a search holds, or as much
NOTHING = Found(None, np.zeros(0, dtype=np.int32), np.zeros(0))

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS adds up in another order with another number of threads, and units keep all cores busy as it is.

    The limit is one of the process: the first to come sets it, the last to go takes it off.
    """
    global _users, _limit  # noqa: PLW0603
    with _lock:
        if not _users:
            _limit = threadpool_limits(1, "blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _limit.restore_original_limits()


class Unit:
    """The label sets of a unit (indptr, indices) and what is known of them; hints: points to try, in box units."""

    def __init__(
        self, head: Head, indptr: np.ndarray, indices: np.ndarray, limits: Limits, hints: np.ndarray | None = None
    ):
        self.head, self.indptr, self.indices, self.limits = head, indptr, indices, limits
        self.n_sets = len(indptr) - 1
        self.found = [self._dead_label(row) for row in range(self.n_sets)]
        self.lower, self.upper = self._bounds(self.found)
        if hints is not None:
            self._keep_better([NOTHING._replace(point=hint) for hint in hints])

    def verify(self) -> Verdicts:
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
            self._run({row: ChebyshevSearch(head, self._places(row), limits, rows.get(row)) for row in todo})

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
        self._keep_better([searches[row].found() if row in searches else NOTHING for row in range(self.n_sets)])

    def _keep_better(self, found: list[Found]) -> None:
        """Bound what was found, and keep it where it proves more than what was known."""
        lower, upper = self._bounds(found)
        for row, new in enumerate(found):
            old = self.found[row]
            point = new.point if lower[row] > self.lower[row] else old.point
            proof = new if upper[row] < self.upper[row] else old
            self.found[row] = Found(point, proof.labels, proof.multipliers)
        self.lower, self.upper = np.maximum(self.lower, lower), np.minimum(self.upper, upper)

    def _bounds(self, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        head = self.head
        claims = self._state(found, np.zeros(self.n_sets), np.full(self.n_sets, np.inf))
        return bound_radii(head.W, head.bias, head.norms, self.indptr, self.indices, claims, REPORTED)

    def _state(self, found: list[Found], lower: np.ndarray, upper: np.ndarray) -> Verdicts:
        """Verdicts as columns; points in the units of the head, and inside the box whatever the rounding."""
        box = self.limits.box
        points = np.full((self.n_sets, self.head.d), np.nan)
        for row, one in enumerate(found):
            if one.point is not None:
                points[row] = np.clip(one.point * box, -box, box)
        lengths = [len(one.labels) for one in found]
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
