"""The one place that sets numba options: how kernels are compiled, and where compiled kernels are kept.

Holds no kernels.
"""

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
GROUND = Path(__file__).parent  # its kernels may be called by those of any room


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel on its first call.

    nogil: kernels run side by side in plain threads. Numba's own parallel layers abort under Dask's threads (numba
    issue 9288). cache: a kernel is compiled once per machine, not once per process.

    Numba's cache only checks the file of the kernel that it loads, not the files of kernels that were compiled into
    it, so a caller would keep an old version of an edited kernel. Therefore each state of the kernel files has its own
    cache folder. A kernel may call kernels of its own room and of the ground only: these are the files that count.
    """
    return _compile(function, fastmath=False)


def jit_inline(function: Callable[..., Any]) -> Any:
    """`jit` for a step of a kernel, which is always compiled into its callers.

    A call that passes several NamedTuples of arrays copies more than a hundred words. That costs more than a short
    step does.
    """
    return _compile(function, fastmath=False, forceinline=True)


def jit_sums(function: Callable[..., Any]) -> Any:
    """`jit` for loops of float arithmetic that should run in vector lanes: the compiler may reorder additions.

    The order is fixed when the kernel is compiled, so results repeat on a machine. x / 0 is infinite, not an error,
    because the check would prevent vector code. NaN and infinities keep their meaning.
    """
    return _compile(function, fastmath={"reassoc", "contract"}, error_model="numpy")


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function with the options of all kernels and some of its own."""
    before = config.CACHE_DIR
    config.CACHE_DIR = _compiled_folder(Path(function.__code__.co_filename).parent, before)
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before


@functools.lru_cache(maxsize=64)
def _compiled_folder(room: Path, chosen: str) -> str:
    """The cache folder of a room's kernels in their present state. Folders of old states are removed after a day."""
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
    """A folder that only this user can write to, because numba loads pickles from it.

    Where there is no such folder, a temporary one of this process.
    """
    from xpipe.errors import ResourceError
    from xpipe.ground.private import private_folder

    try:
        return private_folder()
    except ResourceError:
        folder = tempfile.mkdtemp(prefix="xpipe-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


def kernel_stamp(room: Path) -> str:
    """A short digest of the names, sizes and times of the kernel files of a room and of the ground."""
    paths = [path for folder in dict.fromkeys((room, GROUND)) for path in sorted(folder.glob("*_numba.py"))]
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
