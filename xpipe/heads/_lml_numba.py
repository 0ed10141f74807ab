"""Kernels of the projection onto k labels and of its gradient, one row at a time.

Hold no validation and no threads. Rows are those of C-ordered matrices; a kernel fills rows first..last-1 of its
outputs. A row is read several times while it is in the cache, always in the same order, so results depend on the row
alone.

e_i = exp(x_i + nu_0) is computed once. Then sigmoid(x_i + nu) = e_i / (e_i + c) with c = exp(nu_0 - nu), so a step
needs no exponential. The sum that is compared with k is float64; sums that only give the size of a step are float32
within blocks.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from xpipe.ground.accelerate import jit, jit_sums

SOLVED, UNSOLVED = 0, 1
STEPS = 24
NEAR = 0.01  # below this gap of logit(mean y), the next step reaches the root
ROUGH = 1e-4  # above the error of nu that rough sums cause
FAR = 40.0  # largest |nu - nu_0|: up to there, exponents cut at -CUT change no sum
CUT = np.float32(80.0)  # larger exponents would overflow
WIDE = 16.0  # with a larger variance of the logits, the start depends on the largest one
LANES = 256
BLOCK = 512  # most numbers in a float32 sum

NOTHING, ONE, HALF, LOG2_E = np.float32(0), np.float32(1), np.float32(0.5), np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # w * LN2_HIGH is exact
EXP_2, EXP_3, EXP_4 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
EXP_5, EXP_6, EXP_7 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
BIAS, MANTISSA = np.float32(127), np.float32(2**23)  # of a float32: bias of the exponent, first bit of the exponent


@jit
def project_rows(first, last, x, k, sign, y, nu, status):
    """Fill y [rows, n] = sigmoid(sign * x + nu) with sum k, and nu [rows], for float32 logits x.

    k is at most n / 2. sign is 1 or -1; with -1, y is one minus that, the projection of x onto n - k labels. Rows with
    status UNSOLVED must be solved in another way.
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
    """The start nu_0, a float32 as float64; not finite where a logit is not finite, or squares overflow."""
    n = len(x)
    total, squares = add_moments(x)
    mean = total / n
    spread = max(squares / n - mean * mean, 0.0)
    # the root for normally distributed logits
    start = math.log(k / (n - k)) * math.sqrt(1 + math.pi / 8 * spread) - sign * mean
    if not abs(start) < np.inf:
        return start
    if spread > WIDE:  # the start may be far too low; the largest logit gives a lower bound of the root
        start = max(start, math.log(k / (n - k)) - find_largest(x, np.float32(sign), lanes))
    return np.float64(np.float32(start))


@jit
def find_root(e, k, y):
    """(nu - nu_0, status) where the sum of y = e / (e + c) is k, by Halley steps on logit(mean y) in a bracket.

    Far from the root, rough sums suffice and nothing is written. Near it, each pass fills y and sums in float64.
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
            # logit(mean y) minus its goal, and its first two derivatives by nu
            gap = math.log(total / (n - total)) - goal
            slope = (total - squares) * n / rest
            bend = n * ((total - 3 * squares + 2 * cubes) - (total - squares) ** 2 * (n - 2 * total) / rest) / rest
            below = 2 * slope * slope - gap * bend
            if below > slope * slope:
                target = at - 2 * gap * slope / below
            elif slope > 0:
                target = at - gap / slope
        if abs(target - at) <= ROUGH and not near:  # rough sums do not tell the side of the root
            low, high, at = low - ROUGH, high + ROUGH, target
        else:
            at = target if low < target < high else (low + high) / 2
    return at, UNSOLVED


@jit
def fill_exponentials(x, sign, shift, e):
    """Fill e = exp(sign * x + shift), float32: 2^w times a polynomial of the rest (Cephes), in vector lanes.

    0 below -CUT: such a label has no part in the gradient either.
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
    """(sum of x, sum of squares), approximately; infinite where they overflow float32."""
    total, squares = 0.0, 0.0
    for at in range(0, len(x), BLOCK):
        own, own_squares = add_moments_block(x[at : at + BLOCK])
        total += np.float64(own)
        squares += np.float64(own_squares)
    return total, squares


@jit_sums
def add_moments_block(x):
    """`add_moments` of one block."""
    total, squares = np.float32(0), np.float32(0)
    for i in range(len(x)):  # blocks are slices that start at 0: numba would check other indices for negative ones
        total += x[i]
        squares += x[i] * x[i]
    return total, squares


@jit
def find_largest(x, sign, lanes):
    """The largest of sign * x: first the maximum of each lane, in vector instructions, then that of the lanes."""
    lanes[:] = -np.inf
    for at in range(0, len(x), LANES):
        raise_lanes(x[at : at + LANES], sign, lanes)
    return lanes.max()


@jit
def raise_lanes(x, sign, lanes):
    """Raise each lane to sign * x where that is larger."""
    for i in range(len(x)):
        own = sign * x[i]
        lanes[i] = own if own > lanes[i] else lanes[i]


@jit
def add_shares(e, c):
    """(sum of y = e / (e + c), of its squares, of its cubes), approximately."""
    total, squares, cubes = 0.0, 0.0, 0.0
    for at in range(0, len(e), BLOCK):
        own, own_squares, own_cubes = add_shares_block(e[at : at + BLOCK], c)
        total += np.float64(own)
        squares += np.float64(own_squares)
        cubes += np.float64(own_cubes)
    return total, squares, cubes


@jit_sums
def add_shares_block(e, c):
    """`add_shares` of one block."""
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
    """Fill y = e / (e + c). Returns (sum of y, of its squares, of its cubes); the sum of y is a float64 sum."""
    total, squares, cubes = 0.0, 0.0, 0.0
    for at in range(0, len(e), BLOCK):
        own, own_squares, own_cubes = fill_shares_block(e[at : at + BLOCK], c, y[at : at + BLOCK])
        total += own
        squares += np.float64(own_squares)
        cubes += np.float64(own_cubes)
    return total, squares, cubes


@jit_sums
def fill_shares_block(e, c, y):
    """`fill_shares` of one block."""
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
    """Fill y = 1 - e / (e + c), without the rounding error of a difference."""
    for i in range(len(e)):
        y[i] = c / (e[i] + c)


@jit
def pull_rows(first, last, y, grad, found):
    """Fill found [rows, n], the gradient of the logits: y (1 - y) (grad - mean of grad weighted by y (1 - y))."""
    for row in range(first, last):
        weight, product = add_pulls(y[row], grad[row])
        fill_pulls(y[row], grad[row], y.dtype.type(product / weight if weight > 0 else 0.0), found[row])


@jit_sums
def add_pulls(y, grad):
    """(sum of the weights y (1 - y), sum of the weighted gradients)."""
    weight, product = 0.0, 0.0
    for i in range(len(y)):
        own = y[i] - y[i] * y[i]
        weight += np.float64(own)
        product += np.float64(own * grad[i])
    return weight, product


@jit_sums
def fill_pulls(y, grad, moved, found):
    """Fill the gradient of one row; moved: the weighted mean of `grad`."""
    for i in range(len(y)):
        found[i] = (y[i] - y[i] * y[i]) * (grad[i] - moved)
