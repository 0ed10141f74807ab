"""Randomness that depends on (seed, purpose, item) alone, and stays the same across numpy versions."""

from __future__ import annotations

import hashlib

import numpy as np


def bit_generator(seed: int, *purpose: str | int) -> np.random.Philox:
    """A counter-based generator for one purpose; its raw stream never changes, unlike numpy's distributions."""
    text = "/".join(map(str, (seed, *purpose)))
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little"))


def permutation(n: int, seed: int, *purpose: str | int) -> np.ndarray:
    """A random order of 0..n-1, int64."""
    return np.argsort(bit_generator(seed, *purpose).random_raw(n), kind="stable")
