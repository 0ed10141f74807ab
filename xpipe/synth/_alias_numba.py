"""Kernels that draw from weights in constant time: Walker's alias tables.

Holds no random generator: 64 random bits come in.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit

SHIFT_32 = np.uint64(32)
LOW_32 = np.uint64(0xFFFFFFFF)


class AliasTable(NamedTuple):
    """Walker's alias table: cell i holds item i with a chance of threshold[i] / 2**32, else item alias[i]."""

    threshold: np.ndarray  # uint32
    alias: np.ndarray  # int32


@jit
def scale(bits, n):
    """The upper 32 of 64 random bits as an integer in 0..n-1 (n < 2**31)."""
    return np.int64(((bits >> SHIFT_32) * np.uint64(n)) >> SHIFT_32)


@jit
def draw_alias(bits, table):
    """One item of an alias table: the upper bits choose the cell, the lower bits the cell's item or its alias."""
    cell = scale(bits, len(table.threshold))
    return np.int64(table.alias[cell]) if (bits & LOW_32) >= np.uint64(table.threshold[cell]) else cell


@jit
def fill_alias(weights, table):
    """Fill the alias table of weights whose mean is 1. The weights are overwritten."""
    threshold, alias = table.threshold, table.alias
    n = len(weights)
    small = np.empty(n, np.int64)
    large = np.empty(n, np.int64)
    n_small = 0
    n_large = 0
    for i in range(n):
        threshold[i] = 0xFFFFFFFF
        alias[i] = i
        if weights[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        s = small[n_small]
        b = large[n_large - 1]
        threshold[s] = np.uint32(min(weights[s] * 4294967296.0, 4294967295.0))
        alias[s] = b
        weights[b] -= 1.0 - weights[s]
        if weights[b] < 1.0:
            n_large -= 1
            small[n_small] = b
            n_small += 1
