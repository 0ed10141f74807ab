"""Kernels of a dense simplex method for the Chebyshev LP over working rows.

Holds no choice of rows. In box units: maximise t with a_i.x + beta_i >= t and -low_j <= x_j <= high_j. The dual is
    minimise  sum_j (high_j p_j + low_j q_j) + sum_i beta_i lam_i
    with  sum_i lam_i a_i - p + q = 0,  sum_i lam_i = 1,  all >= 0.
The kernel goes from vertex to vertex of the dual, so every lam on the way proves an upper bound. Its prices are (x, t).
p_j and q_j are the positive and negative part of one number v_j: a step passes through v_j = 0 as long as that pays.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.argmaxability._nearest_numba import NONE, mix, multiply
from xpipe.ground.accelerate import jit

OPTIMAL, LOW, PIVOTS, LOST = range(4)


class Basis(NamedTuple):
    """A vertex of the dual: d + 1 columns of its constraints.

    names int64 [d + 1]: number of a working row, or -(j + 1) for coordinate j (p or q, by the sign of its column).
    inverse float64 [d + 1, d + 1]: of the basis. cost float64 [d + 1]: of each column.
    """

    names: np.ndarray
    inverse: np.ndarray
    cost: np.ndarray


class Sides(NamedTuple):
    """The box: -low_j <= x_j <= high_j, both float64 [d] and not negative."""

    low: np.ndarray
    high: np.ndarray


class Space(NamedTuple):
    """Work space of `descend`: arrays of d + 1 numbers, and of one per working row (margins)."""

    column: np.ndarray
    change: np.ndarray
    ratios: np.ndarray
    places: np.ndarray
    margins: np.ndarray


@jit
def start_at(row, shift, slot, basis, sides):
    """Begin with one row of weight 1, and |row_j| on every coordinate."""
    names, inverse, cost = basis.names, basis.inverse, basis.cost
    d = len(row)
    for j in range(d):
        for i in range(d + 1):
            inverse[i, j] = 0.0
        sign = -1.0 if row[j] >= 0.0 else 1.0
        inverse[j, j] = sign
        inverse[j, d] = -sign * row[j]
        names[j] = -(j + 1)
        cost[j] = sides.high[j] if sign < 0.0 else sides.low[j]
    inverse[d, d] = 1.0
    names[d] = slot
    cost[d] = shift


@jit
def find_entering(A, beta, n_rows, x, t, objective, used, held, sides, margins):
    """(number of the row or coordinate that enters, -1 for none; whether it is a row; its slope, the most negative).

    Rows in `used` and coordinates in `held` are in the basis: rounding must not let them enter again.
    """
    multiply(A, n_rows, x, margins)
    slope, entering, is_row = -max(1e-13, 1e-8 * abs(objective)), NONE, False
    for i in range(n_rows):
        gain = margins[i] + beta[i] - t
        if gain < slope and not used[i]:
            slope, entering, is_row = gain, i, True
    for j in range(len(x)):
        room = min(sides.high[j] - x[j], sides.low[j] + x[j])
        if room < slope and not held[j]:
            slope, entering, is_row = room, j, False
    return entering, is_row, slope


@jit
def find_leaving(basis, slope, sides, space):
    """The place of the basis that leaves, -1 where rounding leaves none. Coordinates on the way change their sign."""
    names, inverse, cost = basis.names, basis.inverse, basis.cost
    change, ratios, places = space.change, space.ratios, space.places
    m = len(names)
    n_places = 0
    for i in range(m):
        if change[i] > 1e-10:
            ratios[n_places] = max(inverse[i, m - 1], 0.0) / change[i]
            places[n_places] = i
            n_places += 1
    for _ in range(n_places):
        nearest = 0
        for q in range(1, n_places):
            if ratios[q] < ratios[nearest]:
                nearest = q
        ratios[nearest] = np.inf
        i = places[nearest]
        if names[i] >= 0:
            return i
        j = -names[i] - 1
        width = sides.low[j] + sides.high[j]
        if slope + width * change[i] >= 0.0:
            return i
        slope += width * change[i]  # v_j passes through 0: p_j becomes q_j or the other way round
        cost[i] = width - cost[i]
        for c in range(m):
            inverse[i, c] = -inverse[i, c]
        change[i] = -change[i]
    return -1


@jit
def eliminate(leaving, inverse, change):
    """Update the inverse: the entering column, which is `change` in terms of the basis, takes the place `leaving`."""
    m = len(change)
    pivot = change[leaving]
    row = inverse[leaving]
    for c in range(m):
        row[c] /= pivot
    for i in range(m):
        factor = change[i]
        if i != leaving and factor != 0.0:
            for c in range(m):
                inverse[i, c] -= factor * row[c]


@jit
def descend(A, beta, n_rows, basis, sides, used, x, most_pivots, low):
    """Pivot until the rows A[:n_rows] leave nothing to gain. Returns (pivots, why it stopped).

    OPTIMAL: nothing is left to gain. LOW: the objective is below `low`. PIVOTS: `most_pivots` are done. LOST: rounding
    has spoiled the inverse. used: which working rows are in the basis. x: filled with the point of the last vertex.
    """
    names, inverse, cost = basis.names, basis.inverse, basis.cost
    m = len(names)
    d = m - 1
    space = Space(np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.int64), np.empty(n_rows))
    prices = np.empty(m)
    held = np.zeros(d, np.bool_)
    for i in range(m):
        if names[i] < 0:
            held[-names[i] - 1] = True
    pivots = 0
    while True:
        mix(cost, inverse, m, prices)
        objective = 0.0
        for j in range(d):
            x[j] = -prices[j]
        for i in range(m):
            objective += cost[i] * inverse[i, d]
        if objective < low:
            return pivots, LOW
        if pivots >= most_pivots:
            return pivots, PIVOTS
        entering, is_row, slope = find_entering(
            A, beta, n_rows, x, prices[d], objective, used, held, sides, space.margins
        )
        sign = 0.0
        if entering < 0:
            return pivots, OPTIMAL
        if is_row:
            for j in range(d):
                space.column[j] = A[entering, j]
            space.column[d] = 1.0
            multiply(inverse, m, space.column, space.change)
        else:
            sign = -1.0 if sides.high[entering] - x[entering] < sides.low[entering] + x[entering] else 1.0
            for i in range(m):
                space.change[i] = sign * inverse[i, entering]
        leaving = find_leaving(basis, slope, sides, space)
        if leaving < 0:
            return pivots, LOST
        if names[leaving] >= 0:
            used[names[leaving]] = False
        else:
            held[-names[leaving] - 1] = False
        eliminate(leaving, inverse, space.change)
        if is_row:
            names[leaving], cost[leaving] = entering, beta[entering]
            used[entering] = True
        else:
            names[leaving] = -(entering + 1)
            cost[leaving] = sides.high[entering] if sign < 0.0 else sides.low[entering]
            held[entering] = True
        pivots += 1
