"""Kernels of a dense simplex method for the Chebyshev LP over working rows.

Holds no choice of rows. In units of the box: maximise t with a_i.x + beta_i >= t and |x_j| <= 1; its dual is
    minimise  sum_j (p_j + q_j) + sum_i beta_i lam_i   with   sum_i lam_i a_i - p + q = 0,  sum_i lam_i = 1,  all >= 0.
The kernel goes from vertex to vertex of the dual, so that every lam on the way proves an upper bound; its prices are
(x, t). p_j and q_j are the two halves of one |v_j|: a step passes through v_j = 0 as long as that pays.

basis[i] >= 0: slot of a working row; -(j + 1): coordinate j, p or q by the sign of its column. inverse: of the basis.
"""

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

OPTIMAL, LOW, PIVOTS, LOST = range(4)


@jit
def start_at(row, shift, slot, inverse, basis, cost):
    """Begin with one row of weight 1 and |row_j| on every coordinate."""
    d = len(row)
    for j in range(d):
        for i in range(d + 1):
            inverse[i, j] = 0.0
        sign = -1.0 if row[j] >= 0.0 else 1.0
        inverse[j, j] = sign
        inverse[j, d] = -sign * row[j]
        basis[j] = -(j + 1)
        cost[j] = 1.0
    inverse[d, d] = 1.0
    basis[d] = slot
    cost[d] = shift


@jit
def descend(A, beta, n_rows, inverse, basis, cost, used, x, most_pivots, low):
    """Pivot until A[:n_rows] leaves nothing to gain; gives (pivots, why it stopped).

    OPTIMAL; LOW: the objective is below `low`; PIVOTS: most_pivots done; LOST: rounding has spoiled the inverse.
    """
    m = len(basis)
    d = m - 1
    entering_column, change = np.empty(m), np.empty(m)
    ratios, places = np.empty(m), np.empty(m, np.int64)
    prices, margins = np.empty(m), np.empty(n_rows)
    held = np.zeros(d, np.bool_)  # coordinates in the basis: rounding must not let them enter again
    for i in range(m):
        if basis[i] < 0:
            held[-basis[i] - 1] = True
    pivots = 0
    while True:
        np.dot(cost, inverse, prices)
        for j in range(d):
            x[j] = -prices[j]
        t = prices[d]
        objective = 0.0
        for i in range(m):
            objective += cost[i] * inverse[i, d]
        if objective < low:
            return pivots, LOW
        if pivots >= most_pivots:
            return pivots, PIVOTS
        np.dot(A[:n_rows], x, margins)
        slope, entering, is_row = -max(1e-13, 1e-8 * abs(objective)), -1, False
        for i in range(n_rows):
            gain = margins[i] + beta[i] - t
            if gain < slope and not used[i]:
                slope, entering, is_row = gain, i, True
        for j in range(d):
            if 1.0 - abs(x[j]) < slope and not held[j]:
                slope, entering, is_row = 1.0 - abs(x[j]), j, False
        if entering < 0:
            return pivots, OPTIMAL
        if is_row:
            for j in range(d):
                entering_column[j] = A[entering, j]
            entering_column[d] = 1.0
            np.dot(inverse, entering_column, change)
        else:
            sign = -1.0 if x[entering] > 0.0 else 1.0
            for i in range(m):
                change[i] = sign * inverse[i, entering]
        n_places = 0
        for i in range(m):
            if change[i] > 1e-10:
                ratios[n_places] = max(inverse[i, d], 0.0) / change[i]
                places[n_places] = i
                n_places += 1
        leaving = -1
        for _ in range(n_places):
            nearest = 0
            for q in range(1, n_places):
                if ratios[q] < ratios[nearest]:
                    nearest = q
            ratios[nearest] = np.inf
            i = places[nearest]
            if basis[i] >= 0 or slope + 2.0 * change[i] >= 0.0:
                leaving = i
                break
            slope += 2.0 * change[i]  # v_j passes through 0: p_j becomes q_j or the other way round
            for c in range(m):
                inverse[i, c] = -inverse[i, c]
            change[i] = -change[i]
        if leaving < 0:
            return pivots, LOST
        if basis[leaving] >= 0:
            used[basis[leaving]] = False
        else:
            held[-basis[leaving] - 1] = False
        pivot = change[leaving]
        row = inverse[leaving]
        for c in range(m):
            row[c] /= pivot
        for i in range(m):
            factor = change[i]
            if i != leaving and factor != 0.0:
                for c in range(m):
                    inverse[i, c] -= factor * row[c]
        if is_row:
            basis[leaving] = entering
            cost[leaving] = beta[entering]
            used[entering] = True
        else:
            basis[leaving] = -(entering + 1)
            cost[leaving] = 1.0
            held[entering] = True
        pivots += 1
