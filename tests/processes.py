"""Which processes were started by which."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path


def children_of(pid: int) -> set[int]:
    """Processes that this one started itself."""
    return {child for child, parent in _parents().items() if parent == pid}


def descendants_of(pid: int) -> set[int]:
    """Those, those that they started, and so on."""
    parents = _parents()
    found: set[int] = set()
    front = {pid}
    while front := {child for child, parent in parents.items() if parent in front} - found:
        found |= front
    return found


def parent_of(pid: int) -> int:
    """The process that started it, 0 if there is none."""
    return _parents().get(pid, 0)


def is_worker(pid: int) -> bool:
    """Whether it is a process of multiprocessing, as Dask's workers are: spawned, or the fork of a fork server."""
    return "spawn_main" in _command(pid) or is_fork(pid)


def is_fork(pid: int) -> bool:
    """Whether multiprocessing's fork server has made it."""
    return _is_fork_server(pid) and _is_fork_server(parent_of(pid))


def _is_fork_server(pid: int) -> bool:
    return "multiprocessing.forkserver" in _command(pid)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def dead_process() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _parents() -> dict[int, int]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                found[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
    return found
