"""Compiles kernels in processes beside the run, before the stages need them, once per machine.

Knows no particular stage: a stage names a function that compiles its kernels. There are no more such processes than
cores, since each of them imports the compiler first. Stages that share kernels are compiled one after the other in the
same process. A note in the folder of compiled kernels says what is compiled already, so only the first run of a release
starts such processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from xpipe.engine.wiring import Step
from xpipe.ground.kernel_folder import notes_folder
from xpipe.ground.library_threads import ONE_THREAD
from xpipe.ground.machine import usable_cores

POLL_SECONDS = 0.2
RARELY = (50_000, 20, 50)  # collections of cycles, of which a compiler makes few: a seventh of its time by default
POLITE = 5  # what the processor does for the stage that runs comes first

# In a process of its own: compile for the stage of each line, leave its note, and answer with an empty line.
CODE = f"""
import contextlib, gc, importlib, json, os, sys
os.nice({POLITE})
gc.set_threshold(*{RARELY})
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for order in sys.stdin:
    module, function, note = json.loads(order)
    with contextlib.suppress(Exception):
        getattr(importlib.import_module(module), function)()
        os.makedirs(os.path.dirname(note), exist_ok=True)
        open(note, "w").close()
    print(file=answers, flush=True)
"""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a stage. room: where they are. compile: calls all of them; a function of a module."""

    room: str
    compile: Callable[[], None]

    def order(self, note: Path) -> str:
        """What the process is told: a line."""
        return json.dumps([self.compile.__module__, self.compile.__qualname__, str(note)]) + "\n"


@dataclass
class Compilation:
    """What is being compiled for a run. A context: when it is left, the processes that still compile are ended."""

    wanted: Sequence[Kernels]  # in the order in which the run needs them
    _threads: ThreadPoolExecutor | None = None
    _rooms: dict[str, Future[None]] = field(default_factory=dict)
    _processes: list[subprocess.Popen[str]] = field(default_factory=list)
    _idle: list[subprocess.Popen[str]] = field(default_factory=list)  # those of them that may be told more
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _left: bool = False

    def __enter__(self) -> Compilation:
        """Start nothing yet: a run that finds all its stages in the store needs no kernels."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is not needed any more."""
        with self._starting:
            self._left = True
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            with contextlib.suppress(OSError):  # the end of an order that nobody reads
                process.communicate()

    def is_ready(self, kernels: Kernels) -> bool:
        """Whether there is nothing to wait for. Kernels that cannot be compiled here are left to the stage itself."""
        room = self._rooms.get(kernels.room)
        return _note(kernels).exists() or (room is not None and room.done())

    def wait_for(self, kernels: Kernels) -> None:
        """Wait until these kernels are compiled. The first call begins with those of all stages from this one on."""
        if self._threads is None:
            self._begin(kernels)
        while not self.is_ready(kernels):
            wait([self._rooms[kernels.room]], timeout=POLL_SECONDS)

    def _begin(self, first: Kernels) -> None:
        """Begin to compile whatever has no note."""
        self._threads = ThreadPoolExecutor(usable_cores())
        needed = self.wanted[self.wanted.index(first) :]
        missing = [kernels for kernels in needed if not _note(kernels).exists()]
        for room in dict.fromkeys(kernels.room for kernels in missing):
            orders = [kernels.order(_note(kernels)) for kernels in missing if kernels.room == room]
            self._rooms[room] = self._threads.submit(self._run, orders)

    def _run(self, orders: list[str]) -> None:
        """Compile the kernels of one room. Why it may fail is of no interest: the stage will meet it again."""
        process = self._process()
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended
            for order in orders:
                process.stdin.write(order)
                process.stdin.flush()
                if not process.stdout.readline():
                    return
            self._idle.append(process)

    def _process(self) -> subprocess.Popen[str] | None:
        """A process that has nothing to do; None when the run has ended."""
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with self._starting:
            if self._left:
                return None
            process = subprocess.Popen(
                [sys.executable, "-c", CODE], env=environment, text=True, encoding="utf-8",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._processes.append(process)
        return process


def kernels_of(step: Step) -> Kernels | None:
    """The kernels of a step; None where its stage has none."""
    stage = step.stage
    return None if stage.compile is None else Kernels(stage.kernels or stage.name, stage.compile)


def _note(kernels: Kernels) -> Path:
    """The file that says that these kernels are compiled."""
    return notes_folder() / f"{kernels.compile.__module__}.{kernels.compile.__qualname__}"
