"""The projection onto k labels on a CPU in float32: compiled kernels, rows cut over threads.

Holds no kernels and nothing for rows that they leave unsolved. A row is computed by one thread: how many there are
(`torch.get_num_threads()`) changes no result.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

WORTH = 1 << 16  # numbers: a matrix with fewer is done before another thread has begun
PIECES = 4  # a thread: whoever is held up leaves rows to the others


def fits(tensor: torch.Tensor) -> bool:
    """Whether there are kernels for it."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def project(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y [rows, n], nu [rows, 1] in float64, which rows are solved) of logits [rows, n], 1 <= k < n."""
    from xpipe.heads import _lml_numba

    x = x.contiguous()
    n_rows, n = x.shape
    y, nu, status = torch.empty_like(x), np.empty(n_rows), np.empty(n_rows, dtype=np.uint8)
    sign, few = mirror(n, k)
    run_rows(_lml_numba.project_rows, n_rows, n, x.numpy(), few, sign, y.numpy(), nu, status)
    return y, torch.from_numpy(sign * nu)[:, None], torch.from_numpy(status == _lml_numba.SOLVED)


def pull(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient by the logits, of probabilities [..., n] and the gradient by them."""
    from xpipe.heads import _lml_numba

    n = y.shape[-1]
    y, grad = y.contiguous(), grad.contiguous()
    found = torch.empty_like(y)
    arrays = [part.numpy().reshape(-1, n) for part in (y, grad, found)]
    run_rows(_lml_numba.pull_rows, len(arrays[0]), n, *arrays)
    return found


def balance(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weights y (1 - y) [rows, n], their sums [rows], nu [rows], which rows are solved); sums and nu in float64."""
    from xpipe.heads import _lml_balance_numba as kernels

    x = x.contiguous()
    n_rows, n = x.shape
    weights, sums, nu = torch.empty_like(x), np.ones(n_rows), np.zeros(n_rows)
    status = np.empty(n_rows, dtype=np.uint8)
    sign, few = mirror(n, k)
    run_rows(kernels.balance_rows, n_rows, n, x.numpy(), few, sign, weights.numpy(), sums, nu, status)
    return weights, torch.from_numpy(sums), torch.from_numpy(sign * nu), torch.from_numpy(status == kernels.SOLVED)


def mirror(n: int, k: int) -> tuple[float, int]:
    """(sign of the logits, labels to choose): at most half, as 1 - sigmoid(u) = sigmoid(-u)."""
    return (-1.0, n - k) if 2 * k > n else (1.0, k)


def run_rows(kernel: Callable, n_rows: int, n: int, *arrays: Any) -> None:
    """kernel(first, last, *arrays) of all rows, by this thread and as many others as torch may use."""
    threads = min(torch.get_num_threads(), n_rows)
    if threads < 2 or n_rows * n < WORTH:
        kernel(0, n_rows, *arrays)
        return
    size = -(-n_rows // (PIECES * threads))
    starts = itertools.count(0, size)  # next() of it is one step for threads

    def work() -> None:
        while (first := next(starts)) < n_rows:
            kernel(first, min(first + size, n_rows), *arrays)

    others = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="xpipe-heads")


os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads stay behind
