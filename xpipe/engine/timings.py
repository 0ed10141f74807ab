"""How long the tasks of a step took, as manifests and results.json keep it. It is enough to simulate more workers.

Holds no clock of a stage. No key and no digest depends on any of these numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from xpipe.engine.cluster.calls import Call, Outcome

DIGITS = 4  # of seconds: a task takes a thousandth at least


class StepTimes(TypedDict):
    """One step of a stage: four columns with one entry per unit, in the order in which tasks finished.

    task_of: the number of the unit's task, in the order in which tasks were given to workers.
    together: whether a task has its units at once, so that seconds of single units mean little. bundled: whether units
    were bundled into tasks by their sizes. bytes_per_row: as in `Context.map`. opening: seconds until the workers were
    there; `seconds` are those after it.
    """

    step: str
    seconds: float | int
    opening: float | int
    together: bool
    bundled: bool
    bytes_per_row: float | int
    task_of: list[int]
    worker_of: list[int]
    sizes: list[int]
    unit_seconds: list[float | int]


@dataclass
class StepClock:
    """Collects the times of one step while its tasks finish."""

    step: str
    together: bool
    bundled: bool
    bytes_per_row: float
    began: float = field(default_factory=time.monotonic)
    opened: float | None = None
    calls: Sequence[Call] = ()
    tasks: list[tuple[Call, Outcome]] = field(default_factory=list)

    def workers_are_there(self) -> None:
        """Note that tasks can begin."""
        self.opened = time.monotonic()

    def give(self, calls: Sequence[Call]) -> None:
        """Note the tasks that are given to the workers."""
        self.calls = calls

    def add(self, call: Call, outcome: Outcome) -> None:
        """Note a finished task."""
        self.tasks.append((call, outcome))

    def times(self) -> StepTimes:
        """What it has collected. Workers are numbered in the order in which they first finish a task."""
        opened = self.began if self.opened is None else self.opened
        numbers: dict[str, int] = {}
        columns: list[tuple[int, int, int, float]] = []
        given = {call.units[0].name: task for task, call in enumerate(self.calls)}
        for call, outcome in self.tasks:
            task, worker = given[call.units[0].name], numbers.setdefault(outcome.worker, len(numbers))
            columns += [(task, worker, unit.size, round(outcome.seconds[unit.name], DIGITS)) for unit in call.units]
        of: list[list[Any]] = [list(column) for column in zip(*columns, strict=True)] or [[], [], [], []]
        return StepTimes(
            step=self.step,
            seconds=round(time.monotonic() - opened, DIGITS),
            opening=round(opened - self.began, DIGITS),
            together=self.together,
            bundled=self.bundled,
            bytes_per_row=self.bytes_per_row,
            task_of=of[0],
            worker_of=of[1],
            sizes=of[2],
            unit_seconds=of[3],
        )
