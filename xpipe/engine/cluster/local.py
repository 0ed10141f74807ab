"""Worker processes on this machine, which only their own run can reach. `dask_calls` hands out the calls.

Every connection is encrypted, and needs a key that is made for the run and kept in memory. Nothing listens beyond
loopback.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from xpipe.engine.cluster.dask_calls import RETRIES, SILENCE, DaskCluster, silence_dask
from xpipe.engine.cluster.fork_server import start_method
from xpipe.engine.cluster.scratch import scratch_folder
from xpipe.errors import ResourceError
from xpipe.ground.library_threads import ONE_THREAD
from xpipe.ground.quantities import parse_bytes, parse_duration

STARTS = 3  # attempts to start the workers, in case one of them is killed meanwhile
LOOPBACK = "127.0.0.1"


def dask_settings(scratch: str) -> dict[str, Any]:
    """Dask's settings for local workers. scratch: the folder for temporary files."""
    return {
        # Workers hold no data: nothing can be spilled, and a paused worker would wait for memory for ever.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": 0.95,
        "distributed.scheduler.allowed-failures": RETRIES,
        # A slow worker is not dead. A dead process closes its connections, which is noticed at once.
        "distributed.scheduler.worker-ttl": None,
        "distributed.comm.timeouts.connect": "2 minutes",  # asking a worker that has just died takes as long
        "distributed.comm.timeouts.tcp": "10 minutes",
        "temporary-directory": scratch,
        # Dask starts a web server even without the dashboard. Without routes it serves nothing.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }


class LocalWorkers(DaskCluster):
    """`cluster: local`: worker processes that are started at the first call."""

    def _open(self, parts: contextlib.ExitStack) -> Any:
        """Start the workers, several times if need be. Returns the connected client."""
        import dask

        silence_dask()
        scratch = parts.enter_context(scratch_folder())
        parts.enter_context(dask.config.set(dask_settings(scratch)))
        for attempt in range(1, STARTS + 1):
            try:
                return self._start(parts, scratch, forking=attempt == 1)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                if attempt == STARTS:
                    raise ResourceError(
                        f"the local workers did not start, {STARTS} times",
                        why=why,
                        fix="lower cluster.workers, raise cluster.worker_timeout, or use cluster: none",
                    ) from error
                self.says.note(f"the local workers did not start ({why}); starting them again")
        raise AssertionError  # the last attempt returns or raises

    def _start(self, parts: contextlib.ExitStack, scratch: str, forking: bool) -> Any:
        """Start the workers once, as forks where that can be. Returns the connected client."""
        import dask
        from distributed import Client, LocalCluster, Security

        security = Security.temporary()
        with interrupts_for_us_alone(), _no_process_left_by_a_failure():
            method = start_method() if forking else "spawn"
            parts.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": method}))
            cluster = LocalCluster(
                n_workers=self.params.workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=parse_bytes(self.params.memory_limit),
                host=LOOPBACK,
                protocol="tls",
                security=security,
                dashboard_address=None,
                scheduler_kwargs={"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
                local_directory=scratch,
                silence_logs=SILENCE,
                death_timeout=parse_duration(self.params.worker_timeout),
                env={**os.environ, **ONE_THREAD, "NUMBA_NUM_THREADS": "1"},  # forks have that of their parent
            )
            parts.callback(_close, cluster)
            client = Client(cluster, security=security, set_as_default=False)
            parts.callback(_close, client)
        return client

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        memory = parse_bytes(self.params.memory_limit)
        return {"kind": "local", "workers": self.workers, "memory_limit": memory}


def _close(part: Any) -> None:
    """Close a part of the cluster. Errors while it closes do not matter any more."""
    with contextlib.suppress(Exception):
        part.close()


@contextlib.contextmanager
def interrupts_for_us_alone() -> Iterator[None]:
    """Keep Ctrl-C from threads and processes that are started inside the block. This process stops them in order.

    A thread inherits the mask of blocked signals, and so do the worker processes that it starts, now or later.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it unblocks signals, so it must be running before they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_process_left_by_a_failure() -> Iterator[None]:
    """If the block fails, kill the processes that were started inside. Dask would leave hanging workers behind."""
    import multiprocessing

    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        raise
