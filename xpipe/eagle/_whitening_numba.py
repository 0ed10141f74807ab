"""Kernels of the scorer's metric: rows along its directions, a row's influence on itself, X^T X.

Arrays in, preallocated arrays out. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions.
"""

import numpy as np

from xpipe.ground.accelerate import jit


@jit
def project_rows(indptr, indices, values, directions, first, last, out):
    """out[i - first] = row i times the directions (n_features x rank)."""
    rank = directions.shape[1]
    for row in range(first, last):
        target = out[row - first]
        for c in range(rank):
            target[c] = np.float32(0)
        for entry in range(indptr[row], indptr[row + 1]):
            value = values[entry]
            source = directions[indices[entry]]
            for c in range(rank):
                target[c] += value * source[c]


@jit
def own_influence(indptr, values, coordinates, influence):
    """influence[i] = <x_i, x_i> - <p_i, p_i>: what a row adds to its own score."""
    for row in range(len(influence)):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += values[entry] * values[entry]
        for c in range(coordinates.shape[1]):
            total -= coordinates[row, c] * coordinates[row, c]
        influence[row] = total


@jit
def gram_rows(turned_indptr, turned_rows, turned_values, indptr, indices, values, first, last, gram):
    """gram[f] = row f of X^T X for features first to last; `turned` is X by columns. A row of it stays in cache.

    A cell adds up its samples in order, whatever the number of threads.
    """
    for feature in range(first, last):
        target = gram[feature]
        for at in range(turned_indptr[feature], turned_indptr[feature + 1]):
            weight, row = turned_values[at], turned_rows[at]
            for entry in range(indptr[row], indptr[row + 1]):
                target[indices[entry]] += weight * values[entry]
