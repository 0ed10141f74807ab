"""Calls, which are what workers run, the section `cluster`, and the cluster that is this process itself.

Knows nothing of stages and of Dask. Only paths and ranges travel to workers, never arrays.
"""

from __future__ import annotations

import logging
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from pydantic import Field, PrivateAttr, field_validator

from xpipe.engine import sources
from xpipe.engine.cluster.definition import NAME, ClusterDefinition, is_address
from xpipe.engine.messages import Finished, Unit
from xpipe.engine.params import Params
from xpipe.engine.receipts import write_receipt
from xpipe.errors import ResourceError, StageError, XpipeError
from xpipe.ground import machine
from xpipe.ground.library_threads import while_executing
from xpipe.ground.os_errors import last_resort
from xpipe.ground.quantities import format_bytes, parse_bytes, parse_duration

KINDS = "must be local, none or a scheduler's address such as tcp://host:8786"
MOST_WORKERS = 4096  # local processes; a larger number is a typing mistake
LEAST_MEMORY = 200 * 2**20  # what a worker takes for numpy, Arrow and compiled kernels before it reads a row
log = logging.getLogger("xpipe.engine.cluster")


class ClusterParams(Params):
    """Section `cluster`: who computes. Nothing here changes a byte of the output."""

    kind: str = "local"  # local | none | tcp://host:port | tls://host:port | a name of your clusters.yaml
    workers: int = Field(default=2, ge=1)
    memory_limit: str | int = "4GiB"  # of each worker; that of local workers is enforced
    chunk_rows: int | None = Field(default=None, ge=1)  # rows of one task; None: from memory_limit and workers
    task_timeout: str | int = "1h"  # longest time without any task finishing
    worker_timeout: str | int = "10min"  # longest time without any worker: slow disks take minutes to import
    _definition: ClusterDefinition | None = PrivateAttr(default=None)  # of a name; no pipeline file holds it

    @property
    def definition(self) -> ClusterDefinition | None:
        """What the name `kind` stands for. None for other kinds, and for names that were not looked up."""
        return self._definition

    def defined(self, definition: ClusterDefinition) -> Self:
        """These params with what their name stands for. Keys that the pipeline does not set are the cluster's own."""
        usual = {
            key: value
            for key in ("workers", "memory_limit", "worker_timeout")
            if key not in self.model_fields_set and (value := getattr(definition, key)) is not None
        }
        named = self.model_copy(update=usual)
        named._definition = definition
        return named

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        """Refuse what is neither local, nor none, nor an address, nor a name. `config.clusters` looks names up."""
        if kind in ("local", "none") or is_address(kind) or NAME.fullmatch(kind):
            return kind
        raise ValueError(KINDS)

    @field_validator("workers")
    @classmethod
    def _believable(cls, workers: int) -> int:
        """Refuse more workers than any machine can run."""
        if workers > MOST_WORKERS:
            raise ValueError(f"must be a whole number of at most {MOST_WORKERS}")
        return workers

    @field_validator("memory_limit")
    @classmethod
    def _readable_bytes(cls, text: str | int) -> str | int:
        """Refuse what is no number of bytes, and less than a worker needs to start."""
        if parse_bytes(text) < LEAST_MEMORY:
            raise ValueError(f"must be at least {format_bytes(LEAST_MEMORY)}, which a worker takes to start")
        return text

    @field_validator("task_timeout", "worker_timeout")
    @classmethod
    def _readable_duration(cls, text: str | int) -> str | int:
        """Refuse what is no duration."""
        parse_duration(text)
        return text


@dataclass(frozen=True)
class Call:
    """One task: a work function, some units of a step, and what all units of the step share.

    label: the stage and the units, for messages. work: `work(folder, unit, shared)` returns a `Finished`; with
    `together`, `work(folder, units, shared)` yields `(unit, Finished)` as soon as each unit is finished. sources: the
    input files that it reads, as they were digested.
    """

    label: str
    work: Callable[..., Any]
    folder: str
    step: str
    units: tuple[Unit, ...]
    shared: Any
    sources: tuple[sources.Source, ...] = ()
    together: bool = False

    def finished_units(self) -> Iterator[tuple[Unit, Finished[Any]]]:
        """Do the work. Yields each unit as soon as it is finished."""
        if self.together:
            yield from self.work(self.folder, self.units, self.shared)
        else:
            yield from ((unit, self.work(self.folder, unit, self.shared)) for unit in self.units)


@dataclass(frozen=True)
class Outcome:
    """What a call left: its finished units by name, and the most memory that the process had while it ran.

    seconds: of each unit by name, its receipt included. worker: a name of the process.
    """

    receipts: dict[str, Finished[Any]]
    peak_bytes: int
    seconds: dict[str, float]
    worker: str


def execute(call: Call) -> Outcome:
    """Run a call. Each finished unit leaves a receipt at once, so that no finished unit is done again.

    Meanwhile the numerical libraries have one thread each, because a remote worker may run several calls at the same
    time. A unit whose input files changed before or while it read them leaves no receipt.
    """
    machine.reset_peak()
    receipts, seconds = {}, {}
    last = time.perf_counter()
    stamps = sources.check(call.sources)
    try:
        with while_executing():
            for unit, finished in call.finished_units():
                sources.check_still(call.sources, stamps)
                write_receipt(call.folder, call.step, unit.name, finished, call.sources)
                receipts[unit.name] = finished
                before, last = last, time.perf_counter()
                seconds[unit.name] = last - before
    except Exception:
        sources.check_still(call.sources, stamps)  # if an input file has changed, that explains the failure better
        raise
    return Outcome(receipts, machine.peak_bytes(), seconds, f"{platform.node()}-{os.getpid()}")


def nothing_to_compile() -> None:
    """The kernels of calls that have none."""


@dataclass(frozen=True)
class Preparation:
    """What a worker needs before it is given calls of a stage.

    compile: compiles the kernels of the stage, for all processes of the machine. releases: of each library that can
    change the bytes of the stage, the release that its key names.
    """

    stage: str = ""
    compile: Callable[[], None] = nothing_to_compile
    releases: dict[str, str] = field(default_factory=dict)


class Cluster(Protocol):
    """Runs calls. workers: how many calls run at the same time. ready: whether it can be given calls at once."""

    workers: int

    @property
    def ready(self) -> bool:
        """Whether `open` has nothing left to do."""
        ...

    def open(self) -> None:
        """Start the workers, or connect to them."""

    def prepare(self, preparation: Preparation) -> None:
        """Say what workers need for the calls that follow. Each is prepared before it is given any."""

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None:
        """Run all calls. `on_done` is called with each finished one, in the caller's thread."""

    def close(self) -> None:
        """Stop the workers."""

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        ...


class InProcess:
    """`cluster: none`: runs one call after the other in this process."""

    workers = 1
    ready = True

    def open(self) -> None:
        """Do nothing: this process is there."""

    def prepare(self, preparation: Preparation) -> None:
        """Do nothing: kernels are compiled here when they are first called."""

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None:
        """Run all calls, in order."""
        for call in calls:
            try:
                outcome = execute(call)
            except Exception as error:
                raise explain_failure(call, error) from error
            on_done(call, outcome)

    def close(self) -> None:
        """Do nothing: there are no workers to stop."""

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        return {"kind": "none"}


def explain_failure(call: Call, error: BaseException | None) -> XpipeError:
    """The error that tells the user what an exception inside a call means."""
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
