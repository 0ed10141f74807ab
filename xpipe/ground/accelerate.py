"""The one place that sets numba options: how kernels are compiled, and where compiled kernels are kept.

Holds no kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import caching
from numba.extending import models, register_model, typeof_impl

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
    return Kernel(function, fastmath=False)


def jit_inline(function: Callable[..., Any]) -> Any:
    """`jit` for a step of a kernel, which is always compiled into its callers.

    A call that passes several NamedTuples of arrays copies more than a hundred words. That costs more than a short
    step does.
    """
    return Kernel(function, fastmath=False, forceinline=True)


def jit_sums(function: Callable[..., Any]) -> Any:
    """`jit` for loops of float arithmetic that should run in vector lanes: the compiler may reorder additions.

    The order is fixed when the kernel is compiled, so results repeat on a machine. x / 0 is infinite, not an error,
    because the check would prevent vector code. NaN and infinities keep their meaning.
    """
    return Kernel(function, fastmath={"reassoc", "contract"}, error_model="numpy")


class Kernel:
    """A function that is compiled on its first call, once for calls from Python, and once for calls from kernels.

    What Python calls is kept on disk. It has an entrance that takes Python's arguments apart, and for NamedTuples of
    arrays that entrance is more code than many kernels are. What kernels call needs no entrance, and is compiled into
    what Python calls. No kernel of the rooms is called from both sides, so none is compiled twice.
    """

    def __init__(self, function: Callable[..., Any], **options: Any):
        functools.update_wrapper(self, function)
        options |= {"nogil": True, "no_cfunc_wrapper": True}
        jit: Any = numba.njit
        self.step = jit(no_cpython_wrapper=True, **options)(function)
        before = config.CACHE_DIR, getattr(config, "CACHE_LOCATOR_CLASSES", "")
        config.CACHE_DIR = kernel_folder(Path(function.__code__.co_filename).parent, before[0])
        config.CACHE_LOCATOR_CLASSES = f"{KernelLocator.__module__}.{KernelLocator.__qualname__}"
        try:
            self.whole = jit(cache=True, **options)(function)
        finally:
            config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before

    def __call__(self, *arguments: Any) -> Any:
        """Call it from Python."""
        return self.whole(*arguments)


class StepType(types.Dispatcher):
    """What a kernel is for the compiler, where another kernel names it."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The types of a call. A number that is known, such as 0, is of no type of its own: that would be a kernel."""
        plain: Any = types.unliteral
        return super().get_call_type(context, tuple(map(plain, args)), {name: plain(one) for name, one in kws.items()})


register_model(StepType)(models.OpaqueModel)


@typeof_impl.register(Kernel)
def _type_of_step(kernel: Kernel, _: Any) -> StepType:
    return StepType(kernel.step)


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
