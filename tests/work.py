"""Work functions that tests hand to clusters: worker processes import them."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass

from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.errors import DataError


@dataclass(frozen=True)
class Numbered(Unit):
    number: int


@dataclass(frozen=True)
class Square:
    square: int
    process: int


@dataclass(frozen=True)
class Settings:
    """What some of the functions below look at."""

    seconds: float = 60
    imports: tuple[str, ...] = ()
    dataset: str = ""


@dataclass(frozen=True)
class Weights:
    weights: str


@dataclass(frozen=True)
class Threads:
    threads: dict[str, int]


def write_square(folder: str, unit: Numbered, shared: Settings) -> Finished[Square]:
    square = unit.number**2
    entry = write_entry(folder, f"{unit.name}.txt", str(square).encode())
    return Finished((entry,), Square(square, os.getpid()))


def die_once(folder: str, unit: Numbered, shared: Settings) -> Finished[Square]:
    """The first process to come dies like one killed by the kernel; a later one does the work."""
    marker = os.path.join(folder, "died")
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return write_square(folder, unit, shared)


def always_die(folder: str, unit: Numbered, shared: Settings) -> Finished[None]:
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
    return Finished((), None)


def take_memory(folder: str, unit: Numbered, shared: Settings) -> Finished[None]:
    hoard = []
    for _ in range(200):
        hoard.append(bytearray(os.urandom(1 << 20)) * 16)
        time.sleep(0.02)
    return Finished((), None)


def refuse(folder: str, unit: Numbered, shared: Settings) -> Finished[None]:
    raise DataError("a bad token", where="train.txt:7", why="abc is not a number", fix="correct it")


def stumble(folder: str, unit: Numbered, shared: Settings) -> Finished[None]:
    raise ZeroDivisionError("by accident")


def sleep_long(folder: str, unit: Numbered, shared: Settings) -> Finished[None]:
    time.sleep(shared.seconds)
    return Finished((), None)


def square_slowly(folder: str, unit: Numbered, shared: Settings) -> Finished[Square]:
    time.sleep(0.5)
    return write_square(folder, unit, shared)


def square_and_count(folder: str, unit: Numbered, shared: Settings) -> Finished[Square]:
    """Leaves a file for every time that a process begins a unit."""
    open(os.path.join(folder, f"begun-{unit.name}-{os.getpid()}-{time.monotonic_ns()}"), "w").close()
    return square_slowly(folder, unit, shared)


def train_small_head(folder: str, unit: Unit, shared: Settings) -> Finished[Weights]:
    """Heads of one seed; the result is the digest of the weights."""
    import hashlib

    from xpipe.heads import TrainOptions, train_head

    options = TrainOptions("bsl", {"dim": 3}, width=8, dropout=0.3, epochs=3, batch_size=32, device="cpu")
    W, _ = train_head(shared.dataset, options).model.head.weights()
    return Finished((), Weights(hashlib.sha256(W.tobytes()).hexdigest()))


def count_library_threads(folder: str, unit: Unit, shared: Settings) -> Finished[Threads]:
    """How many threads each library has inside a call, one loaded before and one that the call itself loads."""
    import threadpoolctl

    for name in shared.imports:
        __import__(name)
    torch = sys.modules.get("torch")
    libraries = threadpoolctl.threadpool_info()
    found = {os.path.basename(library["filepath"]): library["num_threads"] for library in libraries}
    found |= {"torch": torch.get_num_threads()} if torch else {}
    time.sleep(shared.seconds)
    return Finished((), Threads(found))


def process_and_environment() -> tuple[int, dict[str, str]]:
    """Whose this is."""
    return os.getpid(), dict(os.environ)
