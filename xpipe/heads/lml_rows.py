"""The projection onto k labels on a CPU in float32: calls of compiled kernels, with rows spread over threads.

Holds no kernels, and nothing for rows that they leave unsolved. Each row is computed by one thread, so the number of
threads (`torch.get_num_threads()`) changes no result.
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

WORTH = 1 << 16  # a matrix with fewer numbers is done before another thread has started
PIECES = 4  # per thread, so that a slow thread leaves rows to the others


def fits(tensor: torch.Tensor) -> bool:
    """Whether there are kernels for this tensor."""
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
    """The gradient of the logits, from probabilities [..., n] and the gradient of these."""
    from xpipe.heads import _lml_numba

    n = y.shape[-1]
    y, grad = y.contiguous(), grad.contiguous()
    found = torch.empty_like(y)
    arrays = [part.numpy().reshape(-1, n) for part in (y, grad, found)]
    run_rows(_lml_numba.pull_rows, len(arrays[0]), n, *arrays)
    return found


def balance(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weights y (1 - y) [rows, n], their sums [rows], nu [rows], which rows are solved); sums and nu in float64."""
    from xpipe.heads import _lml_balance_numba, _lml_numba

    x = x.contiguous()
    n_rows, n = x.shape
    weights, sums, nu = torch.empty_like(x), np.ones(n_rows), np.zeros(n_rows)
    status = np.empty(n_rows, dtype=np.uint8)
    sign, few = mirror(n, k)
    run_rows(_lml_balance_numba.balance_rows, n_rows, n, x.numpy(), few, sign, weights.numpy(), sums, nu, status)
    solved = torch.from_numpy(status == _lml_numba.SOLVED)
    return weights, torch.from_numpy(sums), torch.from_numpy(sign * nu), solved


def mirror(n: int, k: int) -> tuple[float, int]:
    """(sign of the logits, labels to choose): at most half of the labels, as 1 - sigmoid(u) = sigmoid(-u)."""
    return (-1.0, n - k) if 2 * k > n else (1.0, k)


def run_rows(kernel: Callable[..., None], n_rows: int, n: int, *arrays: Any) -> None:
    """Call kernel(first, last, *arrays) for all rows, by this thread and the others that torch may use."""
    threads = min(torch.get_num_threads(), n_rows)
    if threads < 2 or n_rows * n < WORTH:
        kernel(0, n_rows, *arrays)
        return
    size = -(-n_rows // (PIECES * threads))
    starts = itertools.count(0, size)  # next() on it is atomic

    def work() -> None:
        while (first := next(starts)) < n_rows:
            kernel(first, min(first + size, n_rows), *arrays)

    others = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    """The threads of this process."""
    return ThreadPoolExecutor(threads, thread_name_prefix="xpipe-heads")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of its threads
