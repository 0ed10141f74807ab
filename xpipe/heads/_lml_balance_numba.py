"""Kernels for the LML loss: the root nu of the projection and the weights y (1 - y), one row at a time.

Hold no validation and no threads. Where a row saturates, all y round to 0 or 1 in float32, and sum(y) = k no longer
determines nu. But 1 - y of the labels above 1/2 and y of the others are small numbers that float32 holds well. Their
sums are equal at the root, and the logarithms of these sums are almost linear in nu.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from xpipe.ground.accelerate import jit, jit_sums
from xpipe.heads._lml_numba import BLOCK, FAR, LANES, SOLVED, UNSOLVED, fill_exponentials, find_root, find_start

PASSES = 16
NEAR = 1e-6  # a step of nu this small changes no weight by more than this, relatively
LONGEST = 20.0  # longest step
LEAST = 1e-10  # least sum of weights: logits further from -nu lose digits when nu is added in float32

NOTHING, ONE = np.float32(0), np.float32(1)


@jit
def balance_rows(first, last, x, k, sign, weights, sums, nu, status):
    """Fill weights [rows, n] = y (1 - y), their sums [rows], and nu [rows], for y = sigmoid(sign * x + nu) with sum k.

    k is at most n / 2. Rows with status UNSOLVED must be solved in another way.
    """
    n = x.shape[1]
    exponentials, lanes = np.empty(n, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    for row in range(first, last):
        status[row] = UNSOLVED
        start = find_start(x[row], k, sign, lanes)
        if not abs(start) < np.inf:
            continue
        fill_exponentials(x[row], np.float32(sign), np.float32(start), exponentials)
        at, found = find_root(exponentials, k, weights[row])
        if found != SOLVED:
            continue
        moved, sums[row], status[row] = balance_row(exponentials, k, at, weights[row])
        nu[row] = start + moved


@jit
def balance_row(e, k, at, weights):
    """(nu - nu_0, sum of the weights, status), by Newton steps on the logarithms of both sums.

    at: where to begin, a root of sum(y) = k, which may be one of many.
    """
    for _ in range(PASSES):
        if not abs(at) < FAR:
            break
        lack, lack_weight, rest, rest_weight, above = fill_balance(e, np.float32(math.exp(-at)), weights)
        left, right = lack + max(k - above, 0.0), rest + max(above - k, 0.0)
        whole = lack_weight + rest_weight
        if not (left > 0 and right > 0 and whole >= LEAST):
            break
        step = (left - right) / whole
        if abs(step) <= NEAR:
            return at + step, whole, SOLVED
        step = math.log(left / right) / (lack_weight / left + rest_weight / right)
        at += min(max(step, -LONGEST), LONGEST)
    return at, 0.0, UNSOLVED


@jit
def fill_balance(e, c, weights):
    """Fill weights = y (1 - y), with y = e / (e + c).

    Returns the sums of 1 - y and of the weights over the labels with y > 1/2, the sums of y and of the weights over the
    others, and the number of labels with y > 1/2.
    """
    lack, lack_weight, rest, rest_weight, above = 0.0, 0.0, 0.0, 0.0, 0.0
    for at in range(0, len(e), BLOCK):
        own = fill_balance_block(e[at : at + BLOCK], c, weights[at : at + BLOCK])
        lack += np.float64(own[2])
        lack_weight += np.float64(own[3])
        rest += np.float64(own[0]) - np.float64(own[2])
        rest_weight += np.float64(own[1]) - np.float64(own[3])
        above += np.float64(own[4])
    return lack, lack_weight, rest, rest_weight, above


@jit_sums
def fill_balance_block(e, c, weights):
    """`fill_balance` of one block, in float32: a relative error of 1e-7 of both sums moves nu by as much."""
    small_sum, weight_sum, lack, lack_weight, above = NOTHING, NOTHING, NOTHING, NOTHING, NOTHING
    for i in range(len(e)):
        own = e[i]
        is_above = ONE if own > c else NOTHING  # a factor: branches and min() would prevent vector code
        small = (c if own > c else own) / (own + c)
        weight = small - small * small
        weights[i] = weight
        small_sum += small
        weight_sum += weight
        lack += is_above * small
        lack_weight += is_above * weight
        above += is_above
    return small_sum, weight_sum, lack, lack_weight, above
