"""The one place that sets numba options: how kernels are compiled, and where compiled kernels are kept.

Holds no kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from xpipe.ground.kernel_folder import kernel_folder

config: Any = numba.config


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel on its first call.

    nogil: kernels run side by side in plain threads. Numba's own parallel layers abort under Dask's threads (numba
    issue 9288). cache: a kernel is compiled once per machine, not once per process.

    Numba's cache only checks the file of the kernel that it loads, not the files of kernels that were compiled into
    it, so a caller would keep an old version of an edited kernel. Therefore each content of the kernel files has a
    cache folder of its own (`kernel_folder`), wherever they are installed. A kernel may call kernels of its own room
    and of the ground only: these are the files that count.
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
    before = config.CACHE_DIR, getattr(config, "CACHE_LOCATOR_CLASSES", "")
    config.CACHE_DIR = kernel_folder(Path(function.__code__.co_filename).parent, before[0])
    config.CACHE_LOCATOR_CLASSES = f"{KernelLocator.__module__}.{KernelLocator.__qualname__}"
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before


class KernelLocator(caching._CacheLocator):
    """Where numba keeps a kernel: the folder is named after the content of the files, so nothing else is compared.

    Numba's own locators compare times of files, which every installation changes, and paths.
    """

    def __init__(self, function: Callable[..., Any]):
        self._folder = str(config.CACHE_DIR)
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """The folder of the compiled kernel."""
        return self._folder

    def get_source_stamp(self) -> str:
        """The same for all: another content has another folder."""
        return ""

    def get_disambiguator(self) -> str:
        """What tells kernels of one name in one file apart."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> KernelLocator:
        """The place of a kernel. Numba names the arguments."""
        return cls(py_func)
