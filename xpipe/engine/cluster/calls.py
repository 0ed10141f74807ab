"""Who computes: this process, local worker processes, or a Dask scheduler somewhere. Only paths and ranges travel.

Knows nothing of stages: it runs calls and says what became of them.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field, field_validator

from xpipe.engine import sources, store
from xpipe.engine.messages import Finished, Unit
from xpipe.engine.params import Params
from xpipe.errors import ResourceError, StageError, XpipeError
from xpipe.ground import machine
from xpipe.ground.library_threads import while_executing
from xpipe.ground.os_errors import last_resort
from xpipe.ground.quantities import format_bytes, parse_bytes, parse_duration

MOST_WORKERS = 4096  # local processes: more is a slip of the keyboard
LEAST_MEMORY = 200 * 2**20  # a worker with numpy, Arrow and compiled kernels, before it holds a row
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})/?")
log = logging.getLogger("xpipe.engine.cluster")


class ClusterParams(Params):
    """Section `cluster`: who computes. Nothing here changes a byte of the output."""

    kind: str = "local"  # local | none | tcp://host:port | tls://host:port
    workers: int = Field(default=2, ge=1)
    memory_limit: str | int = "4GiB"  # of each local worker
    chunk_rows: int | None = Field(default=None, ge=1)  # rows of one task; None: from memory_limit and workers
    task_timeout: str | int = "1h"  # longest time without any task finishing
    worker_timeout: str | int = "10min"  # longest time without any worker: slow disks take minutes to import

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind in ("local", "none"):
            return kind
        address = ADDRESS.fullmatch(kind)
        if address is None or not 0 < int(address["port"]) < 2**16:
            raise ValueError("must be local, none or a scheduler's address such as tcp://host:8786")
        return kind

    @field_validator("workers")
    @classmethod
    def _believable(cls, workers: int) -> int:
        if workers > MOST_WORKERS:
            raise ValueError(f"must be a whole number of at most {MOST_WORKERS}")
        return workers

    @field_validator("memory_limit")
    @classmethod
    def _readable_bytes(cls, text: str | int) -> str | int:
        if parse_bytes(text) < LEAST_MEMORY:
            raise ValueError(f"must be at least {format_bytes(LEAST_MEMORY)}, which a worker takes to start")
        return text

    @field_validator("task_timeout", "worker_timeout")
    @classmethod
    def _readable_duration(cls, text: str | int) -> str | int:
        parse_duration(text)
        return text


@dataclass(frozen=True)
class Call:
    """One task: a work function, some units of a step, and the facts that all units of the step share.

    work: `(folder, unit, shared) -> Finished`, or where units are done together `(folder, units, shared)`, which yields
    `(unit, Finished)` as each is finished.
    """

    label: str  # for people: stage and units
    work: Callable[..., Any]
    folder: str
    step: str
    units: tuple[Unit, ...]
    shared: Any
    sources: tuple[sources.Source, ...] = ()  # the input files it reads, as they were digested
    together: bool = False

    def finished_units(self) -> Iterator[tuple[Unit, Finished[Any]]]:
        if self.together:
            yield from self.work(self.folder, self.units, self.shared)
        else:
            yield from ((unit, self.work(self.folder, unit, self.shared)) for unit in self.units)


@dataclass(frozen=True)
class Outcome:
    """What a call left: receipts of its units by name, and the largest memory of the process while it ran."""

    receipts: dict[str, Finished[Any]]
    peak_bytes: int


def execute(call: Call) -> Outcome:
    """Run a call where the data is; each finished unit leaves a receipt at once, so nothing finished is done twice.

    Libraries have one thread meanwhile, whoever runs it: a remote worker may run several calls at the same time. A unit
    whose input files changed before or while it read them leaves no receipt.
    """
    machine.reset_peak()
    receipts = {}
    stamps = sources.check(call.sources)
    try:
        with while_executing():
            for unit, finished in call.finished_units():
                sources.check_still(call.sources, stamps)
                store.write_receipt(call.folder, call.step, unit.name, finished, call.sources)
                receipts[unit.name] = finished
    except Exception:
        sources.check_still(call.sources, stamps)  # a file that changed explains better what was found in it
        raise
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


def explain_failure(call: Call, error: BaseException | None) -> XpipeError:
    """The user's view of an exception raised inside a call."""
    if isinstance(error, XpipeError):
        return error
    if isinstance(error, MemoryError):
        return ResourceError(
            "memory ran out", where=call.label, fix="lower cluster.chunk_rows or raise cluster.memory_limit"
        )
    system = last_resort(error) if error is not None else None
    if system is not None:
        system.where = ", ".join(part for part in (call.label, system.where) if part)
        return system
    text = "".join(traceback.format_exception(error)).rstrip() if error is not None else "unknown"
    log.debug("%s failed:\n%s", call.label, text)
    return StageError(
        f"{type(error).__name__}: {error}",
        where=call.label,
        why="this is not a mistake of yours that xpipe knows of; details: -v",
        fix="give the same command again; finished chunks are kept. If it comes back, please report it",
    )


class Says(Protocol):
    """Who tells people what a cluster waits for, such as `progress.Progress`."""

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


class Silent:
    def note(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass
