"""Where PyTorch computes: the device, and the number of its threads on the CPU.

Holds no model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from xpipe.errors import BackendError


def choose_device(name: str) -> torch.device:
    """The device "cpu", "cuda", or for "auto" cuda if it can compute. Raises BackendError for an unusable "cuda"."""
    if name == "cpu":
        return torch.device("cpu")
    why = "PyTorch sees no CUDA device"
    if torch.cuda.is_available():
        try:
            if float((torch.ones(8, 8, device="cuda") @ torch.ones(8, device="cuda")).sum()) == 64.0:
                return torch.device("cuda")
            why = "the device computes wrong results"
        except RuntimeError as error:
            why = str(error).splitlines()[0]
    if name == "cuda":
        raise BackendError("`device: cuda` was asked for, but cannot be used here", why=why, fix="device auto or cpu")
    return torch.device("cpu")


@contextlib.contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Let PyTorch use this number of threads; restored after each use."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
