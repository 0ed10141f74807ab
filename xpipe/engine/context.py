"""What a stage can use while it runs, and how it hands units of work to the cluster. Knows no particular stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from xpipe.engine.cluster.calls import Call, Cluster, ClusterParams, Outcome
from xpipe.engine.manifest import Artifact, StepTimes
from xpipe.engine.messages import Finished, Unit, result_type
from xpipe.engine.params import Params
from xpipe.engine.progress import Bar
from xpipe.engine.receipts import read_receipts
from xpipe.engine.sources import Source
from xpipe.engine.timings import StepClock
from xpipe.errors import StageError
from xpipe.ground.backend import Backend
from xpipe.ground.quantities import parse_bytes

P = TypeVar("P", bound=Params)
U = TypeVar("U", bound=Unit)
S = TypeVar("S")
R = TypeVar("R")
TASKS_PER_WORKER = 4  # enough that all workers finish at about the same time, few enough that a task is worth its cost
SHARE_OF_MEMORY = 1 / 8  # of a worker's memory that the rows of one task may take


@dataclass(frozen=True)
class Counts:
    """What the progress of a step counts instead of the sizes of its units: `total` of `unit`, such as labels.

    Finished units count for their share of all sizes. by_stage: the stage moves the bar itself.
    """

    total: int
    unit: str
    by_stage: bool = False


class StepCount:
    """Moves the bar of a stage during one step, as its units finish."""

    def __init__(self, bar: Bar, doing: str, units: Sequence[Unit], counts: Counts | None):
        """Begin the step."""
        self.size = sum(unit.size for unit in units)
        self.counts = counts or Counts(self.size, "")
        self.bar, self.done, self.shown = bar, 0, 0
        bar.begin(doing, total=self.counts.total, unit=self.counts.unit or None)

    def add(self, units: Iterable[Unit]) -> None:
        """Count finished units."""
        self.done += sum(unit.size for unit in units)
        count = self.counts.total * self.done // max(self.size, 1)
        if count > self.shown and not self.counts.by_stage:
            self.bar.advance(count - self.shown)
            self.shown = count


@dataclass
class Context(Generic[P]):
    """What a stage's `run` can use.

    inputs: the finished artifacts that the stage reads, by name. folder: the folder of the stage, to write to. sources:
    the files from outside the store that `Stage.identity` asked for, as they were digested. peak_bytes: the most memory
    of a worker so far. resumed: the number of units that an interrupted run had finished. steps: how long the tasks of
    all finished steps took.
    """

    stage: str
    params: P
    seed: int
    inputs: dict[str, Artifact]
    folder: str
    cluster: Cluster
    cluster_params: ClusterParams
    bar: Bar
    warn: Callable[[str], None]
    note: Callable[[str], None]
    backend: Backend
    sources: tuple[Source, ...] = ()
    peak_bytes: int = 0
    resumed: int = 0
    steps: list[StepTimes] = field(default_factory=list)

    def map(
        self,
        step: str,
        work: Callable[[str, U, S], Finished[R]],
        units: Sequence[U],
        shared: S,
        *,
        bytes_per_row: float = 0,
        one_unit_per_task: bool = False,
        doing: str = "",
        counts: Counts | None = None,
    ) -> list[Finished[R]]:
        """Run `work(folder, unit, shared)` for every unit on the cluster. Returns the finished units, in order.

        Units are bundled into tasks of about equal size, unless one_unit_per_task. A unit that an interrupted run
        finished is not done again. Its receipt is checked against the return annotation of `work`, `Finished[R]`.
        step: the name of this part of the stage. shared: what all units need. bytes_per_row: the memory that one row of
        a unit needs. doing: what people are told meanwhile, such as "choosing the method". counts: what progress
        counts, where that is not the sizes of the units in the unit of the stage.
        """
        return self._map(step, work, units, shared, False, bytes_per_row, one_unit_per_task, doing, counts)

    def map_together(
        self,
        step: str,
        work: Callable[[str, Sequence[U], S], Iterator[tuple[U, Finished[R]]]],
        units: Sequence[U],
        shared: S,
        *,
        bytes_per_row: float = 0,
        doing: str = "",
    ) -> list[Finished[R]]:
        """Like `map`, for work that is cheaper for several units at once.

        `work(folder, units, shared)` yields each unit with what it gave, as soon as the unit is finished.
        """
        return self._map(step, work, units, shared, True, bytes_per_row, False, doing, None)

    def _map(
        self,
        step: str,
        work: Callable[..., Any],
        units: Sequence[U],
        shared: S,
        together: bool,
        bytes_per_row: float,
        one_unit_per_task: bool,
        doing: str,
        counts: Counts | None,
    ) -> list[Finished[Any]]:
        """What `map` and `map_together` do: resume, bundle the pending units, run them, and collect all results."""
        done = self._finished_before(step, work)
        pending = [unit for unit in units if unit.name not in done]
        self.resumed += len(units) - len(pending)
        clock = StepClock(step, together, not one_unit_per_task, bytes_per_row)
        if pending and not self.cluster.ready:
            self.bar.begin("waiting for workers")
            self.cluster.open()
            clock.workers_are_there()
        counted = StepCount(self.bar, doing, units, counts)
        counted.add(unit for unit in units if unit.name in done)
        bundles = bundle_units(pending, self.cluster.workers, self.cluster_params, bytes_per_row)
        chunks = [(unit,) for unit in pending] if one_unit_per_task else bundles
        calls = [
            Call(
                f"stage {self.stage}, {step} {describe_range(chunk)}", work, self.folder, step, chunk, shared,
                self.sources, together,
            )
            for chunk in chunks
        ]  # fmt: skip

        def on_done(call: Call, outcome: Outcome) -> None:
            done.update(outcome.receipts)
            self.peak_bytes = max(self.peak_bytes, outcome.peak_bytes)
            counted.add(call.units)
            clock.add(call, outcome)

        if calls:
            clock.give(calls)
            self.cluster.run(calls, on_done)
            self.steps.append(clock.times())
        missing = [unit.name for unit in units if unit.name not in done]
        if missing:
            raise StageError(f"stage {self.stage} left {len(missing)} units undone", where=f"{step} {missing[0]}")
        return [done[unit.name] for unit in units]

    def _finished_before(self, step: str, work: Callable[..., Any]) -> dict[str, Finished[Any]]:
        """The units of a step that an interrupted run finished, by name."""
        other: list[str] = []
        done: dict[str, Finished[Any]] = read_receipts(self.folder, step, result_type(work), self.sources, other.append)
        if other:
            more = f" and {len(other) - 1} more" if len(other) > 1 else ""
            self.warn(
                f"stage {self.stage}: {step} {other[0]}{more} of a stopped run have receipts of another shape; "
                "they are done again"
            )
        return done


def bundle_units(
    units: Sequence[U], workers: int, params: ClusterParams, bytes_per_row: float = 0
) -> Iterator[tuple[U, ...]]:
    """Bundles of consecutive units, each of about `chunk_rows` rows. Bundling changes no byte of the output."""
    total = sum(unit.size for unit in units)
    limit = params.chunk_rows or max(1, total // (TASKS_PER_WORKER * workers))
    if bytes_per_row:
        memory = parse_bytes(params.memory_limit) * SHARE_OF_MEMORY
        limit = max(1, min(limit, int(memory / bytes_per_row)))
    chunk: list[U] = []
    for unit in units:
        if chunk and sum(member.size for member in chunk) + unit.size > limit:
            yield tuple(chunk)
            chunk = []
        chunk.append(unit)
    if chunk:
        yield tuple(chunk)


def describe_range(units: Sequence[Unit]) -> str:
    """The names of the first and the last unit, for messages."""
    first, last = units[0].name, units[-1].name
    return first if first == last else f"{first} to {last}"
