"""Collects how long the tasks of a step take, while they finish.

Holds no file: `manifest` says what is kept of it. No key and no digest depends on any of these numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine.cluster.calls import Call, Outcome
from xpipe.engine.manifest import StepTimes

DIGITS = 4  # of seconds: a task takes a thousandth at least


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
