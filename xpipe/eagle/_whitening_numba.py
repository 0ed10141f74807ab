"""Kernels of whitening: coordinates of rows along directions, the product of a row with itself, X^T X.

Holds no labels and no groups. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit, jit_sums


@jit
def project_rows(rows, blocks, rank, first, last, out):
    """out[i - first, :rank] = row i times the directions, for rows first to last - 1.

    blocks [number, n_features, columns]: the directions, some columns at a time, so that they stay in cache while rows
    pass; columns from the rank on count for nothing. Each cell adds its entries in order, however wide blocks are.
    """
    indptr, indices, values = rows
    width = blocks.shape[2]
    for number in range(len(blocks)):
        directions = blocks[number]
        for row in range(first, last):
            target = out[row - first, number * width : min((number + 1) * width, rank)]
            target[:] = 0
            entry, stop = indptr[row], indptr[row + 1]
            while entry + 4 <= stop:  # four at once, added in order: `target` is read and written a quarter as often
                v, w, x, y = values[entry], values[entry + 1], values[entry + 2], values[entry + 3]
                a, b = directions[indices[entry]], directions[indices[entry + 1]]
                c, d = directions[indices[entry + 2]], directions[indices[entry + 3]]
                for k in range(len(target)):
                    target[k] = (((target[k] + v * a[k]) + w * b[k]) + x * c[k]) + y * d[k]
                entry += 4
            while entry < stop:
                weight, direction = values[entry], directions[indices[entry]]
                for k in range(len(target)):
                    target[k] += weight * direction[k]
                entry += 1


@jit
def multiply_rows(rows, vector, out):
    """out[i] = <row i, vector>, summed in float64."""
    indptr, indices, values = rows
    for row in range(len(out)):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[entry]) * vector[indices[entry]]
        out[row] = total


@jit
def scale_rows(rows, scale, last, n_features, out):
    """Write rows with every value times the scale of its feature, and last[i] in feature `n_features` at the end."""
    indptr, indices, values = rows
    out_indptr, out_indices, out_values = out
    for row in range(len(last)):
        shift = out_indptr[row] - indptr[row]
        for entry in range(indptr[row], indptr[row + 1]):
            out_indices[entry + shift] = indices[entry]
            out_values[entry + shift] = values[entry] * scale[indices[entry]]
        out_indices[indptr[row + 1] + shift] = n_features
        out_values[indptr[row + 1] + shift] = last[row]


@jit_sums
def measure_influence(indptr, values, coordinates, influence):
    """influence[i] = <x_i, x_i> - <p_i, p_i>: what a row adds to its own score."""
    for row in range(len(influence)):
        inside, along = values[indptr[row] : indptr[row + 1]], coordinates[row]
        total = 0.0
        for entry in range(len(inside)):
            total += np.float64(inside[entry]) * inside[entry]
        for c in range(len(along)):
            total -= np.float64(along[c]) * along[c]
        influence[row] = total


@jit
def gram_rows(rows, mean, first, last, gram):
    """gram[f, f:] = row f of (X - mean)^T (X - mean) from its diagonal on, for features first to last - 1.

    rows: the Triple of X; the features of a row are sorted. gram is 0 on entry. Each cell adds its samples in order.
    """
    indptr, indices, values = rows
    for row in range(len(indptr) - 1):
        stop = indptr[row + 1]
        place = indptr[row] + np.searchsorted(indices[indptr[row] : stop], first)
        while place < stop and indices[place] < last:
            weight, target = values[place], gram[indices[place]]
            own_indices, own_values = indices[place:stop], values[place:stop]  # slices need no test for negative places
            for entry in range(len(own_indices)):
                target[own_indices[entry]] += weight * own_values[entry]
            place += 1
    for feature in range(first, min(last, len(mean))):
        weight, target, others = np.float32(len(indptr) - 1) * mean[feature], gram[feature, feature:], mean[feature:]
        for place in range(len(others)):
            target[place] -= weight * others[place]


@jit
def mirror(square):
    """Copy what is above the diagonal below it, block by block: both blocks stay in cache."""
    n, side = len(square), 64
    for top in range(0, n, side):
        for left in range(top, n, side):
            for row in range(top, min(top + side, n)):
                for column in range(max(left, row + 1), min(left + side, n)):
                    square[column, row] = square[row, column]
