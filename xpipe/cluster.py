"""Who computes: this process, local worker processes, or a Dask scheduler somewhere. Only paths and ranges travel.

Knows nothing of stages: it runs calls and says what became of them. A call is a function of this package, a folder,
a list of units (small dicts) and facts shared by all units; the function writes files and yields one receipt a unit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field, field_validator

from xpipe import machine, store
from xpipe.errors import ConfigError, ResourceError, StageError, XpipeError
from xpipe.stages.stage import Params
from xpipe.units import format_bytes, parse_bytes, parse_duration

RETRIES = 3  # how often a call whose worker died is given to another one
POLL_SECONDS = 0.5
SILENCE = logging.CRITICAL + 1
log = logging.getLogger("xpipe.cluster")


class ClusterParams(Params):
    """Section `cluster`: who computes. Nothing here changes a byte of the output."""

    kind: str = "local"  # local | none | tcp://host:port
    workers: int = Field(default=2, ge=1)
    memory_limit: str | int = "4GiB"  # of each local worker
    chunk_rows: int | None = Field(default=None, ge=1)  # rows of one task; None: from memory_limit and workers
    task_timeout: str | int = "1h"  # longest time without any task finishing
    worker_timeout: str | int = "60s"  # longest time without any worker

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind in ("local", "none") or "://" in kind:
            return kind
        raise ValueError("must be local, none or a scheduler's address such as tcp://host:8786")

    @field_validator("memory_limit")
    @classmethod
    def _readable_bytes(cls, text: str | int) -> str | int:
        parse_bytes(text)
        return text

    @field_validator("task_timeout", "worker_timeout")
    @classmethod
    def _readable_duration(cls, text: str | int) -> str | int:
        parse_duration(text)
        return text


UnitFunction = Callable[[str, list[dict], dict], Iterator[tuple[str, list[dict], dict]]]


@dataclass(frozen=True)
class Call:
    """One task: `function(folder, units, shared)` yields (unit name, files, result) for each unit as it is finished."""

    label: str  # for people: stage and chunk
    function: UnitFunction
    folder: str
    step: str
    units: list[dict]
    shared: dict


@dataclass(frozen=True)
class Outcome:
    """What a call left: receipts of its units and the largest memory of the process while it ran."""

    receipts: dict[str, dict]
    peak_bytes: int


def execute(call: Call) -> Outcome:
    """Run a call where the data is; each finished unit leaves a receipt at once, so nothing finished is done twice."""
    machine.reset_peak()
    receipts = {}
    for unit, entries, result in call.function(call.folder, call.units, call.shared):
        store.write_receipt(call.folder, call.step, unit, entries, result)
        receipts[unit] = {"files": entries, "result": result}
    return Outcome(receipts, machine.peak_bytes())


class Cluster(Protocol):
    """Runs calls; `on_done` hears of each finished one in the caller's thread."""

    workers: int

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None: ...

    def close(self) -> None: ...

    def describe(self) -> dict: ...


class InProcess:
    """`cluster: none`: one call after the other, right here."""

    workers = 1

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None:
        for call in calls:
            try:
                outcome = execute(call)
            except Exception as error:
                raise explain_failure(call, error) from error
            on_done(call, outcome)

    def close(self) -> None:
        pass

    def describe(self) -> dict:
        return {"kind": "none"}


class DaskCluster:
    """Local worker processes or a remote scheduler; started at the first call, so a cached run starts nothing."""

    def __init__(self, params: ClusterParams):
        self.params = params
        self.workers = params.workers
        self.memory_limit = parse_bytes(params.memory_limit)
        self._client: Any = None
        self._cluster: Any = None
        self._seen: dict[str, tuple[int, int]] = {}  # worker address -> last memory, limit
        self._scratch: Any = None

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None:
        client = self._start(calls[0].folder)
        finished: queue.Queue = queue.Queue()
        futures = {}
        try:
            for call in calls:
                future = client.submit(execute, call, pure=False, retries=0)
                futures[future.key] = (future, call)
                future.add_done_callback(finished.put)
            self._collect(futures, finished, on_done)
        finally:
            pending = [future for future, _ in futures.values()]
            if pending and client.status == "running":
                with contextlib.suppress(Exception):
                    client.cancel(pending)

    def _collect(self, futures: dict, finished: queue.Queue, on_done: Callable[[Call, Outcome], None]) -> None:
        last_progress = last_worker = time.monotonic()
        while futures:
            try:
                future = finished.get(timeout=POLL_SECONDS)
            except queue.Empty:
                now = time.monotonic()
                if self._observe_workers():
                    last_worker = now
                self._give_up_if_stuck(futures, now - last_progress, now - last_worker)
                continue
            last_progress = time.monotonic()
            _, call = futures.pop(future.key)
            if future.status == "finished":
                on_done(call, future.result())
            elif future.status == "cancelled":
                raise ResourceError(
                    "the Dask scheduler dropped a task", where=call.label, fix="give the same command again to go on"
                )
            else:
                raise self._explain(call, future.exception())

    def _observe_workers(self) -> int:
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:
            return 0
        for address, facts in workers.items():
            self._seen[address] = (facts.get("metrics", {}).get("memory", 0), facts.get("memory_limit") or 0)
        return len(workers)

    def _give_up_if_stuck(self, futures: dict, since_progress: float, since_worker: float) -> None:
        label = next(iter(futures.values()))[1].label
        if self._client.status not in ("running", "connecting"):
            raise ResourceError(
                "the connection to the Dask scheduler is lost",
                where=label,
                fix="start the scheduler again, then give the same command: finished chunks are kept",
            )
        if since_worker > parse_duration(self.params.worker_timeout):
            raise ResourceError(
                f"no Dask worker for {since_worker:.0f} s",
                where=label,
                why="every worker has left and none came back",
                fix="start workers, or raise cluster.worker_timeout; finished chunks are kept",
            )
        if since_progress > parse_duration(self.params.task_timeout):
            raise ResourceError(
                f"no task finished for {since_progress:.0f} s",
                where=f"{label} and {len(futures) - 1} more",
                fix="lower cluster.chunk_rows or raise cluster.task_timeout; finished chunks are kept",
            )

    def _explain(self, call: Call, error: BaseException | None) -> XpipeError:
        from distributed.scheduler import KilledWorker

        if not isinstance(error, KilledWorker):
            return explain_failure(call, error)
        last, limit = self._seen.get(error.last_worker.address, (0, 0))
        limit = limit or error.last_worker.memory_limit or 0
        return ResourceError(
            f"a worker died {RETRIES + 1} times on the same chunk",
            where=call.label,
            why=f"last memory seen {format_bytes(last)} of a limit of {format_bytes(limit)}",
            fix="raise cluster.memory_limit or lower cluster.chunk_rows; the same command then keeps finished chunks",
        )

    def _start(self, folder: str) -> Any:
        if self._client is not None:
            return self._client
        import dask
        from distributed import Client, LocalCluster

        if self.params.kind != "local":
            self._client = self._connect(Client)
            self._check_remote_workers(folder)
            return self._client
        import tempfile

        self._scratch = tempfile.TemporaryDirectory(prefix="xpipe-dask-", ignore_cleanup_errors=True)
        # Workers hold no data, so nothing can be spilled, and a paused worker would wait for memory that never comes.
        settings = {
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.pause": False,
            "distributed.worker.memory.terminate": 0.95,
            "distributed.scheduler.allowed-failures": RETRIES,
            "distributed.comm.timeouts.connect": "60s",
        }
        one_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
        )
        # silence_logs ends when the cluster closes: just when its scheduler complains, as critical, of those who left
        logging.getLogger("distributed").setLevel(SILENCE)
        with dask.config.set(settings), _interrupts_for_us_alone():
            self._cluster = LocalCluster(
                n_workers=self.params.workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=self.memory_limit,
                dashboard_address=":0",  # any free port: another cluster may hold the usual one
                local_directory=self._scratch.name,
                silence_logs=SILENCE,
                env=one_thread,
            )
            self._client = Client(self._cluster)
        return self._client

    def _connect(self, client_type: Any) -> Any:
        try:
            patience = parse_duration(self.params.worker_timeout)
            client = client_type(self.params.kind, timeout=min(20.0, patience), set_as_default=False)
            client.wait_for_workers(1, timeout=patience)
        except (OSError, TimeoutError, ValueError) as error:
            raise ResourceError(
                f"no Dask cluster with a worker at {self.params.kind}",
                why=str(error) or type(error).__name__,
                fix="check the address, and that workers are connected: dask worker tcp://host:port",
            ) from error
        self.workers = len(client.scheduler_info(n_workers=-1)["workers"])
        return client

    def _check_remote_workers(self, folder: str) -> None:
        from xpipe import __version__

        try:
            answers = self._client.run(describe_worker, folder)
        except Exception as error:
            raise ResourceError(
                "the Dask workers cannot run xpipe",
                why=str(error),
                fix=f"install xpipe {__version__} where the workers run",
            ) from error
        for address, facts in answers.items():
            if facts["version"] != __version__:
                raise ResourceError(
                    f"worker {address} has xpipe {facts['version']}, this is {__version__}",
                    fix="install one version everywhere",
                )
            if not facts["sees_folder"]:
                raise ResourceError(
                    f"worker {address} does not see {folder}",
                    why="workers read and write artifacts themselves",
                    fix="put `store` on a file system they share, or use a URL such as s3://bucket/store",
                )

    def close(self) -> None:
        for part in (self._client, self._cluster):
            if part is not None:
                with contextlib.suppress(Exception):
                    part.close()
        if self._scratch is not None:
            self._scratch.cleanup()
        self._client = self._cluster = self._scratch = None

    def describe(self) -> dict:
        if self.params.kind == "local":
            return {"kind": "local", "workers": self.workers, "memory_limit": self.memory_limit}
        return {"kind": "scheduler", "workers": self.workers}


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


def describe_worker(folder: str) -> dict:
    from xpipe import __version__, files

    return {"version": __version__, "sees_folder": not files.is_local(folder) or os.path.isdir(folder)}


def explain_failure(call: Call, error: BaseException | None) -> XpipeError:
    """The user's view of an exception raised inside a call."""
    if isinstance(error, XpipeError):
        return error
    if isinstance(error, MemoryError):
        return ResourceError(
            "memory ran out", where=call.label, fix="lower cluster.chunk_rows or raise cluster.memory_limit"
        )
    text = "".join(traceback.format_exception(error)).rstrip() if error is not None else "unknown"
    log.debug("%s failed:\n%s", call.label, text)
    return StageError(
        f"{type(error).__name__}: {error}",
        where=call.label,
        why="this is not a mistake of yours that xpipe knows of; details: -v",
        fix="give the same command again; finished chunks are kept. If it comes back, please report it",
    )


def connect(params: ClusterParams) -> Cluster:
    if params.kind == "none":
        return InProcess()
    if params.kind != "local" and not params.kind.split("://", 1)[1]:
        raise ConfigError(f"cluster address {params.kind!r} has no host", fix="tcp://host:8786")
    return DaskCluster(params)
