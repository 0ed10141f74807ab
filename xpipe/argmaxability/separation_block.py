"""A block of label sets in modes topk and argmax. The twin of `block`, from which it differs in rows and bounds.

Holds no search and no proof of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.argmaxability.block import NOTHING, Block
from xpipe.argmaxability.certificate import REPORTED
from xpipe.argmaxability.evidence import RowsEvidence
from xpipe.argmaxability.lifted import LiftedLayer, LiftedRows
from xpipe.argmaxability.limits import Limits
from xpipe.argmaxability.options import Mode
from xpipe.argmaxability.search import Found, WorkingRows
from xpipe.argmaxability.separation import SeparationSearch
from xpipe.argmaxability.sharp import SharpSearch, SharpSeparation

ROOM = 1 << 28  # bytes that searches of one block may hold at a time
SCORES = 1 << 26  # bytes of scores of one round
MANY_INPUTS = 1024


class SeparationBlock(Block):
    """The label sets of a block (indptr, indices) and what is known about each of them."""

    layer: Any

    def __init__(
        self,
        layer: LiftedLayer,
        indptr: np.ndarray,
        indices: np.ndarray,
        limits: Limits,
        mode: Mode,
    ):
        self.mode, hints = mode, None
        self.evidence = RowsEvidence(layer.rows, layer.bias, layer.largest)
        if layer.cached is None and not limits.exact:  # many rows: try one point for each set, all at once
            hints = layer.first_points(indptr, indices, limits)
        super().__init__(layer, indptr, indices, limits, hints)  # type: ignore[arg-type]

    def _try(self, tried: list[Found]) -> None:
        if self.layer.regions is None or self.limits.exact:
            return super()._try(tried)
        points, _ = self._scaled_points(tried)
        proved = self.layer.regions.prove(self.indices, points, self.layer.largest, REPORTED)
        if proved is None:
            return super()._try(tried)
        self._keep_better(dict(enumerate(tried)), proved, np.full(self.n_sets, np.inf))
        return None

    def _together(self) -> int:
        d, n = int(self.layer.d), int(self.layer.n_labels)
        each = 8 * d * (2 * LiftedRows.most_first(d) + 256)  # working rows and a support, as far as most sets need
        return max(1, min(ROOM // each, SCORES // (8 * n)))

    def _worth_the_simplex(self, numbers: list[int]) -> list[int]:
        """With many inputs a pivot takes long: whether the radius of a possible set reaches 1 is not worth it then."""
        if self.layer.d <= MANY_INPUTS or self.limits.exact:
            return numbers
        return [number for number in numbers if not self.lower[number] > self.limits.eps]

    def _first_searches(self, numbers: list[int]) -> dict[int, Any]:
        return {n: SeparationSearch(self.layer, self._places(n), self.limits) for n in numbers}

    def _new_rows(self, number: int) -> WorkingRows:
        return LiftedRows(self.layer, self._places(number), self.limits)

    def _sharper(self, rows: WorkingRows, first: np.ndarray, basis: np.ndarray | None) -> SharpSearch:
        assert isinstance(rows, LiftedRows)
        return SharpSeparation(rows, self.limits, first, basis)

    def _bounds(self, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        return self.evidence.bounds(self.indptr, self.indices, self._unjudged(found), caution=REPORTED)

    def _bounds_exactly(self, found: list[Found], numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self.evidence.bounds_exactly(self.indptr, self.indices, self._unjudged(found), numbers)

    def _n_inputs(self) -> int:
        return int(self.layer.n_inputs)

    def _places(self, number: int) -> np.ndarray:
        return self._own(number)

    def _constant_label(self, number: int) -> Found:
        """Sets without a label, and those of all labels, have an infinite radius at every input."""
        if 0 < len(self._own(number)) < self.layer.n_labels:
            return NOTHING
        return NOTHING._replace(point=np.zeros(self._n_inputs()))
