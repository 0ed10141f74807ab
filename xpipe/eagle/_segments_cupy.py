"""Sums and extremes of pieces of an array on a GPU, exact to the type and always in the same order.

Holds no algorithm of a paper. Uses only elementwise functions, a stable sort and distinct indices of the array module
(xp = cupy or numpy). Its `ufunc.at` rounds float64 to float32 (cupy 14.2: atomicMax by fmaxf) or lacks int64 (below
14.1); `bincount` and sparse products add in the order in which threads arrive.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any


def spread(xp: Any, lengths: Any) -> tuple[Any, Any]:
    """(piece, place within the piece) of every element, for consecutive pieces with these lengths."""
    if not len(lengths):
        return xp.arange(0), xp.arange(0)
    ends = xp.cumsum(lengths)
    numbers = xp.arange(int(ends[-1]))
    piece = xp.searchsorted(ends, numbers, side="right")
    return piece, numbers - (ends - lengths)[piece]


def lengths_of(xp: Any, pieces: Any, n: int) -> Any:
    """How many elements each of n pieces has. pieces: the piece of every element, ascending."""
    bounds = xp.searchsorted(pieces, xp.arange(n + 1))
    return bounds[1:] - bounds[:-1]


class Segments:
    """Consecutive pieces of an array; some may be empty.

    A piece is reduced as a tree: every second element absorbs its right neighbour, then every fourth absorbs the one
    two places on, and so on. That is one operation per element, and the order depends only on the length.
    """

    def __init__(self, xp: Any, lengths: Any, spread_out: tuple[Any, Any] | None = None):
        """spread_out: the result of `spread`, where the caller has it."""
        self.xp, self.n = xp, len(lengths)
        self.piece, place = spread_out or spread(xp, lengths)
        self.passes: list[tuple[Any, Any]] = []  # (places that absorb, places that are absorbed)
        if not self.n:
            return
        self.filled = xp.flatnonzero(lengths > 0)
        self.starts = (xp.cumsum(lengths) - lengths)[self.filled]
        length, at, shift = lengths[self.piece], xp.arange(len(self.piece)), 1
        while True:
            inside = xp.flatnonzero((place % (2 * shift) == 0) & (place + shift < length))
            if not len(inside):
                break
            at, place, length = at[inside], place[inside], length[inside]
            self.passes.append((at, at + shift))
            shift *= 2

    def add(self, values: Any) -> Any:
        """The sum of each piece; 0 for empty pieces."""
        return self._reduce(self.xp.add, values, 0)

    def maximum(self, values: Any) -> Any:
        """The largest value of each piece; -inf for empty pieces."""
        return self._reduce(self.xp.maximum, values, -self.xp.inf)

    def minimum(self, values: Any, of_none: int) -> Any:
        """The smallest value of each piece; `of_none` for empty pieces."""
        return self._reduce(self.xp.minimum, values, of_none)

    def _reduce(self, combine: Any, values: Any, of_none: Any) -> Any:
        found = self.xp.full(self.n, of_none, dtype=values.dtype)
        if len(values):
            values = values.copy()
            for at, other in self.passes:
                values[at] = combine(values[at], values[other])
            found[self.filled] = values[self.starts]
        return found
