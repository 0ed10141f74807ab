"""What searches for the certificates of a label set share: their goals, a growing set of working rows, their rounds.

Holds no search (`nearest`, `chebyshev`), and no verdicts: what they find is bounded by `certificate`. Almost all labels
are idle, since d << n_labels: a search solves its problem for a few rows, looks at all labels once, takes in those it
had missed, and goes on. `run_rounds` does that for many sets side by side: looking at all labels is one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from xpipe.argmaxability._nearest_numba import list_low
from xpipe.argmaxability.head import Head

FIRST_ROWS = 2  # working rows at the start, times d
MORE_ROWS = 1  # rows taken in a round, times d
FEWEST_ROWS = 32
MOST_ROUNDS = 400
EXACT = 2e-7  # relative difference of the bounds at which the exact radius is found
SURE = 0.3  # of eps: what multipliers must reach, so that rounding does not spoil the proof
MARGIN = 1e-6  # relative, for the same reason


class Limits(NamedTuple):
    """What is to be settled: a radius above or below eps, at least or below 1, or exactly."""

    eps: float
    box: float
    exact: bool

    @property
    def none(self) -> float:
        """What a radius must get below to be none, in units of the box as all below."""
        return SURE * self.eps / self.box

    @property
    def enough(self) -> float:
        """A radius of which no more needs to be known: 1, or any where the exact one is found by another search."""
        return (2 * self.eps if self.exact else 1 + MARGIN) / self.box

    def settled(self, lower: float, upper: float) -> bool:
        """Whether bounds in units of the box settle it."""
        if self.exact:
            return lower >= upper * (1 - EXACT)
        one = 1 / self.box
        return lower >= one * (1 + MARGIN) or (lower > 2 * self.eps / self.box and upper < one * (1 - MARGIN))


class Found(NamedTuple):
    """Certificates of one set: a point in units of the box (or None), labels and their multipliers (or none).

    Tails: what float64 leaves out of the point and of the multipliers, where a search found that too.
    """

    point: np.ndarray | None
    labels: np.ndarray
    multipliers: np.ndarray
    point_tail: np.ndarray | None = None
    multiplier_tails: np.ndarray | None = None


class Search(Protocol):
    """One set on its way. `x` is what all labels are scored for."""

    x: np.ndarray
    done: bool

    def advance(self) -> None:
        """Solve the problem of the working rows."""

    def absorb(self, scores: np.ndarray) -> None:
        """Look at the scores of all labels, take in rows. `scores` may be overwritten."""


class WorkingRows:
    """Rows y_i w_i / ||w_i|| of some labels of one set."""

    def __init__(self, head: Head, positives: np.ndarray, box: float):
        self.head, self.positives, self.box = head, positives, box
        self.n = 0
        self.A = np.empty((first_rows(head.d) + min(len(positives), first_rows(head.d)), head.d))
        self.labels = np.empty(len(self.A), dtype=np.int64)
        self.beta = np.empty(len(self.A))
        self.chosen = np.zeros(len(head.real), dtype=bool)
        self.is_positive = np.zeros(len(head.real), dtype=bool)
        self.is_positive[positives] = True

    def add(self, labels: np.ndarray) -> None:
        end = self.n + len(labels)
        if end > len(self.A):
            size = max(end, len(self.A) * 3 // 2)
            for name in ("A", "labels", "beta"):
                old = getattr(self, name)
                new = np.empty((size, *old.shape[1:]), dtype=old.dtype)
                new[: self.n] = old[: self.n]
                setattr(self, name, new)
        signs = np.where(self.is_positive[labels], 1.0, -1.0)
        np.multiply(self.head.directions[labels], signs[:, None], out=self.A[self.n : end])
        self.beta[self.n : end] = signs * self.head.shifts[labels] / self.box
        self.labels[self.n : end] = labels
        self.chosen[labels] = True
        self.n = end

    def begin(self, scores: np.ndarray) -> None:
        """Take in the set's own labels, unless they are many, and the rows of lowest margin."""
        most = first_rows(self.head.d)
        if len(self.positives) <= most:
            self.add(self.positives)
        self.take_lowest(scores, np.inf, most)

    def take_lowest(self, scores: np.ndarray, floor: float, most: int) -> tuple[int, float]:
        """Add the rows of lowest margin; (how many are new, the least margin of all labels)."""
        low = np.empty(len(scores), dtype=np.int64)
        count, least = list_low(scores, self.positives, floor, self.chosen, low)
        low = low[:count]
        if count > most:
            low = np.sort(low[np.argpartition(-scores[low], most)[:most]])
        self.add(low)
        return len(low), float(least)

    def multipliers(self, slots: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(labels, multipliers for the rows of W): what is zero is left out."""
        kept = lam > 0
        labels = self.head.real[self.labels[slots[kept]]]
        order = np.argsort(labels)
        return labels[order].astype(np.int32), (lam[kept] / self.head.norms[labels])[order]


def first_rows(d: int) -> int:
    return FIRST_ROWS * d + FEWEST_ROWS


def rows_a_round(d: int) -> int:
    return max(FEWEST_ROWS, MORE_ROWS * d)


def run_rounds(head: Head, searches: Sequence[Search]) -> None:
    """Take every search to its end."""
    live = list(searches)
    while live:
        for search in live:
            search.advance()
        live = [search for search in live if not search.done]
        if live:
            scores = np.stack([search.x for search in live]) @ head.directions.T
            for row, search in enumerate(live):
                search.absorb(scores[row])
            live = [search for search in live if not search.done]
