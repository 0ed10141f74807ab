"""What certificates are judged by: the weights in the form that a question needs, and the bounds that they prove.

Knows nothing of solvers. `certificate` has the bounds of mode sign, `separation_bounds` those of topk and argmax.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpipe.argmaxability import separation_bounds
from xpipe.argmaxability.rounding import DOUBLE, SINGLE
from xpipe.argmaxability.stored_rows import StoredRows, check_bias, stored_rows
from xpipe.argmaxability.verdicts import Verdicts
from xpipe.ground.sparse_rows import entries_of_rows

SMALL = 1 << 25  # numbers of weights: products of no more than these are in float64 at once


@dataclasses.dataclass(frozen=True)
class RowsEvidence:
    """Weights whose scores are compared with each other. largest: the largest norm of a row, as computed; 1 for 0."""

    rows: StoredRows
    bias: np.ndarray | None
    largest: float

    @classmethod
    def of(cls, W: Any, bias: Any) -> RowsEvidence:
        """Checked weights. Raises DataError."""
        rows = stored_rows(W)
        return cls(rows, check_bias(bias, len(rows)), float(rows.norms().max()) or 1.0)

    @property
    def n_labels(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        """The number of inputs."""
        return self.rows.d

    def bounds(
        self, indptr: np.ndarray, indices: np.ndarray, verdicts: Verdicts, caution: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) radius of every set that its point and multipliers prove in float64; tails are ignored.

        The verdicts must be well-formed, and of mode topk or argmax. Points of many rows are tried in float32 first:
        that is all a set needs whose status and lower bound follow from it, or whose point cannot prove anything.
        """
        box, floor = verdicts.box, verdicts.question.floor
        points, lower = verdicts.points, np.zeros(len(verdicts))
        open_ones = np.arange(len(verdicts))
        if self.rows.stored.size > SMALL:
            lower, most = self._point_bounds(indptr, indices, points, box, floor, caution, SINGLE)
            open_ones = np.flatnonzero((lower < np.maximum(verdicts.radius_lower, 1.0)) & (most > 0))
        if len(open_ones):
            pointers, places = entries_of_rows(indptr, open_ones)
            finer, _ = self._point_bounds(pointers, indices[places], points[open_ones], box, floor, caution, DOUBLE)
            lower[open_ones] = np.maximum(lower[open_ones], finer)
        upper = np.full(len(verdicts), np.inf)
        for number in range(len(verdicts)):
            labels, multipliers = verdicts.multipliers_of(number)
            if len(labels):
                upper[number] = separation_bounds.multiplier_bound(
                    *self._listed(labels, indices[indptr[number] : indptr[number + 1]]),
                    multipliers, self.largest, box, floor, caution,
                )  # fmt: skip
        return lower, upper

    def bounds_exactly(
        self, indptr: np.ndarray, indices: np.ndarray, verdicts: Verdicts, numbers: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) radius of the sets `numbers` that points and multipliers prove with tails; 0, inf for others.

        Slow: large integers. The verdicts must be well-formed, and of mode topk or argmax.
        """
        box, floor = verdicts.box, verdicts.question.floor
        lower, upper = np.zeros(len(verdicts)), np.full(len(verdicts), np.inf)
        for number in numbers:
            own = indices[indptr[number] : indptr[number + 1]]
            positive = np.zeros(len(self.rows), dtype=bool)
            positive[own] = True
            tail = None if verdicts.point_tails is None else verdicts.point_tails[number]
            lower[number] = separation_bounds.point_bound_exactly(
                self.rows, self.bias, self.largest, positive, verdicts.points[number], tail, box, floor
            )
            labels, multipliers = verdicts.multipliers_of(number)
            part = slice(verdicts.multiplier_ptr[number], verdicts.multiplier_ptr[number + 1])
            tails = None if verdicts.multiplier_tails is None else verdicts.multiplier_tails[part]
            if len(labels):
                upper[number] = separation_bounds.multiplier_bound_exactly(
                    *self._listed(labels, own), multipliers, tails, self.largest, box, floor
                )
        return lower, upper

    def _point_bounds(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        points: np.ndarray,
        box: float,
        floor: float,
        caution: float,
        unit: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`separation_bounds.bound_point_radii` of these rows."""
        return separation_bounds.bound_point_radii(
            self.rows, self.bias, self.largest, indptr, indices, points, box, floor, caution, unit
        )

    def _listed(self, labels: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, biases, whether the set has them) of the labels of multipliers."""
        shifts = np.zeros(len(labels)) if self.bias is None else self.bias[labels]
        return self.rows.take(labels), shifts, np.isin(labels, own)
