"""One thread for every numerical library while xpipe computes, so that thread pools change no byte of the output.

Holds no stage and starts no threads. BLAS, OpenMP and PyTorch cut sums by the number of their threads, and a sum in
another order gives other bits. xpipe's own threads are plain ones: their number changes no result.

A library gets its number of threads in one of three ways:
- It reads the environment when it is loaded. `ONE_THREAD` is set before that: by `start_with_one_thread` in a process
  of our own, by `while_executing` in a process of the user.
- It has one number for the process (OpenBLAS, MKL, BLIS). This is set through threadpoolctl.
- It has a number for each thread of the process (OpenMP, PyTorch). Each thread that computes sets its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Nothing for numba: xpipe's kernels do not use its threads, and it refuses to change their number once they run.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",  # Accelerate of macOS: nothing else limits it
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)

_lock = threading.RLock()
_computing = 0  # open blocks, of all threads together
_executing = 0  # those that also set the environment
_numbers: dict[str, int] = {}  # library -> its threads before the first block was opened
_torch_number: int | None = None
_environment: dict[str, str | None] = {}


def start_with_one_thread() -> None:
    """Give one thread to every library that is loaded from now on. For a process that runs nothing but xpipe."""
    os.environ.update(ONE_THREAD)


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Give one thread to every loaded library inside the block.

    The limits belong to the process, so open blocks are counted: the first one to open saves the numbers, the last one
    to close restores them. A thread that closes its block while others are open keeps one OpenMP thread.
    """
    global _computing  # noqa: PLW0603
    with _lock:
        if not _computing:
            _remember()
        _computing += 1
        _limit()  # also if a block is open already: another thread may have opened it, or a library may be new
    try:
        yield
    finally:
        with _lock:
            _computing -= 1
            if not _computing:
                _restore()


@contextlib.contextmanager
def while_executing() -> Iterator[None]:
    """`one_thread_each`, also for libraries that are loaded and processes that are started inside the block."""
    global _executing  # noqa: PLW0603
    with _lock:
        if not _executing:
            _environment.update({name: os.environ.get(name) for name in ONE_THREAD})
            os.environ.update(ONE_THREAD)
        _executing += 1
    try:
        with one_thread_each():
            yield
    finally:
        with _lock:
            _executing -= 1
            if not _executing:
                for name, value in _environment.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value


def _libraries() -> list[Any]:
    """The loaded libraries that have a number of threads. Looking for them takes milliseconds, so they are kept."""
    global _known  # noqa: PLW0603
    from threadpoolctl import ThreadpoolController

    loads = _count_loads()
    if loads is None or loads != _known[0]:
        found = ThreadpoolController().lib_controllers
        _known = loads, [library for library in found if library.num_threads is not None]  # None: no such number
    return _known[1]


class _LoadedObject(ctypes.Structure):
    """struct dl_phdr_info of <link.h>."""

    _fields_ = (
        ("dlpi_addr", ctypes.c_void_p),
        ("dlpi_name", ctypes.c_char_p),
        ("dlpi_phdr", ctypes.c_void_p),
        ("dlpi_phnum", ctypes.c_uint16),
        ("dlpi_adds", ctypes.c_ulonglong),
        ("dlpi_subs", ctypes.c_ulonglong),
    )


def _count_loads() -> tuple[int, int] | None:
    """How often this process has loaded and unloaded a library; None where the system does not count."""
    found: list[tuple[int, int]] = []

    def look(info: Any, size: int, _data: Any) -> int:
        if size >= ctypes.sizeof(_LoadedObject):
            found.append((info.contents.dlpi_adds, info.contents.dlpi_subs))
        return 1  # the counts are those of the process: one object is enough

    try:
        iterate = ctypes.CDLL(None).dl_iterate_phdr
    except (OSError, AttributeError, TypeError):
        return None
    iterate(_LOOK(look), None)
    return found[0] if found else None


_LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p)
_known: tuple[tuple[int, int] | None, list[Any]] = (None, [])


def _set_number(library: Any, number: int) -> None:
    """Set the number of threads of a library.

    From release 3.8 on, threadpoolctl ignores every thread but the first one that set a number of OpenBLAS.
    """
    free_control = getattr(library, "clear_controlling_thread", lambda force: None)
    free_control(force=True)
    library.set_num_threads(number)
    free_control(force=True)


def _torch() -> Any:
    """PyTorch if it is loaded completely, else None: another thread may be importing it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") and hasattr(torch, "get_num_threads") else None


def _remember() -> None:
    """Save the numbers of threads as they are."""
    global _torch_number  # noqa: PLW0603
    _numbers.clear()
    _numbers.update({library.filepath: library.num_threads for library in _libraries()})
    _torch_number = torch.get_num_threads() if (torch := _torch()) else None


def _limit() -> None:
    """Give one thread to every loaded library."""
    for library in _libraries():
        _set_number(library, 1)
    if torch := _torch():
        torch.set_num_threads(1)


def _restore() -> None:
    """Restore the saved numbers. Libraries that were loaded in between get the number they would have chosen."""
    usual = _usual_number()
    if torch := _torch():
        torch.set_num_threads(_torch_number or usual)
    for library in _libraries():  # after torch, which sets the number of OpenMP
        _set_number(library, _numbers.get(library.filepath, usual))


def _usual_number() -> int:
    """The number of threads that a library chooses by itself."""
    from xpipe.ground.machine import usable_cores

    asked = (_environment if _executing else os.environ).get("OMP_NUM_THREADS") or ""
    return int(asked) if asked.isdigit() and int(asked) else usable_cores()
