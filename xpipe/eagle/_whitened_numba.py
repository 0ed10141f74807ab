"""Kernels on whitened rows: weighted sums and products.

Holds no labels and no groups. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions; the
product of two whitened rows is <x, x'> - <p, p'>.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._rows_numba import prefetch_all, prefetch_row
from xpipe.ground.accelerate import jit, jit_sums
from xpipe.ground.sparse import Triple

MOST_OWN = 0.95  # of its own score that a row, or a direction of a group, adds: more would divide by nearly nothing
AHEAD = 2  # how many rows ahead the processor is asked to load a row: memory is what sums and products wait for
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
        if place + AHEAD < len(numbers):
            following = numbers[place + AHEAD]
            prefetch_row(indices, values, indptr[following], indptr[following + 1])
        if weights[place] != 0:
            add_row(numbers[place], weights[place], indptr, indices, values, dense)


@jit
def add_row(row, weight, indptr, indices, values, dense):
    """dense += a weighted sparse row.

    A loop over a slice needs no test for negative places: it takes 0.6 of the time.
    """
    own_indices, own_values = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
    for entry in range(len(own_indices)):
        dense[own_indices[entry]] += weight * own_values[entry]


@jit
def add_coordinates(numbers, weights, coordinates, leading):
    """leading += the weighted sum of rows of coordinates."""
    for place in range(len(numbers)):
        if place + AHEAD < len(numbers):
            prefetch_all(coordinates[numbers[place + AHEAD]])
        if weights[place] != 0:
            add_to(leading, weights[place], coordinates[numbers[place]])


@jit
def add_to(leading, weight, coordinates):
    """leading += the weighted coordinates of one row."""
    for c in range(len(leading)):
        leading[c] += weight * coordinates[c]


@jit
def score_rows(numbers, indptr, indices, values, dense, scores):
    """scores = product of each sparse row with `dense`."""
    for place in range(len(numbers)):
        scores[place] = multiply_row(numbers[place], indptr, indices, values, dense)


@jit_sums
def multiply_row(row, indptr, indices, values, dense):
    """The product of a sparse row with `dense`, in vector lanes: slices need no test for negative places."""
    own_indices, own_values = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
    total = np.float32(0)
    for entry in range(len(own_indices)):
        total += own_values[entry] * dense[own_indices[entry]]
    return total


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
