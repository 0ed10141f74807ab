"""The one place that sets numba options."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

config: Any = numba.config
DAY = 24 * 3600


def jit(function: Callable) -> Any:
    """Compile a kernel on its first call.

    nogil: kernels run side by side in plain threads; numba's own parallel layers abort under Dask's threads (numba
    9288). cache: compiled once a machine, not once a process. Numba watches the file of the kernel it loads alone, not
    those of kernels that were compiled into it: an edited helper would go on living in its callers. So compiled code
    lies in a folder of its own for every state of a room's kernel files. Kernels call kernels of their own room only.
    """
    return _compile(function, fastmath=False)


def jit_sums(function: Callable) -> Any:
    """`jit` for a loop of float arithmetic that should run in vector lanes: additions may be done in another order.

    The order is fixed when the kernel is compiled, so results repeat on a machine. x / 0 is infinite, not an error:
    the check would keep a loop out of the lanes. NaN and infinities keep their meaning.
    """
    return _compile(function, fastmath={"reassoc", "contract"}, error_model="numpy")


def _compile(function: Callable, **options: Any) -> Any:
    before = config.CACHE_DIR
    config.CACHE_DIR = _compiled_folder(Path(function.__code__.co_filename).parent, before)
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before


@functools.lru_cache(maxsize=64)
def _compiled_folder(room: Path, chosen: str) -> str:
    """Where compiled kernels of a room are kept, in its present state; those of states long gone are dropped."""
    folder = Path(chosen) if chosen else room / "__pycache__"
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        folder = Path(_private_folder())
    stamp = f"kernels-{kernel_stamp(room)}"
    for other in folder.glob("kernels-*"):
        with contextlib.suppress(OSError):
            if other.name != stamp and other.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder / stamp)


@functools.cache
def _private_folder() -> str:
    """A folder that nobody else can write to: numba loads pickles from it. One of this process where there is none."""
    from xpipe.errors import ResourceError
    from xpipe.ground.private import private_folder

    try:
        return private_folder()
    except ResourceError:
        folder = tempfile.mkdtemp(prefix="xpipe-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


def kernel_stamp(room: Path) -> str:
    """A short digest of a folder's kernel files as they are now."""
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(room.glob("*_numba.py"))]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
