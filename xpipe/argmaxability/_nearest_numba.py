"""Kernels for the point of a convex hull that is nearest to the origin (Wolfe 1976, Finding the nearest point).

Holds no checks and no choice of working rows. Row i is a_i = y_i w_i / ||w_i||. The nearest point of the hull of the
rows, x = sum_i lam_i a_i, is the direction of largest margin; x = 0 proves that no direction has a positive margin.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit

OPTIMAL, ZERO, STEPS, STUCK, FULL = range(5)
NONE: Any = np.int64(-1)  # a plain -1 has a type of its own, for which numba compiles every callee once more
NEAR_ZERO = 1e-16  # below this square length, rounding in the weights is corrected


class Support(NamedTuple):
    """Affinely independent rows whose hull x is in; the first `k` places of each array are used.

    slots int64 [m]: their numbers among the working rows. C float64 [m, d]: the rows themselves. lam float64 [m]: their
    weights, with sum 1. L float64 [m, m]: the lower Cholesky factor of 1 1' + C C'. ones float64 [m]: the solution of
    L ones = 1. No more than m = d + 2 places are needed.
    """

    slots: np.ndarray
    C: np.ndarray
    lam: np.ndarray
    L: np.ndarray
    ones: np.ndarray


@jit
def dot(a, b, n):
    """Dot product of a[:n] and b[:n] in eight running sums: a fixed order that uses vector registers."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, n):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@jit
def multiply(A, n, x, out):
    """out[:n] = A[:n] x. One place for all such products: numba takes long to compile each."""
    np.dot(A[:n], x, out[:n])


@jit
def mix(weights, A, n, out):
    """out = weights[:n] A[:n]."""
    np.dot(weights[:n], A[:n], out)


@jit
def sum_magnitudes(x):
    """Sum of the absolute values."""
    total = 0.0
    for value in x:
        total += abs(value)
    return total


@jit
def copy_first(source, target, n):
    """target[:n] = source[:n]; a loop compiles many times faster than slices."""
    for i in range(n):
        target[i] = source[i]


@jit
def start_at(row, slot, support):
    """Begin with one row: x is the row itself."""
    support.slots[0] = slot
    copy_first(row, support.C[0], len(row))
    support.lam[0] = 1.0
    support.L[0, 0] = np.sqrt(1.0 + dot(row, row, len(row)))
    support.ones[0] = 1.0 / support.L[0, 0]


@jit
def add_row(row, slot, k, support, product):
    """Put a row at place k with weight 0. Returns False where it depends on the rows that are there."""
    C, L, ones = support.C, support.L, support.ones
    d = len(row)
    multiply(C, k, row, product)
    square = 1.0 + dot(row, row, d)
    left = square
    for i in range(k):
        L[k, i] = (1.0 + product[i] - dot(L[i], L[k], i)) / L[i, i]
        left -= L[k, i] * L[k, i]
    if left <= 1e-13 * square:
        return False
    L[k, k] = np.sqrt(left)
    ones[k] = (1.0 - dot(L[k], ones, k)) / L[k, k]
    support.slots[k] = slot
    copy_first(row, C[k], d)
    support.lam[k] = 0.0
    return True


@jit
def drop_row(p, k, support, cos, sin):
    """Remove the row at place p. Rotations make the factor lower triangular again, and update `ones`.

    cos, sin float64 [k]: overwritten by the rotations.
    """
    slots, C, lam, L, ones = support.slots, support.C, support.lam, support.L, support.ones
    for i in range(p, k - 1):
        slots[i] = slots[i + 1]
        lam[i] = lam[i + 1]
        copy_first(C[i + 1], C[i], C.shape[1])
        copy_first(L[i + 1], L[i], i + 2)
    for i in range(p, k - 1):
        row, v = L[i], L[i, p]
        for c in range(p, i):
            u, v = v, row[c + 1]
            row[c] = cos[c] * u + sin[c] * v
            v = cos[c] * v - sin[c] * u
        r = np.sqrt(v * v + row[i + 1] * row[i + 1])
        cos[i], sin[i] = v / r, row[i + 1] / r
        row[i], row[i + 1] = r, 0.0
        u, v = ones[i], ones[i + 1]
        ones[i] = cos[i] * u + sin[i] * v
        ones[i + 1] = cos[i] * v - sin[i] * u


@jit
def nearest_in_plane(k, L, ones, mu):
    """Weights mu (sum 1, any sign) of the point of the support's affine hull that is nearest to the origin."""
    copy_first(ones, mu, k)
    total = 0.0
    for i in range(k - 1, -1, -1):
        mu[i] /= L[i, i]
        factor = mu[i]
        total += factor
        for j in range(i):
            mu[j] -= factor * L[i, j]
    for i in range(k):
        mu[i] /= total


@jit
def correct_weights(k, support, x, mu, product):
    """One step of iterative refinement for weights whose point is close to 0; kept where it brings x closer to 0."""
    C, lam, L = support.C, support.lam, support.L
    d = len(x)
    multiply(C, k, x, product)
    for i in range(k):
        product[i] = (product[i] - dot(L[i], product, i)) / L[i, i]
    for i in range(k - 1, -1, -1):
        product[i] /= L[i, i]
        for j in range(i):
            product[j] -= product[i] * L[i, j]
    total = 0.0
    for i in range(k):
        mu[i] = max(lam[i] - product[i], 0.0)
        total += mu[i]
    for i in range(k):
        mu[i] /= total
    closer = product[:d]
    mix(mu, C, k, closer)
    if dot(closer, closer, d) < dot(x, x, d):
        copy_first(mu, lam, k)
        copy_first(closer, x, d)


@jit
def drop_to_hull(k, support, used, mu, product):
    """Drop rows until the nearest point of the affine hull is in the convex hull. Returns the new number of rows.

    Leaves the weights of that point in support.lam. used: which working rows are in the support. mu, product: space.
    """
    lam = support.lam
    while True:
        nearest_in_plane(k, support.L, support.ones, mu)
        reach, leaving = 1.0, NONE
        for i in range(k):
            if mu[i] <= 1e-15:
                share = lam[i] / (lam[i] - mu[i]) if lam[i] > mu[i] else 0.0
                if share < reach:
                    reach, leaving = share, i
        if leaving < 0:
            copy_first(mu, lam, k)
            return k
        for i in range(k):
            lam[i] = max(lam[i] + reach * (mu[i] - lam[i]), 0.0)
        used[support.slots[leaving]] = False
        drop_row(leaving, k, support, mu, product)
        k -= 1


@jit
def approach(A, n_rows, k, support, used, x, most_steps, small, tolerance):
    """Move x to the nearest point of the hull of A[:n_rows]. Returns (rows in the support, steps, why it stopped).

    OPTIMAL: no row has a margin below (1 - tolerance) times |x|^2. ZERO: the sum of |x_j| is below `small`. STEPS:
    `most_steps` are done. STUCK: rounding allows no further step. FULL: the support needs more places. k: rows in the
    support now.
    """
    d = A.shape[1]
    mu, product = np.empty(d + 2), np.empty(d + 2)
    margins = np.empty(n_rows)
    steps = 0
    while True:
        square, length = dot(x, x, d), sum_magnitudes(x)
        if length >= small and square < NEAR_ZERO:
            correct_weights(k, support, x, mu, product)
            square, length = dot(x, x, d), sum_magnitudes(x)
        if length < small:
            return k, steps, ZERO
        if steps >= most_steps:
            return k, steps, STEPS
        multiply(A, n_rows, x, margins)
        least, entering = square * (1.0 - tolerance), NONE
        for i in range(n_rows):
            if margins[i] < least and not used[i]:
                least, entering = margins[i], i
        if entering < 0:
            return k, steps, OPTIMAL
        if k <= d and k >= len(support.slots):
            return k, steps, FULL
        if k > d or not add_row(A[entering], entering, k, support, product):
            return k, steps, STUCK
        used[entering] = True
        k = drop_to_hull(k + 1, support, used, mu, product)
        steps += 1
        mix(support.lam, support.C, k, x)


@jit
def list_low(scores, positives, floor, chosen, low):
    """List in `low` the unchosen labels with a margin below `floor`. Returns (their number, least margin of all).

    scores: w_i.x / ||w_i|| (+ bias). That is the margin of a positive label, and minus the margin of any other label.
    Overwritten by minus the margins.
    """
    for i in positives:
        scores[i] = -scores[i]
    highest, count = -np.inf, 0
    for i in range(len(scores)):
        highest = max(highest, scores[i])
        if scores[i] > -floor and not chosen[i]:
            low[count] = i
            count += 1
    return count, -highest


@jit
def find_gap(scores, is_positive):
    """(lowest score of the labels of the set, highest score of all others); infinite where there are none."""
    lowest, highest = np.inf, -np.inf
    for i in range(len(scores)):
        if is_positive[i]:
            lowest = min(lowest, scores[i])
        else:
            highest = max(highest, scores[i])
    return lowest, highest
