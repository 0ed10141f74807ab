"""What the searches for certificates of a label set share: what they find, a growing set of working rows, rounds.

Holds no search (`nearest`, `chebyshev`, `sharp`) and no bounds (`certificate`). Almost all labels are idle, since
d << n_labels. So a search solves its problem for a few rows, scores all labels once, adds the rows that it missed, and
goes on. `run_rounds` does that for many sets together: scoring all labels is one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from xpipe.argmaxability._nearest_numba import list_low
from xpipe.argmaxability._simplex_numba import Sides
from xpipe.argmaxability.limits import Limits

FIRST_ROWS = 2  # working rows at the start, times d
MORE_ROWS = 1  # rows added per round, times d
FEWEST_ROWS = 32
MOST_ROUNDS = 400


class Scored(Protocol):
    """What searches need of a layer: rows of some labels, scores of all, and their names as labels of W."""

    @property
    def real(self) -> np.ndarray:
        """Labels of W, by position."""

    @property
    def shifts(self) -> np.ndarray:
        """Scaled biases, by position."""

    @property
    def norms(self) -> np.ndarray:
        """What multipliers are divided by, for each label of W."""

    @property
    def d(self) -> int:
        """The number of inputs."""

    def directions_of(self, labels: np.ndarray) -> np.ndarray:
        """The scaled rows of some labels (float64)."""

    def scores(self, points: np.ndarray) -> np.ndarray:
        """Scaled scores of all labels, without bias, one row per point (float64)."""


class Found(NamedTuple):
    """Certificates of one set: a point in box units (or None), and labels with their multipliers (or none).

    Tails are what float64 leaves out of the point and of the multipliers, where a search found that too.
    """

    point: np.ndarray | None
    labels: np.ndarray
    multipliers: np.ndarray
    point_tail: np.ndarray | None = None
    multiplier_tails: np.ndarray | None = None


class Search(Protocol):
    """The search of one set. All labels are scored at `x`."""

    x: np.ndarray
    done: bool

    def advance(self) -> None:
        """Solve the problem of the working rows."""

    def absorb(self, scores: np.ndarray) -> None:
        """Look at the scores of all labels and add working rows. `scores` may be overwritten."""


class WorkingRows:
    """Signed rows of length 1, y_i w_i / ||w_i||, of some labels of one set.

    Labels are given by their position in `OutputLayer.real`. positives: the labels of the set.
    """

    def __init__(self, layer: Scored, positives: np.ndarray, limits: Limits):
        self.layer, self.positives, self.box, self.d = layer, positives, limits.box, layer.d
        self.sides = Sides(np.full(self.d, -limits.floor), np.ones(self.d))
        self.n = 0
        first = self.first_rows()
        self.A = np.empty((first + min(len(positives), first), self.d))
        self.labels = np.empty(len(self.A), dtype=np.int64)
        self.beta = np.empty(len(self.A))
        self.chosen = np.zeros(len(layer.real), dtype=bool)
        self.is_positive = np.zeros(len(layer.real), dtype=bool)
        self.is_positive[positives] = True

    def add(self, labels: np.ndarray) -> None:
        """Add the rows of some labels."""
        end = self.n + len(labels)
        if end > len(self.A):
            self._grow(max(end, len(self.A) * 3 // 2))
        signs = np.where(self.is_positive[labels], 1.0, -1.0)
        np.multiply(self.directions_of(labels), signs[:, None], out=self.A[self.n : end])
        self.beta[self.n : end] = signs * self.layer.shifts[labels] / self.box
        self.labels[self.n : end] = labels
        self.chosen[labels] = True
        self.n = end

    def directions_of(self, labels: np.ndarray) -> np.ndarray:
        """The rows of some labels, without the signs of the set (float64 [n, d])."""
        return self.layer.directions_of(labels)

    def complete(self, scores: np.ndarray, x: np.ndarray) -> None:
        """Make the scores that the layer gives at x those of `directions_of`, in place."""

    def input_of(self, x: np.ndarray) -> np.ndarray:
        """The input that x stands for, in box units."""
        return x

    def first_rows(self) -> int:
        """Working rows at the start of a search."""
        return first_rows(self.d)

    def rows_per_round(self) -> int:
        """Working rows added per round, at most."""
        return rows_per_round(self.d)

    def _grow(self, size: int) -> None:
        """Move the arrays into larger ones."""
        for name in ("A", "labels", "beta"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), dtype=old.dtype)
            new[: self.n] = old[: self.n]
            setattr(self, name, new)

    def begin(self, scores: np.ndarray) -> None:
        """Add the set's own labels, unless they are many, and the rows of lowest margin."""
        most = self.first_rows()
        if len(self.positives) <= most:
            self.add(self.positives)
        self.take_lowest(scores, np.inf, most)

    def take_lowest(self, scores: np.ndarray, floor: float, most: int) -> tuple[int, float]:
        """Add at most `most` rows with a margin below `floor`, lowest first. Returns (rows added, least margin)."""
        low = np.empty(len(scores), dtype=np.int64)
        count, least = list_low(scores, self.positives, floor, self.chosen, low)
        low = low[:count]
        if count > most:
            low = np.sort(low[np.argpartition(-scores[low], most)[:most]])
        self.add(low)
        return len(low), float(least)

    def multipliers(self, slots: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(labels, multipliers of the rows of W) for weights `lam` of the working rows `slots`, without zeros."""
        kept = lam > 0
        labels = self.layer.real[self.labels[slots[kept]]]
        order = np.argsort(labels)
        return labels[order].astype(np.int32), (lam[kept] / self.layer.norms[labels])[order]


def first_rows(d: int) -> int:
    """Working rows at the start of a search."""
    return FIRST_ROWS * d + FEWEST_ROWS


def rows_per_round(d: int) -> int:
    """Working rows added per round, at most."""
    return max(FEWEST_ROWS, MORE_ROWS * d)


def run_rounds(layer: Scored, searches: Sequence[Search]) -> None:
    """Run all searches to their end."""
    live = list(searches)
    while live:
        for search in live:
            search.advance()
        live = [search for search in live if not search.done]
        if live:
            scores = layer.scores(np.stack([search.x for search in live]))
            for number, search in enumerate(live):
                search.absorb(scores[number])
            live = [search for search in live if not search.done]
