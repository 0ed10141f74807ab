"""Work in threads: pieces of a range, or every n-th item.

Holds no work. Which thread takes which part must change no byte.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xpipe.ground.machine import usable_cores

PARTS_PER_THREAD = 4


def in_pieces(n: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call work(first, last) for pieces of range(n), in threads."""
    cuts = np.linspace(0, n, 16 * threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


def in_parts(work: Callable[[slice], None], threads: int | None) -> None:
    """Call `work` with the parts of what there is to do: part k of n is every n-th item from item k on."""
    threads = threads or usable_cores()
    parts = PARTS_PER_THREAD * threads
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(part, None, parts) for part in range(parts)]))


def part_of(numbers: np.ndarray, part: slice) -> np.ndarray:
    """A part of `in_parts`, back to back: every n-th number is another kind of array, and would be another kernel."""
    return np.ascontiguousarray(numbers[part])
