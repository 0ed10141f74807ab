"""Unit functions that tests hand to clusters: they must be importable by worker processes."""

from __future__ import annotations

import os
import signal
import time

from xpipe import files
from xpipe.errors import DataError


def write_squares(folder, units, shared):
    for unit in units:
        path = files.join(folder, f"{unit['unit']}.txt")
        content = str(unit["number"] ** 2).encode()
        files.write_bytes(path, content)
        entry = {"path": f"{unit['unit']}.txt", "bytes": len(content), "sha256": files.sha256(path)}
        yield unit["unit"], [entry], {"square": unit["number"] ** 2, "process": os.getpid()}


def die_once(folder, units, shared):
    """The first process to come dies like one killed by the kernel; a later one does the work."""
    marker = files.join(folder, "died")
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from write_squares(folder, units, shared)


def always_die(folder, units, shared):
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def take_memory(folder, units, shared):
    hoard = []
    for _ in range(200):
        hoard.append(bytearray(os.urandom(1 << 20)) * 16)
        time.sleep(0.02)
    yield units[0]["unit"], [], {}


def refuse(folder, units, shared):
    raise DataError("a bad token", where="train.txt:7", why="abc is not a number", fix="correct it")
    yield


def stumble(folder, units, shared):
    raise ZeroDivisionError("by accident")
    yield


def sleep_long(folder, units, shared):
    time.sleep(shared.get("seconds", 60))
    yield units[0]["unit"], [], {}
