"""How long numba compiles kernels in this process. Compiles nothing itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def compile_time() -> Iterator[list[float]]:
    """A list with the seconds of every compilation inside the block; kernels from the cache are not compiled.

    Examples
    --------
    >>> from xpipe.ground.compile_time import compile_time
    >>> with compile_time() as seconds:
    ...     pass
    >>> sum(seconds)
    0
    """
    from numba.core import event

    timed: list[float] = []
    install: Any = event.install_timer
    with install("numba:compile", timed.append):
        yield timed
