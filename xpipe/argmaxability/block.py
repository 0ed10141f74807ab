"""One block: a few label sets searched together, their certificates bounded, their verdicts decided.

Holds no search and no proof of its own. A pure function of its arguments: nothing passes from block to block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 - the kernels' BLAS, loaded before its threads are counted

from xpipe.argmaxability.certificate import REPORTED, bound_radii, bound_radii_exactly, judge
from xpipe.argmaxability.chebyshev import ChebyshevSearch
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.nearest import NearestSearch
from xpipe.argmaxability.options import Mode
from xpipe.argmaxability.output_layer import OutputLayer
from xpipe.argmaxability.pairs import Pairs
from xpipe.argmaxability.search import Found, WorkingRows, run_rounds
from xpipe.argmaxability.sharp import SharpSearch
from xpipe.argmaxability.verdicts import RELATIVE, Verdicts
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse_rows import row_pointers

ROOM = 1 << 28  # bytes that searches of one block may hold at a time; if they need more, they run in several batches
SQUARES = 8  # matrices of d x d that a search holds, about
NOTHING = Found(None, np.zeros(0, dtype=np.int32), np.zeros(0))

# With more threads BLAS adds up in another order. Several blocks at a time keep all cores busy without them.
one_blas_thread = one_thread_each


def inverses_together(d: int) -> int:
    """How many searches that hold matrices of d x d run at a time."""
    return max(1, ROOM // (SQUARES * 8 * d**2))


class Block:
    """The label sets of a block (indptr, indices) and what is known about each of them.

    Of mode sign: `separation_block` has the other modes. hints: points to try, in box units, one per set; a row of NaN
    is no point.
    """

    mode: Mode = "sign"

    def __init__(
        self,
        layer: OutputLayer,
        indptr: np.ndarray,
        indices: np.ndarray,
        limits: Limits,
        hints: np.ndarray | None = None,
    ):
        self.layer, self.indptr, self.indices, self.limits = layer, indptr, indices, limits
        self.n_sets = len(indptr) - 1
        self.found = [self._constant_label(number) for number in range(self.n_sets)]
        self.lower, self.upper = self._bounds(self.found)
        if not len(layer.real):  # every score is its bias, whatever the input
            hints = np.zeros((self.n_sets, layer.d))
        if hints is not None:
            self._try([NOTHING._replace(point=hint) for hint in hints])

    def verify(self) -> Verdicts:
        """Verdicts on all sets of the block."""
        if len(self.layer.real):
            todo, together = self._unsettled(range(self.n_sets)), self._together()
            for start in range(0, len(todo), together):
                self._search(todo[start : start + together])
        return self._verdicts(self.found, self.lower, self.upper)

    def _try(self, tried: list[Found]) -> None:
        """Keep what certificates from elsewhere prove, one per set."""
        self._keep_better(dict(enumerate(tried)), *self._bounds(tried))

    def _together(self) -> int:
        """How many sets are searched at a time."""
        return inverses_together(self.layer.d)

    def _search(self, batch: Sequence[int]) -> None:
        """Settle the sets of a batch as far as possible."""
        rows: dict[int, WorkingRows] = {}
        todo = self._unsettled(batch)
        if self.layer.bias is None and todo and not self.limits.nonnegative:
            searches = self._first_searches(todo)
            self._run(searches)
            rows = {number: search.rows for number, search in searches.items()}
            todo = self._worth_the_simplex(self._unsettled(batch))
        together = inverses_together(self.layer.d)
        for start in range(0, len(todo), together):
            part = todo[start : start + together]
            exact = {n: ChebyshevSearch(rows.get(n) or self._new_rows(n), self.limits) for n in part}
            self._run(exact)
            self._sharpen(part, exact)

    def _worth_the_simplex(self, numbers: list[int]) -> list[int]:
        """Those of these sets for which the simplex method is tried."""
        return numbers

    def _first_searches(self, numbers: list[int]) -> dict[int, Any]:
        """The searches that settle almost every set of a layer without bias."""
        totals = self.layer.directions.sum(axis=0)
        return {n: NearestSearch(self.layer, self._places(n), self.limits, totals) for n in numbers}

    def _new_rows(self, number: int) -> WorkingRows:
        """Working rows for a search, none so far."""
        return WorkingRows(self.layer, self._places(number), self.limits)

    def _sharper(self, rows: WorkingRows, first: np.ndarray, basis: np.ndarray | None) -> SharpSearch:
        """The search in twice the precision of float64, from where another one ended."""
        return SharpSearch(self.layer, rows.positives, self.limits, rows.sides, first, basis)

    def _sharpen(self, batch: Sequence[int], earlier: dict[int, ChebyshevSearch]) -> None:
        """Settle what float64 leaves open: first by exact bounds, then by a search in twice its precision."""
        todo = self._unsettled(batch)
        if not todo:
            return
        self._keep_better({number: self.found[number] for number in todo}, *self._bounds_exactly(self.found, todo))
        for number in self._unsettled(batch):
            first, vertex = earlier[number].vertex()
            for basis in (vertex, None):  # from where the earlier search ended; if that fails, from the start
                search = self._sharper(earlier[number].rows, first, basis)
                new = search.run()
                found = [new if other == number else NOTHING for other in range(self.n_sets)]
                self._keep_better({number: new}, *self._bounds_exactly(found, [number]))
                if search.at_the_end or not self._unsettled(range(number, number + 1)):
                    break

    def _unsettled(self, batch: Sequence[int]) -> list[int]:
        """Sets of the batch that need another search. Unargmaxable sets are settled in either mode."""
        lower, upper, eps = self.lower, self.upper, self.limits.eps
        if self.limits.exact:
            finite = np.where(np.isfinite(lower), lower, 0.0)
            known = np.isfinite(upper) & (upper - finite <= RELATIVE * upper)
            settled = (lower > eps) & (known | np.isinf(lower))
        else:
            settled = (lower >= 1) | ((lower > eps) & (upper < 1))
        return [number for number in batch if not settled[number] and upper[number] >= eps]

    def _run(self, searches: dict[int, Any]) -> None:
        """Run searches to their end and keep what they found."""
        run_rounds(self.layer, list(searches.values()))
        found = {number: search.found() for number, search in searches.items()}
        self._keep_better(found, *self._bounds([found.get(number, NOTHING) for number in range(self.n_sets)]))

    def _keep_better(self, found: dict[int, Found], lower: np.ndarray, upper: np.ndarray) -> None:
        """Keep new certificates of some sets where their bounds (given for all sets) prove more than was known."""
        for number, new in found.items():
            old = self.found[number]
            by_point = new if lower[number] > self.lower[number] else old
            proof = new if upper[number] < self.upper[number] else old
            self.found[number] = Found(
                by_point.point, proof.labels, proof.multipliers, by_point.point_tail, proof.multiplier_tails
            )
        self.lower, self.upper = np.maximum(self.lower, lower), np.minimum(self.upper, upper)

    def _bounds(self, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) radius of every set that the certificates prove in float64."""
        layer = self.layer
        return bound_radii(
            layer.W, layer.bias, layer.norms, self.indptr, self.indices, self._unjudged(found), caution=REPORTED
        )

    def _bounds_exactly(self, found: list[Found], numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) radius of some sets that the certificates prove in exact arithmetic."""
        layer = self.layer
        return bound_radii_exactly(layer.W, layer.bias, self.indptr, self.indices, self._unjudged(found), numbers)

    def _unjudged(self, found: list[Found]) -> Verdicts:
        """The certificates as columns, with nothing known about the radii yet."""
        return self._verdicts(found, np.zeros(self.n_sets), np.full(self.n_sets, np.inf))

    def _verdicts(self, found: list[Found], lower: np.ndarray, upper: np.ndarray) -> Verdicts:
        """Verdicts as columns; points in the units of the layer's inputs."""
        points, point_tails = self._scaled_points(found)
        tails = [np.zeros(len(one.labels)) if one.multiplier_tails is None else one.multiplier_tails for one in found]
        multiplier_tails = np.concatenate([NOTHING.multipliers, *tails])
        return Verdicts(
            codes=judge(lower, upper, self.limits.eps),
            radius_lower=lower,
            radius_upper=upper,
            points=points,
            multiplier_ptr=row_pointers([len(one.labels) for one in found]),
            multiplier_labels=np.concatenate([NOTHING.labels, *(one.labels for one in found)]),
            multipliers=np.concatenate([NOTHING.multipliers, *(one.multipliers for one in found)]),
            eps=self.limits.eps,
            box=self.limits.box,
            point_tails=point_tails if point_tails.any() else None,
            multiplier_tails=multiplier_tails if multiplier_tails.any() else None,
            mode=self.mode,
            inputs="nonnegative" if self.limits.nonnegative else "any",
        )

    def _scaled_points(self, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        """(points, their tails) times the box. Rounding never puts a point outside the box."""
        box, d, low = self.limits.box, self._n_inputs(), self.limits.floor * self.limits.box
        points, tails = np.full((self.n_sets, d), np.nan), np.zeros((self.n_sets, d))
        for number, one in enumerate(found):
            if one.point is not None:
                points[number] = np.clip(one.point * box, low, box)
            if one.point is not None and one.point_tail is not None:
                exact = Pairs(one.point, one.point_tail) * Pairs.of(np.full(d, box))
                inside = (exact.high > low) & (exact.high < box)
                points[number] = np.where(inside, exact.high, np.clip(exact.high, low, box))
                tails[number] = np.where(inside, exact.low, 0.0)
        return points, tails

    def _n_inputs(self) -> int:
        """The number of inputs of the layer."""
        return int(self.layer.d)

    def _own(self, number: int) -> np.ndarray:
        """The labels of a set."""
        return self.indices[self.indptr[number] : self.indptr[number + 1]]

    def _places(self, number: int) -> np.ndarray:
        """Positions of a set's labels in `layer.real`; labels whose weights are all zero are left out."""
        places: np.ndarray = self.layer.place[self._own(number)]
        return np.asarray(places[places >= 0])

    def _constant_label(self, number: int) -> Found:
        """Proof from a label whose weights are all zero: its score is its bias, which has not the wanted sign."""
        layer = self.layer
        constant = np.flatnonzero(layer.place < 0)
        if not len(constant):
            return NOTHING
        signs = np.where(np.isin(constant, self._own(number)), 1.0, -1.0)
        wrong = constant if layer.bias is None else constant[signs * layer.bias[constant] <= 0]
        return Found(None, wrong[:1].astype(np.int32), np.ones(len(wrong[:1])))
