"""What a stand-in's model is drawn with: seeded bits, Zipf weights, alias tables, and tables of row lengths.

Holds no labels and no words. Only the raw stream of a bit generator is used: numpy never changes it, unlike its
distributions.
"""

from __future__ import annotations

import hashlib

import numpy as np

from xpipe.synth._alias_numba import AliasTable, fill_alias

QUANTILES = 4096  # resolution of the tables of row lengths; a power of two
QUANTILE_BITS = 12


def bits_for(seed: int, *purpose: str) -> np.random.Philox:
    """A bit generator for one purpose."""
    digest = hashlib.sha256("/".join(("synth", *purpose)).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").astype(np.uint32)
    return np.random.Philox(np.random.SeedSequence([seed, *words.tolist()]))


def uniform(bits: np.random.Philox, shape: int | tuple[int, ...]) -> np.ndarray:
    """Random numbers from 0 to below 1, float64."""
    raw = bits.random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


def zipf(n: int, offset: float, exponent: float) -> np.ndarray:
    """Zipf-Mandelbrot weights of n ranks, which add up to 1."""
    weights = (np.arange(n) + 1 + offset) ** -exponent
    shares: np.ndarray = weights / weights.sum()
    return shares


def alias_table(weights: np.ndarray) -> AliasTable:
    """Walker's alias table: draws an item with a chance in proportion to its weight, in constant time."""
    table = AliasTable(np.empty(len(weights), dtype=np.uint32), np.empty(len(weights), dtype=np.int32))
    fill_alias(weights * (len(weights) / weights.sum()), table)
    return table


def poisson_quantiles(mean: float, highest: int) -> np.ndarray:
    """Quantiles of 1 + Poisson(mean - 1), int64: the labels per row."""
    rate, n = mean - 1, min(highest, int(mean * 4 + 40))
    steps = np.concatenate([[-rate], np.log(rate) - np.log(np.arange(1, n))])
    cumulated = np.cumsum(np.exp(np.cumsum(steps)))
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return 1 + np.minimum(np.searchsorted(cumulated, levels), n - 1).astype(np.int64)


def lognormal_quantiles(mean: float, spread: float, highest: int) -> np.ndarray:
    """Quantiles of a rounded log-normal within 4..highest whose mean is exact, int64: the features per row."""
    from scipy.special import ndtri

    shape = np.exp(spread * ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES))
    low, high = 0.0, 2.0 * mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.rint(shape * middle).clip(4, highest).mean() < mean else (low, middle)
    rounded: np.ndarray = np.rint(shape * high).clip(4, highest)
    return rounded.astype(np.int64)


def lengths_of_rows(quantiles: np.ndarray, key: np.uint64, multiplier: int, rows: np.ndarray) -> np.ndarray:
    """Lengths of rows from a table of quantiles, int64.

    The rows visit the table evenly (a Weyl sequence), so that averages hold for any number of rows.
    """
    position = rows.astype(np.uint64) * np.uint64(multiplier) + key
    return quantiles[(position >> np.uint64(64 - QUANTILE_BITS)).astype(np.int64)]
