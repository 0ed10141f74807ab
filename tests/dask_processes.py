"""A Dask scheduler and workers in processes of their own, as users start them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.processes import children_of
from tests.warm_start import WarmPopen

PATIENCE = 600  # seconds: a machine that is busy with other things is slow, not broken


def wait_for(condition: Callable[[], object], what: str = "it") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)


class DaskProcesses:
    """processes[0] is the scheduler; workers follow in the order they were started."""

    def __init__(self, folder: Path, log, environment: dict[str, str]):
        self.folder, self.log = folder, log
        self.environment = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
        self.address_file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []

    def _start(self, module: str, *arguments: str, **environment: str) -> subprocess.Popen:
        process = WarmPopen(
            f"distributed.cli.{module}",
            ["--scheduler-file", str(self.address_file), "--no-dashboard", *arguments],
            env={**self.environment, **environment},
            stdout=self.log,
            stderr=self.log,
        )
        self.processes.append(process)
        return process

    def start_scheduler(self, *arguments: str) -> str:
        self._start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", *arguments)
        wait_for(self.address_file.exists, "the scheduler")
        wait_for(lambda: self.address_file.read_text().endswith("}"), "the scheduler's address")
        return self.address

    @property
    def address(self) -> str:
        return json.loads(self.address_file.read_text())["address"]

    def start_worker(self, *arguments: str, nanny: bool = True, **environment: str) -> subprocess.Popen:
        scratch = str(self.folder / "scratch")
        how = ("--nthreads", "1", "--local-directory", scratch, "--nanny" if nanny else "--no-nanny")
        return self._start("dask_worker", *how, *arguments, **environment)

    def count_workers(self) -> int:
        """How many workers the scheduler knows, asked by a client of the test's own."""
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=PATIENCE) as client:
            return len(client.scheduler_info(n_workers=-1)["workers"])

    def stop(self) -> None:
        """Kill all of them: told to end, a worker may wait half a minute for a scheduler that is gone already."""
        for process in self.processes:
            for pid in (*children_of(process.pid), process.pid):  # the worker of a nanny, whatever is left of it
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def dask_cluster(folder: Path, **environment: str) -> Iterator[DaskProcesses]:
    """A scheduler over TCP; the test starts workers."""
    with open(folder / "dask.log", "w") as log:
        started = DaskProcesses(folder, log, environment)
        try:
            started.start_scheduler()
            yield started
        finally:
            started.stop()


@contextlib.contextmanager
def dask_processes(n_workers: int, tmp_path: Path, nanny: bool = True) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A scheduler and so many workers: its address, and [scheduler, worker, ...]."""
    with dask_cluster(tmp_path) as started:
        for _ in range(n_workers):
            started.start_worker(nanny=nanny)
        yield started.address, started.processes
