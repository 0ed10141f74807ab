"""Randomness that depends on (seed, purpose, item) alone, and stays the same across numpy versions.

Holds no distributions: numpy changes those between versions, never the raw streams of its generators.
"""

from __future__ import annotations

import hashlib

import numpy as np


def bit_generator(seed: int, *purpose: str | int) -> np.random.Philox:
    """A counter-based bit generator for one purpose."""
    text = "/".join(map(str, (seed, *purpose)))
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little"))


def permutation(n: int, seed: int, *purpose: str | int) -> np.ndarray:
    """A random order of 0..n-1 for one purpose, int64."""
    return random_order(bit_generator(seed, *purpose), n)


def random_order(bits: np.random.Philox, n: int) -> np.ndarray:
    """A random order of 0..n-1 from the next n words of a bit generator, int64."""
    return np.argsort(bits.random_raw(n), kind="stable")
