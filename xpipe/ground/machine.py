"""What this process may use and has used of its machine: cores and memory.

Holds nothing about limits or workers.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

from xpipe.errors import ConfigError

T = TypeVar("T")


def reset_peak() -> None:
    """Start a new measurement of the peak (Linux; elsewhere the peak is always that of the whole process)."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def peak_bytes() -> int:
    """The largest resident size since the last reset."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def usable_cores() -> int:
    """Cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int | None) -> int:
    """The number of threads, by default one per usable core. Raises ConfigError below 1."""
    if threads is not None and threads < 1:
        raise ConfigError(f"`threads` must be at least 1, got {threads}", fix="leave it out: one per usable core")
    return threads or usable_cores()


@contextlib.contextmanager
def lent(spare: SimpleQueue[T]) -> Iterator[T]:
    """One of the work spaces that threads share. It is returned also if the work fails, since others wait for it."""
    space = spare.get()
    try:
        yield space
    finally:
        spare.put(space)
