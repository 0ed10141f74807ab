"""A Dask scheduler and workers in network namespaces: each has its own address, and its link can be cut.

Needs root, and Debian's package iproute2. The test itself stands at the bridge that joins them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.dask_processes import DaskProcesses, wait_for

NET = "10.231.77"  # of the namespaces; the bridge is .1
SECONDS_TO_NOTICE = "12s"  # how soon Dask takes a silent connection for lost


def ip(*words: str) -> None:
    """Run one command of iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def impossible() -> str:
    """Why no namespaces can be made here; "" if they can."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        return "needs root and iproute2"
    try:
        ip("netns", "add", "xpipe-try")
        ip("netns", "delete", "xpipe-try")
    except subprocess.CalledProcessError as error:
        return f"namespaces cannot be made here: {error.stderr.decode().strip()}"
    return ""


@contextlib.contextmanager
def bridged(count: int) -> Iterator[list[str]]:
    """So many namespaces on one bridge. Gives their names; the address of number n is NET.(10 + n)."""
    names = [f"xpipe{os.getpid()}-{number}" for number in range(count)]
    bridge = "xpipebr0"
    with contextlib.ExitStack() as stack:
        ip("link", "add", bridge, "type", "bridge")
        stack.callback(ip, "link", "delete", bridge)
        ip("address", "add", f"{NET}.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)  # its end of the link goes with it, and so the other end
            ip("link", "add", f"xpipev{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"xpipev{number}", "master", bridge, "up")
            ip("-n", name, "address", "add", f"{NET}.{10 + number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        yield names


def cut(number: int) -> None:
    """Take the link of a namespace down. Nobody is told: packets are lost from now on."""
    ip("link", "set", f"xpipev{number}", "down")


class NamespacedDask(DaskProcesses):
    """processes[0] is the scheduler in the first namespace; each worker is in the next one."""

    def __init__(self, folder: Path, log, names: list[str], environment: dict[str, str]):
        super().__init__(folder, log, {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": SECONDS_TO_NOTICE, **environment})
        self.names = names

    def _start(self, module: str, *arguments: str, **environment: str) -> subprocess.Popen:
        number = len(self.processes)
        command = ["ip", "netns", "exec", self.names[number], sys.executable, "-m", f"distributed.cli.{module}"]
        where = ["--scheduler-file", str(self.address_file), "--no-dashboard", "--host", f"{NET}.{10 + number}"]
        process = subprocess.Popen(
            [*command, *where, *arguments],
            env={**self.environment, **environment},
            stdout=self.log,
            stderr=self.log,
        )
        self.processes.append(process)
        return process

    def start_scheduler(self, *arguments: str) -> str:
        self._start("dask_scheduler", "--port", "8786", *arguments)
        wait_for(lambda: self.address_file.exists() and self.address_file.read_text().endswith("}"), "the scheduler")
        return self.address


@contextlib.contextmanager
def namespaced_dask(folder: Path, names: list[str], **environment: str) -> Iterator[NamespacedDask]:
    """A scheduler in the first namespace, and a worker in each of the others."""
    with open(folder / "dask.log", "w") as log:
        dask = NamespacedDask(folder, log, names, environment)
        try:
            dask.start_scheduler()
            for _ in names[1:]:
                dask.start_worker(nanny=False)
            wait_for(lambda: dask.count_workers() == len(names) - 1, "all workers")
            yield dask
        finally:
            dask.stop()
