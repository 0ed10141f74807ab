"""A process that local workers are forked from. It has imported what they need, so that none of them imports it again.

Starts no worker: `multiprocessing` asks the process for them, now or later. It ends with this process. A worker that
is spawned instead takes seconds to import the same modules, but is in every other respect the same.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping

from xpipe.engine.cluster.scratch import scratch_folder
from xpipe.ground.library_threads import ONE_THREAD

PRELOADED = (  # what most calls import, lazily or not. None starts a thread, which forks would lose
    "distributed", "numba", "numba.np.arraymath", "pyarrow.parquet", "pyarrow.compute", "scipy.sparse", "scipy.special",
    "xpipe.stages", "xpipe.engine.cluster.calls", "xpipe.engine.cluster.local", "xpipe.formats.statistics",
    "xpipe.synth.rows",
)  # fmt: skip
PRELOADED_LIKE_HERE = ("torch", "pandas")  # only some runs need them: those that have imported them already
# Modules may read these variables when they are imported. Others reach a worker through Dask.
READ_BY_IMPORTS = ("DASK_", "HOME", "LD_", "NUMBA_", "PYTHONPATH", "TMPDIR", "XDG_", "XPIPE_")
# Importing from the current folder would take a user's `token.py` for Python's.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def start_method() -> str:
    """How Dask is to start workers: "forkserver", which then runs, or "spawn" where it cannot serve."""
    if sys.platform != "linux":  # libraries of macOS do not survive a fork
        return "spawn"
    environment = environment_of_server()
    return "forkserver" if environment is not None and _reaches_workers(environment, os.environ) else "spawn"


@functools.cache
def environment_of_server() -> dict[str, str] | None:
    """Start the process that forks, once. Returns the environment it has, or None if it cannot be started."""
    try:
        _start()
    except OSError:  # such as a temporary folder whose path is too long for a socket
        return None
    return {name: value for name, value in os.environ.items() if name not in ONE_THREAD}  # these are set for a worker


def _reaches_workers(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a fork of a process that has the variables `before` can get those of `now`."""
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return not any(name not in now or name.startswith(READ_BY_IMPORTS) for name in changed)


def _start() -> None:
    """Start the process. It imports while this one goes on. Raises OSError."""
    from multiprocessing import forkserver
    from multiprocessing.util import Finalize

    import distributed.utils

    # Without this, Dask would import pandas here, only to name it to a process that runs already.
    distributed.utils._forkserver_preload_set = True
    forkserver.set_forkserver_preload([*PRELOADED, *(name for name in PRELOADED_LIKE_HERE if name in sys.modules)])
    with contextlib.ExitStack() as parts:
        folder = parts.enter_context(scratch_folder())
        with _temporary_folder(folder), _variables({**ONE_THREAD, **SAFE_PATH}):
            forkserver.ensure_running()
        Finalize(None, parts.pop_all().close, exitpriority=-1_000)  # after multiprocessing's own, which has -100


@contextlib.contextmanager
def _temporary_folder(folder: str) -> Iterator[None]:
    """Let `multiprocessing` keep its socket in a folder that is removed even if this process is killed."""
    before = tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
