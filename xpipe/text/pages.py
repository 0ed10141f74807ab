"""Arrays in pages of their own, which the system has back as soon as they are freed.

Holds no other memory. `malloc` keeps what it is given back for later: tables that grow and chunks that wait would then
count twice.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import DTypeLike

SMALLEST = 1 << 16  # bytes; what is smaller may stay with malloc


def zeros(size: int, kind: DTypeLike) -> np.ndarray:
    """A one-dimensional array of zeros. Its pages take memory when they are written."""
    n_bytes = size * np.dtype(kind).itemsize
    if n_bytes < SMALLEST:
        return np.zeros(size, dtype=kind)
    # private: the system joins neighbouring pieces, of which it allows a limited number
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype=kind, count=size)


def copy_of(array: np.ndarray, kind: DTypeLike) -> np.ndarray:
    """A copy of a one-dimensional array."""
    copy = zeros(len(array), kind)
    copy[:] = array
    return copy
