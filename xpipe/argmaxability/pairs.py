"""Numbers of twice the precision of float64: each is an unevaluated sum of two float64.

Holds no proof: a result has an error of a few 2^-104 relative to its inputs, not bounded rigorously here. Every
operation is plain float64 in a fixed order, so results are the same on every machine (Dekker 1971, Knuth, Hida et al.).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np

SPLITTER = 2.0**27 + 1


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """(rounded sum, rounding error)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """(rounded product, rounding error), for magnitudes below 1e290."""
    product = a * b
    a_wide, b_wide = SPLITTER * a, SPLITTER * b
    a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@dataclasses.dataclass(frozen=True)
class Pairs:
    """An array of numbers high + low, with |low| at most half a unit in the last place of high."""

    high: np.ndarray
    low: np.ndarray

    @classmethod
    def of(cls, values: Any) -> Self:
        """Pairs of float64 numbers."""
        values = np.asarray(values, dtype=np.float64)
        return cls(values, np.zeros_like(values))

    @classmethod
    def tidy(cls, high: Any, low: Any) -> Self:
        """high + low, for |low| at most about |high|."""
        total = high + low
        return cls(total, low - (total - high))

    def __getitem__(self, place: Any) -> Pairs:
        return Pairs(self.high[place], self.low[place])

    def __setitem__(self, place: Any, values: Pairs) -> None:
        self.high[place], self.low[place] = values.high, values.low

    def __neg__(self) -> Pairs:
        return Pairs(-self.high, -self.low)

    def __add__(self, other: Pairs) -> Pairs:
        high, rest = two_sum(self.high, other.high)
        low, last = two_sum(self.low, other.low)
        middle = Pairs.tidy(high, rest + low)
        return Pairs.tidy(middle.high, middle.low + last)

    def __sub__(self, other: Pairs) -> Pairs:
        return self + (-other)

    def __mul__(self, other: Pairs) -> Pairs:
        high, rest = two_product(self.high, other.high)
        return Pairs.tidy(high, rest + (self.high * other.low + self.low * other.high))

    def __truediv__(self, other: Pairs) -> Pairs:
        first = self.high / other.high
        rest = self - other * Pairs.of(first)
        second = rest.high / other.high
        rest = rest - other * Pairs.of(second)
        return Pairs.tidy(first, second) + Pairs.of(rest.high / other.high)

    def scaled(self, factor: Any) -> Pairs:
        """The numbers times powers of two, exactly."""
        return Pairs(self.high * factor, self.low * factor)

    def copy(self) -> Pairs:
        return Pairs(self.high.copy(), self.low.copy())

    def sum(self) -> Pairs:
        """Sum over the last axis: neighbours are added in pairs, then those sums in pairs, and so on."""
        terms = self
        while terms.high.shape[-1] > 1:
            size = terms.high.shape[-1]
            half = terms[..., 0 : size - size % 2 : 2] + terms[..., 1::2]
            if size % 2:
                last = terms[..., -1:]
                half = Pairs(np.append(half.high, last.high, axis=-1), np.append(half.low, last.low, axis=-1))
            terms = half
        if not terms.high.shape[-1]:
            return Pairs.of(np.zeros(terms.high.shape[:-1]))
        return terms[..., 0]

    def root(self) -> Pairs:
        """Square roots of numbers above 0."""
        first = np.sqrt(self.high)
        rest = self - Pairs(*two_product(first, first))
        return Pairs.tidy(first, rest.high / (2 * first))


def times(matrix: Pairs, vector: Pairs) -> Pairs:
    """matrix @ vector."""
    return (matrix * vector[None, :]).sum()


def product(matrix: Pairs, rows: Pairs) -> Pairs:
    """matrix @ rows.T, row by row, so that no three-dimensional array is held."""
    found = Pairs.of(np.zeros((len(matrix.high), len(rows.high))))
    for row in range(len(matrix.high)):
        found[row] = times(rows, matrix[row])
    return found


def transposed(matrix: Pairs) -> Pairs:
    """The transpose, contiguous."""
    return Pairs(np.ascontiguousarray(matrix.high.T), np.ascontiguousarray(matrix.low.T))
