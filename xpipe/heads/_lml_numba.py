"""Kernels of the projection onto k labels and of its gradient, one row at a time.

Hold no validation and no threads. Rows lie in C-ordered matrices; a kernel fills rows first..last-1 of its outputs. A
row is read several times while it is in the cache, always in the same order: results depend on nothing but the row.

e_i = exp(x_i + nu_0) is computed once; then sigmoid(x_i + nu) = e_i / (e_i + c), c = exp(nu_0 - nu): a step needs no
exponential. The sum that decides is float64; those that only say how far to go are float32 within blocks.
"""

from __future__ import annotations

import math

import numpy as np

from xpipe.ground.accelerate import jit, jit_sums

SOLVED, UNSOLVED = 0, 1
STEPS = 24
NEAR = 0.01  # the gap of logit(mean y) that a step closes for good
ROUGH = 1e-4  # what rough sums may be wrong about nu, and more
FAR = 40.0  # of nu from nu_0 at most: up to there, what is cut off below changes no sum
CUT = np.float32(80.0)  # exponents beyond would overflow
WIDE = 16.0  # the variance of logits whose largest is worth a look
LANES = 256
BLOCK = 512  # numbers that float32 may sum up

NOTHING, ONE, HALF, LOG2_E = np.float32(0), np.float32(1), np.float32(0.5), np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # w * LN2_HIGH is exact
EXP_2, EXP_3, EXP_4 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
EXP_5, EXP_6, EXP_7 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
BIAS, MANTISSA = np.float32(127), np.float32(2**23)  # of a float32's exponent; where its bits begin


@jit
def project_rows(first, last, x, k, sign, y, nu, status):
    """y [rows, n] = sigmoid(sign * x + nu) with sum k, nu [rows], of float32 logits x; UNSOLVED rows need other means.

    k is at most n / 2. sign: 1, or -1: then y is 1 - that, the projection of x onto n - k labels.
    """
    n = x.shape[1]
    exponentials, lanes = np.empty(n, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    for row in range(first, last):
        start = find_start(x[row], k, sign, lanes)
        if not abs(start) < np.inf:
            status[row] = UNSOLVED
            continue
        fill_exponentials(x[row], np.float32(sign), np.float32(start), exponentials)
        moved, status[row] = find_root(exponentials, k, y[row])
        nu[row] = start + moved
        if sign < 0:
            fill_complements(exponentials, np.float32(math.exp(-moved)), y[row])


@jit
def find_start(x, k, sign, lanes):
    """nu_0, a float32 in float64; not finite where a logit is infinite, no number, or as large as that."""
    n = len(x)
    total, squares = add_moments(x)
    mean = total / n
    spread = max(squares / n - mean * mean, 0.0)
    # what normally distributed logits would need
    start = math.log(k / (n - k)) * math.sqrt(1 + math.pi / 8 * spread) - sign * mean
    if not abs(start) < np.inf:
        return start
    if spread > WIDE:  # then it may be far below what the largest logit allows
        start = max(start, math.log(k / (n - k)) - find_largest(x, np.float32(sign), lanes))
    return np.float64(np.float32(start))


@jit
def find_root(e, k, y):
    """(nu - nu_0, status) where the sum of y = e / (e + c) is k: Halley's steps on logit(mean y), kept in a bracket.

    Far from the root rough sums will do, and nothing is written; near it each pass fills y, and sums in float64.
    """
    n = len(e)
    goal, tolerance = math.log(k / (n - k)), 5e-7 * k
    low, high, at, gap = -FAR, FAR, 0.0, np.inf
    for _ in range(STEPS):
        c = np.float32(math.exp(-at))
        near = abs(gap) < NEAR
        total, squares, cubes = fill_shares(e, c, y) if near else add_shares(e, c)
        excess = total - k
        if near and abs(excess) <= tolerance:
            return at, SOLVED
        if excess < 0:
            low = at
        else:
            high = at
        rest = total * (n - total)
        target, gap = np.inf, np.inf
        if rest > 0:
            # logit(mean y) less its goal, and its two derivatives by nu
            gap = math.log(total / (n - total)) - goal
            slope = (total - squares) * n / rest
            bend = n * ((total - 3 * squares + 2 * cubes) - (total - squares) ** 2 * (n - 2 * total) / rest) / rest
            below = 2 * slope * slope - gap * bend
            if below > slope * slope:
                target = at - 2 * gap * slope / below
            elif slope > 0:
                target = at - gap / slope
        if abs(target - at) <= ROUGH and not near:  # rough sums may be on either side of the root
            low, high, at = low - ROUGH, high + ROUGH, target
        else:
            at = target if low < target < high else (low + high) / 2
    return at, UNSOLVED


@jit
def fill_exponentials(x, sign, shift, e):
    """e = exp(sign * x + shift), float32: 2^w times a polynomial of what is left (Cephes), which fits vectors.

    0 below -CUT: a label that far down takes no part in the gradient either.
    """
    for i in range(len(x)):
        whole = sign * x[i] + shift
        t = min(max(whole, -CUT), CUT)
        w = np.floor(t * LOG2_E + HALF)
        t = (t - w * LN2_HIGH) - w * LN2_LOW
        p = ((((EXP_7 * t + EXP_6) * t + EXP_5) * t + EXP_4) * t + EXP_3) * t + EXP_2
        p = p * t * t + t + ONE
        power = p * np.int32((w + BIAS) * MANTISSA).view(np.float32)
        e[i] = power if whole >= -CUT else NOTHING


@jit
def add_moments(x):
    """(sum of x, sum of squares), about; infinite where they are beyond float32."""
    total, squares = 0.0, 0.0
    for at in range(0, len(x), BLOCK):
        own, own_squares = add_moments_block(x[at : at + BLOCK])
        total += np.float64(own)
        squares += np.float64(own_squares)
    return total, squares


@jit_sums
def add_moments_block(x):
    total, squares = np.float32(0), np.float32(0)
    for i in range(len(x)):  # slices from 0: numba minds negative indices elsewhere
        total += x[i]
        squares += x[i] * x[i]
    return total, squares


@jit
def find_largest(x, sign, lanes):
    """The largest of sign * x: first of each lane, which takes an instruction for many, then of the lanes."""
    lanes[:] = -np.inf
    for at in range(0, len(x), LANES):
        raise_lanes(x[at : at + LANES], sign, lanes)
    return lanes.max()


@jit
def raise_lanes(x, sign, lanes):
    for i in range(len(x)):
        own = sign * x[i]
        lanes[i] = own if own > lanes[i] else lanes[i]


@jit
def add_shares(e, c):
    """(sum of y = e / (e + c), of its squares, of its cubes), about."""
    total, squares, cubes = 0.0, 0.0, 0.0
    for at in range(0, len(e), BLOCK):
        own, own_squares, own_cubes = add_shares_block(e[at : at + BLOCK], c)
        total += np.float64(own)
        squares += np.float64(own_squares)
        cubes += np.float64(own_cubes)
    return total, squares, cubes


@jit_sums
def add_shares_block(e, c):
    total, squares, cubes = np.float32(0), np.float32(0), np.float32(0)
    for i in range(len(e)):
        share = e[i] / (e[i] + c)
        square = share * share
        total += share
        squares += square
        cubes += square * share
    return total, squares, cubes


@jit
def fill_shares(e, c, y):
    """Fill y = e / (e + c); (sum of y, of its squares, of its cubes), the first as exact as float64 is."""
    total, squares, cubes = 0.0, 0.0, 0.0
    for at in range(0, len(e), BLOCK):
        own, own_squares, own_cubes = fill_shares_block(e[at : at + BLOCK], c, y[at : at + BLOCK])
        total += own
        squares += np.float64(own_squares)
        cubes += np.float64(own_cubes)
    return total, squares, cubes


@jit_sums
def fill_shares_block(e, c, y):
    total, squares, cubes = 0.0, np.float32(0), np.float32(0)
    for i in range(len(e)):
        share = e[i] / (e[i] + c)
        square = share * share
        y[i] = share
        total += np.float64(share)
        squares += square
        cubes += square * share
    return total, squares, cubes


@jit_sums
def fill_complements(e, c, y):
    """y = 1 - e / (e + c), without the rounding of a difference."""
    for i in range(len(e)):
        y[i] = c / (e[i] + c)


@jit
def pull_rows(first, last, y, grad, found):
    """found [rows, n]: the gradient by the logits, y (1 - y) (grad - its mean with weights y (1 - y))."""
    for row in range(first, last):
        weight, product = add_pulls(y[row], grad[row])
        fill_pulls(y[row], grad[row], y.dtype.type(product / weight if weight > 0 else 0.0), found[row])


@jit_sums
def add_pulls(y, grad):
    weight, product = 0.0, 0.0
    for i in range(len(y)):
        own = y[i] - y[i] * y[i]
        weight += np.float64(own)
        product += np.float64(own * grad[i])
    return weight, product


@jit_sums
def fill_pulls(y, grad, moved, found):
    for i in range(len(y)):
        found[i] = (y[i] - y[i] * y[i]) * (grad[i] - moved)
