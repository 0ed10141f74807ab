"""What a stage sees while it runs, and how it hands units of work to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from xpipe.engine import store
from xpipe.engine.cluster.calls import Call, Cluster, ClusterParams, Outcome
from xpipe.engine.messages import Finished, Unit, result_type
from xpipe.engine.params import Params
from xpipe.engine.sources import Source
from xpipe.errors import StageError
from xpipe.ground.backend import Backend
from xpipe.ground.quantities import parse_bytes

P = TypeVar("P", bound=Params)
U = TypeVar("U", bound=Unit)
S = TypeVar("S")
R = TypeVar("R")
TASKS_A_WORKER = 4  # enough that workers finish together, few enough that a task is worth its overhead


class Bar(Protocol):
    """Who shows how far a stage is, such as `cli.progress.Bar`."""

    def expect(self, count: int) -> None: ...

    def advance(self, count: int) -> None: ...


@dataclass
class Context(Generic[P]):
    """What a stage's `run` may use. `inputs` maps artifact names to finished artifacts."""

    stage: str
    params: P
    seed: int
    inputs: dict[str, store.Artifact]
    folder: str
    cluster: Cluster
    cluster_params: ClusterParams
    bar: Bar
    warn: Callable[[str], None]
    note: Callable[[str], None]
    backend: Backend
    sources: tuple[Source, ...] = ()  # the files from outside the store that `identity` digested
    peak_bytes: int = 0
    resumed: int = 0

    def map(
        self,
        step: str,
        work: Callable[[str, U, S], Finished[R]],
        units: Sequence[U],
        shared: S,
        *,
        bytes_per_row: float = 0,
        one_unit_per_task: bool = False,
    ) -> list[Finished[R]]:
        """Run `work(folder, unit, shared)` for every unit at the cluster, in chunks; gives what came of each, in order.

        Units finished by an earlier, interrupted run are not done again. bytes_per_row: memory that a unit needs, by
        its size. The work function's annotation, `Finished[R]`, is what receipts are checked by.
        """
        return self._map(step, work, units, shared, False, bytes_per_row, one_unit_per_task)

    def map_together(
        self,
        step: str,
        work: Callable[[str, Sequence[U], S], Iterator[tuple[U, Finished[R]]]],
        units: Sequence[U],
        shared: S,
        *,
        bytes_per_row: float = 0,
    ) -> list[Finished[R]]:
        """As `map`, for work that is cheaper for several units at once: `work(folder, units, shared)` yields each."""
        return self._map(step, work, units, shared, True, bytes_per_row, False)

    def _map(
        self,
        step: str,
        work: Callable[..., Any],
        units: Sequence[U],
        shared: S,
        together: bool,
        bytes_per_row: float,
        one_unit_per_task: bool,
    ) -> list[Finished[Any]]:
        done = store.read_receipts(self.folder, step, result_type(work), self.sources)
        pending = [unit for unit in units if unit.name not in done]
        self.bar.expect(sum(unit.size for unit in units))
        if len(pending) < len(units):
            self.resumed += len(units) - len(pending)
            self.bar.advance(sum(unit.size for unit in units if unit.name in done))
        chunks = [(unit,) for unit in pending] if one_unit_per_task else self._chunks(pending, bytes_per_row)
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
            self.bar.advance(sum(unit.size for unit in call.units))

        if calls:
            self.cluster.run(calls, on_done)
        missing = [unit.name for unit in units if unit.name not in done]
        if missing:
            raise StageError(f"stage {self.stage} left {len(missing)} units undone", where=f"{step} {missing[0]}")
        return [done[unit.name] for unit in units]

    def _chunks(self, units: Sequence[U], bytes_per_row: float) -> Iterator[tuple[U, ...]]:
        """Consecutive units of about `chunk_rows` rows together; how they are cut changes no byte of the output."""
        total = sum(unit.size for unit in units)
        limit = self.cluster_params.chunk_rows or max(1, total // (TASKS_A_WORKER * self.cluster.workers))
        if bytes_per_row:
            limit = max(1, min(limit, int(parse_bytes(self.cluster_params.memory_limit) / 8 / bytes_per_row)))
        chunk: list[U] = []
        for unit in units:
            if chunk and sum(member.size for member in chunk) + unit.size > limit:
                yield tuple(chunk)
                chunk = []
            chunk.append(unit)
        if chunk:
            yield tuple(chunk)


def describe_range(units: Sequence[Unit]) -> str:
    first, last = units[0].name, units[-1].name
    return first if first == last else f"{first} to {last}"
