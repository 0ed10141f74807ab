"""Compiles kernels in processes beside the run, before the stages need them, once per machine.

Knows no particular stage: a stage names a function that compiles its kernels. Stages that share kernels are compiled
one after the other in the same process. A note in the folder of compiled kernels says what is compiled already, so only
the first run of a release starts such processes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from xpipe.engine.wiring import Step
from xpipe.ground.kernel_folder import notes_folder
from xpipe.ground.library_threads import ONE_THREAD
from xpipe.ground.machine import usable_cores

POLL_SECONDS = 0.2
POLITE = 5  # what the processor does for the stage that runs comes first

# In a process of its own: compile for each stage, then leave its note.
CODE = f"""
import importlib, os, sys
os.nice({POLITE})
for order in sys.argv[1:]:
    module, function, note = order.split("\\t")
    getattr(importlib.import_module(module), function)()
    os.makedirs(os.path.dirname(note), exist_ok=True)
    open(note, "w").close()
"""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a stage. room: where they are. compile: calls all of them; a function of a module."""

    room: str
    compile: Callable[[], None]

    def order(self, note: Path) -> str:
        """What the process is told."""
        return "\t".join((self.compile.__module__, self.compile.__qualname__, str(note)))


@dataclass
class Compilation:
    """What is being compiled for a run. A context: when it is left, the processes that still compile are ended."""

    wanted: Sequence[Kernels]  # in the order in which the run needs them
    _threads: ThreadPoolExecutor | None = None
    _rooms: dict[str, Future[None]] = field(default_factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _left: bool = False

    def __enter__(self) -> Compilation:
        """Start nothing yet: a run that finds all its stages in the store needs no kernels."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is not needed any more."""
        self._left = True
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

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
        if self._left:
            return
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, *orders], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._processes.append(process)
        process.wait()


def kernels_of(step: Step) -> Kernels | None:
    """The kernels of a step; None where its stage has none."""
    stage = step.stage
    return None if stage.compile is None else Kernels(stage.kernels or stage.name, stage.compile)


def _note(kernels: Kernels) -> Path:
    """The file that says that these kernels are compiled."""
    return notes_folder() / f"{kernels.compile.__module__}.{kernels.compile.__qualname__}"
