"""Worker processes on this machine, which nobody but their own run can reach.

Every connection is encrypted and needs a key that is made for the run and kept in memory; nothing listens beyond
loopback. How calls are handed out is `dask_calls`.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from xpipe.engine.cluster.dask_calls import RETRIES, SILENCE, DaskCluster, silence_dask
from xpipe.engine.cluster.scratch import scratch_folder
from xpipe.errors import ResourceError
from xpipe.ground.library_threads import ONE_THREAD
from xpipe.ground.quantities import parse_bytes, parse_duration

STARTS = 3  # how often workers are started, should one be killed meanwhile
LOOPBACK = "127.0.0.1"


def dask_settings(scratch: str) -> dict[str, Any]:
    return {
        # Workers hold no data, so nothing can be spilled, and a paused worker would wait for memory that never comes.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": 0.95,
        "distributed.scheduler.allowed-failures": RETRIES,
        # A starved machine is slow, not dead: a dead process closes its connections, and that is noticed at once.
        "distributed.scheduler.worker-ttl": None,
        "distributed.comm.timeouts.connect": "2 minutes",  # also lost on asking a worker that has just died
        "distributed.comm.timeouts.tcp": "10 minutes",
        "temporary-directory": scratch,
        # There is a web server, dashboard or not; it tells nothing.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }


class LocalWorkers(DaskCluster):
    """`cluster: local`: started at the first call, so a cached run starts nothing."""

    def _open(self, parts: contextlib.ExitStack) -> Any:
        import dask

        silence_dask()
        scratch = parts.enter_context(scratch_folder())
        parts.enter_context(dask.config.set(dask_settings(scratch)))
        for attempt in range(1, STARTS + 1):
            try:
                return self._start(parts, scratch)
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

    def _start(self, parts: contextlib.ExitStack, scratch: str) -> Any:
        from distributed import Client, LocalCluster, Security

        security = Security.temporary()
        with _interrupts_for_us_alone(), _no_process_left_by_a_failure():
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
                env={**ONE_THREAD, "NUMBA_NUM_THREADS": "1"},
            )
            parts.callback(_close, cluster)
            client = Client(cluster, security=security, set_as_default=False)
            parts.callback(_close, client)
        return client

    def describe(self) -> dict:
        memory = parse_bytes(self.params.memory_limit)
        return {"kind": "local", "workers": self.workers, "memory_limit": memory}


def _close(part: Any) -> None:
    with contextlib.suppress(Exception):
        part.close()


@contextlib.contextmanager
def _interrupts_for_us_alone() -> Iterator[None]:
    """Threads and processes started inside never see Ctrl-C: this process stops them in good order.

    A thread inherits the mask of blocked signals and hands it on to the worker processes it starts, at once or later.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it unblocks signals again, so it must not start inside
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_process_left_by_a_failure() -> Iterator[None]:
    """Kill what was started inside if the block fails: Dask leaves a worker that hangs at its start to itself."""
    import multiprocessing

    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        raise
