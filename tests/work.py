"""Unit functions that tests hand to clusters: they must be importable by worker processes."""

from __future__ import annotations

import os
import signal
import sys
import time

from xpipe.errors import DataError
from xpipe.ground import files


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


def train_small_head(folder, units, shared):
    """Heads of one seed; the result is the digest of the weights."""
    import hashlib

    from xpipe.heads import TrainOptions, train_head

    for unit in units:
        options = TrainOptions("bsl", {"dim": 3}, width=8, dropout=0.3, epochs=3, batch_size=32, device="cpu")
        W, _ = train_head(shared["dataset"], options).model.head.weights()
        yield unit["unit"], [], {"weights": hashlib.sha256(W.tobytes()).hexdigest()}


def count_library_threads(folder, units, shared):
    """How many threads each library has inside a call, one loaded before and one that the call itself loads."""
    import threadpoolctl

    for name in shared["imports"]:
        __import__(name)
    torch = sys.modules.get("torch")
    for unit in units:
        found = {
            os.path.basename(library["filepath"]): library["num_threads"] for library in threadpoolctl.threadpool_info()
        }
        found |= {"torch": torch.get_num_threads()} if torch else {}
        time.sleep(shared.get("seconds", 0))
        yield unit["unit"], [], {"threads": found}


def squares_slowly(folder, units, shared):
    time.sleep(0.5)
    yield from write_squares(folder, units, shared)
