"""Kernels on whitened rows: weighted sums, products, and copies that lie in the order in which they are read.

Holds no labels and no groups. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions; the
product of two whitened rows is <x, x'> - <p, p'>.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit, jit_sums
from xpipe.ground.sparse import Triple

COORDINATES_AT_ONCE = 64  # coordinates that are transposed before the next ones


class Whitened(NamedTuple):
    """Rows in the scorer's coordinates: x and p of each row, and the product of each row with itself."""

    sparse: Triple  # column indices are uint32: numba then omits the test for negative indices
    coordinates: np.ndarray  # float32, n_rows x rank
    influence: np.ndarray  # float32, n_rows
    n_features: int


@jit
def add_rows(numbers, weights, indptr, indices, values, dense):
    """dense += the weighted sum of sparse rows."""
    for place in range(len(numbers)):
        weight = weights[place]
        if weight != 0:
            for entry in range(indptr[numbers[place]], indptr[numbers[place] + 1]):
                dense[indices[entry]] += weight * values[entry]


@jit
def add_coordinates(numbers, weights, coordinates, leading):
    """leading += the weighted sum of rows of coordinates."""
    for place in range(len(numbers)):
        weight = weights[place]
        if weight != 0:
            source = coordinates[numbers[place]]
            for c in range(len(leading)):
                leading[c] += weight * source[c]


@jit
def score_rows(numbers, indptr, indices, values, dense, scores):
    """scores = product of each sparse row with `dense`."""
    for place in range(len(numbers)):
        scores[place] = multiply_row(numbers[place], indptr, indices, values, dense)


@jit
def multiply_row(row, indptr, indices, values, dense):
    """The product of a sparse row with `dense`, as eight sums: a single one would wait for each addition."""
    entry, stop = indptr[row], indptr[row + 1]
    a = b = c = d = e = f = g = h = np.float32(0)
    while entry + 8 <= stop:
        a += values[entry] * dense[indices[entry]]
        b += values[entry + 1] * dense[indices[entry + 1]]
        c += values[entry + 2] * dense[indices[entry + 2]]
        d += values[entry + 3] * dense[indices[entry + 3]]
        e += values[entry + 4] * dense[indices[entry + 4]]
        f += values[entry + 5] * dense[indices[entry + 5]]
        g += values[entry + 6] * dense[indices[entry + 6]]
        h += values[entry + 7] * dense[indices[entry + 7]]
        entry += 8
    while entry < stop:
        a += values[entry] * dense[indices[entry]]
        entry += 1
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@jit
def transpose_rows(coordinates, numbers, tile):
    """tile[:, i] = coordinates[numbers[i]], some coordinates at a time: the part that is written stays in cache."""
    for start in range(0, tile.shape[0], COORDINATES_AT_ONCE):
        stop = min(start + COORDINATES_AT_ONCE, tile.shape[0])
        for at in range(len(numbers)):
            source = coordinates[numbers[at]]
            for c in range(start, stop):
                tile[c, at] = source[c]


@jit
def subtract_leading(tile, leading, scores):
    """scores -= products of coordinates with `leading`. tile: rank x rows, as `transpose_rows` makes it.

    The sum down a column has one fixed order, and the loop along a row still uses every lane of the processor.
    """
    for c in range(len(leading)):
        weight = leading[c]
        source = tile[c]
        for place in range(len(scores)):
            scores[place] -= weight * source[place]


@jit_sums
def multiply_leading(coordinates, leading):
    """The product of the coordinates of one row with `leading`."""
    total = np.float32(0)
    for c in range(len(leading)):
        total += coordinates[c] * leading[c]
    return total


@jit
def clear_rows(numbers, indptr, indices, dense):
    """Set to zero what `add_rows` changed: entry by entry, or all of `dense` where that is less work."""
    touched = 0
    for place in range(len(numbers)):
        touched += indptr[numbers[place] + 1] - indptr[numbers[place]]
    if touched > len(dense) // 8:
        dense[:] = 0
        return
    for place in range(len(numbers)):
        for entry in range(indptr[numbers[place]], indptr[numbers[place] + 1]):
            dense[indices[entry]] = 0


@jit
def copy_rows(numbers, sparse, own_indptr, own_indices, own_values):
    """Copy sparse rows one after the other: each round then reads memory in order."""
    indptr, indices, values = sparse
    end = 0
    own_indptr[0] = 0
    for place in range(len(numbers)):
        for entry in range(indptr[numbers[place]], indptr[numbers[place] + 1]):
            own_indices[end] = indices[entry]
            own_values[end] = values[entry]
            end += 1
        own_indptr[place + 1] = end
