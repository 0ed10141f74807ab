"""Which stage stops scaling, at how many workers? Simulated from what every unit of a real run has taken.

    python benchmarks/scaling.py [RUN] [--check RUN ...] [--workers 8,64,512] [--set amazoncat-13k] [--share 0.25]

RUN is the folder of a finished run; without it, the pipeline of `size.py` runs with two workers, and with one to check
the simulation. Its results.json has the seconds of every unit. Tasks are bundled as the engine bundles them for so many
workers, each goes to the first worker that is free, and a step begins when the step before it has ended. Beside that, a
task costs the scheduler a time that is measured here with empty tasks, and a step a time that is measured in the run.
What this leaves out: workers that share disks or a network, and the start of a cluster. --check compares with runs of
other numbers of workers; this machine's cores are the most that can work at a time there.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpipe.engine.cluster import ClusterParams
from xpipe.engine.context import bundle_units
from xpipe.engine.messages import Finished, Unit

WORKERS = "8,64,512"
MOST = 4096  # workers that are tried
HALF = 0.5  # the efficiency below which a stage has stopped scaling
ALONE = 0.8  # of a step: a task that takes longer is what the others wait for
EMPTY = 400  # tasks that measure what a task costs


@dataclass(frozen=True)
class Overhead:
    """Seconds that are no work. task: of the scheduler and the run, for each task; step: until the first task runs."""

    task: float = 0.0
    step: float = 0.0


@dataclass(frozen=True)
class Step:
    """A step of a stage: sizes and seconds of its units. start: seconds that a worker needs once, such as a model."""

    name: str
    bundled: bool
    bytes_per_row: float
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    start: float = 0.0

    @property
    def work(self) -> float:
        """Seconds of all units."""
        return sum(self.seconds)


@dataclass(frozen=True)
class Stage:
    """A stage: its steps, one after the other, and the seconds in which no worker works. measured: all its seconds."""

    name: str
    steps: tuple[Step, ...]
    alone: float
    measured: float


@dataclass(frozen=True)
class Simulated:
    """A step with so many workers: its seconds, those of its longest task, the number of its tasks, all their seconds.

    start: what each worker needs before its first task.
    """

    step: str
    seconds: float
    longest: float
    tasks: int
    work: float
    start: float


def read_run(folder: Path) -> tuple[list[Stage], ClusterParams]:
    """(The stages that have run, the cluster they ran on)."""
    results = json.loads((folder / "results.json").read_text())
    cluster = ClusterParams(**results["pipeline"]["cluster"])
    stages = [stage_of(each["stage"], each["cost"]) for each in results["stages"] if "steps" in each.get("cost", {})]
    return stages, cluster


def workers_of(cluster: ClusterParams) -> int:
    """How many tasks ran at a time."""
    return 1 if cluster.kind == "none" else cluster.workers


def stage_of(name: str, cost: dict[str, Any]) -> Stage:
    """A stage as results.json tells of it."""
    inside = sum(step["seconds"] + step["opening"] for step in cost["steps"])
    opening = sum(step["opening"] for step in cost["steps"])
    steps = tuple(step_of(step) for step in cost["steps"])
    return Stage(name, steps, max(cost["seconds"] - inside, 0.0), cost["seconds"] - opening)


def step_of(times: dict[str, Any]) -> Step:
    """A step as results.json tells of it.

    What the first piece of work of a worker takes longer than others of its size is what each worker needs to start: a
    model that it reads, modules that it loads. A piece is a unit, or a task where tasks have several units at once.
    Then the seconds of a task are dealt to its units by their sizes. Tasks of one unit each say nothing of this kind:
    the largest come first.
    """
    seconds, start = list(times["unit_seconds"]), 0.0
    pieces = list(_pieces(times))
    if times["bundled"]:
        later = [spent / max(size, 1) for first, size, spent, _ in pieces if not first]
        if later:
            rate = statistics.median(later)
            start = max(0.0, min(spent - rate * size for first, size, spent, _ in pieces if first))
        for first, size, spent, places in pieces:
            for at in places:
                seconds[at] = max(spent - start * first, 0.0) * times["sizes"][at] / max(size, 1)
            if not size:
                seconds[places[0]] = max(spent - start * first, 0.0)
    order = sorted(range(len(seconds)), key=times["task_of"].__getitem__)  # as the engine gave them to workers
    return Step(
        times["step"], times["bundled"], times["bytes_per_row"], tuple(times["sizes"][at] for at in order),
        tuple(seconds[at] for at in order), start,
    )  # fmt: skip


def _pieces(times: dict[str, Any]) -> Iterator[tuple[bool, int, float, list[int]]]:
    """(Whether it was the first of its worker, its size, its seconds, its units) of each piece of work."""
    pieces: dict[int, list[int]] = {}
    for at, task in enumerate(times["task_of"]):
        pieces.setdefault(task if times["together"] else at, []).append(at)
    seen: set[int] = set()
    for places in pieces.values():
        size, spent = (sum(times[name][at] for at in places) for name in ("sizes", "unit_seconds"))
        worker = times["worker_of"][places[0]]
        yield worker not in seen, size, spent, places
        seen.add(worker)


def simulate_step(step: Step, workers: int, overhead: Overhead, cluster: ClusterParams) -> Simulated:
    """The step with so many workers: each task goes to the worker that is free first."""
    units = [Unit(str(number), size) for number, size in enumerate(step.sizes)]
    bundles = bundle_units(units, workers, cluster, step.bytes_per_row) if step.bundled else ((unit,) for unit in units)
    tasks = [sum(step.seconds[int(unit.name)] for unit in bundle) for bundle in bundles]
    free = [step.start] * workers  # a heap
    longest = ends = 0.0
    for task in tasks:
        end = heapq.heappop(free) + task
        heapq.heappush(free, end)
        longest, ends = max(longest, task), max(ends, end)
    ends = max(ends, overhead.task * len(tasks))
    return Simulated(step.name, ends + overhead.step, longest, len(tasks), step.work + step.start, step.start)


def simulate(stage: Stage, workers: int, overhead: Overhead, cluster: ClusterParams) -> tuple[float, list[Simulated]]:
    """(The seconds of a stage with so many workers, its steps)."""
    steps = [simulate_step(step, workers, overhead, cluster) for step in stage.steps]
    return stage.alone + sum(step.seconds for step in steps), steps


def efficiency(stage: Stage, workers: int, overhead: Overhead, cluster: ClusterParams) -> float:
    """The seconds of one worker over those of n workers, times n."""
    one, many = (simulate(stage, n, overhead, cluster)[0] for n in (1, workers))
    return one / (many * workers) if many else 1.0


def stops_at(stage: Stage, overhead: Overhead, cluster: ClusterParams) -> int | None:
    """The least number of workers with which less than half of their time is work; None: more than were tried."""
    below, workers = 1, 2
    while efficiency(stage, workers, overhead, cluster) >= HALF:
        below, workers = workers, 2 * workers
        if workers > MOST:
            return None
    while workers - below > 1:
        middle = (below + workers) // 2
        if efficiency(stage, middle, overhead, cluster) >= HALF:
            below = middle
        else:
            workers = middle
    return workers


def limit(stage: Stage, workers: int, overhead: Overhead, cluster: ClusterParams) -> str:
    """What costs the stage the most time beside its work, spread evenly over all workers."""
    _, steps = simulate(stage, workers, overhead, cluster)
    lost = [(step.seconds - step.work / workers, describe(step, workers, overhead)) for step in steps]
    lost.append((stage.alone * (1 - 1 / workers), f"{stage.alone:.1f} s outside of tasks"))
    return max(lost, default=(0.0, ""))[1]


def describe(step: Simulated, workers: int, overhead: Overhead) -> str:
    """What a step waits for."""
    if step.tasks == 1:
        return f"{step.step} is one task, {step.start + step.longest:.1f} s"
    if overhead.task * step.tasks >= ALONE * step.seconds:
        return f"{step.step}: handing out {step.tasks} tasks"
    if step.start > step.longest and step.start >= HALF * step.seconds:
        return f"{step.step}: each worker begins with {step.start:.1f} s"
    if step.start + step.longest >= ALONE * (step.seconds - overhead.step):
        return f"{step.step}: its longest task, {step.longest:.1f} s"
    if step.tasks < workers:
        return f"{step.step} has {step.tasks} tasks"
    return f"{step.step}: waiting for its last tasks"


def step_overhead(stages: Sequence[Stage], folder: Path) -> float:
    """What a step takes beside its work: the median of steps with one task."""
    results = json.loads((folder / "results.json").read_text())
    names = {stage.name for stage in stages}
    found = [
        step["seconds"] - sum(step["unit_seconds"])
        for each in results["stages"]
        if each["stage"] in names
        for step in each["cost"]["steps"]
        if len(set(step["task_of"])) == 1
    ]
    return max(0.0, statistics.median(found)) if found else 0.0


def do_nothing(folder: str, unit: Unit, shared: None) -> Finished[None]:
    """The work of an empty task."""
    return Finished((), None)


def task_overhead(workers: int = 1) -> float:
    """Seconds that an empty task costs, its receipt included: of the scheduler, the run and the worker together."""
    from xpipe.engine.cluster import Call, connect

    with tempfile.TemporaryDirectory(prefix="xpipe-scaling-") as folder:
        calls = [
            Call(f"empty task {n}", do_nothing, folder, "empty", (Unit(str(n), 1),), None) for n in range(EMPTY + 8)
        ]
        cluster = connect(ClusterParams(kind="local", workers=workers))
        try:
            cluster.run(calls[EMPTY:], lambda call, outcome: None)  # workers import what they need
            began = time.monotonic()
            cluster.run(calls[:EMPTY], lambda call, outcome: None)
            return (time.monotonic() - began) / EMPTY
        finally:
            cluster.close()


def show(stages: Sequence[Stage], workers: Sequence[int], overhead: Overhead, cluster: ClusterParams) -> None:
    """Print for each stage its seconds, its efficiency and its limit, for all numbers of workers."""
    import named_figures  # beside this file: only where it runs as a program
    from rich.console import Console
    from rich.table import Table

    columns = [f"{n} workers" for n in workers]
    table = Table("stage", "1 worker", *columns, "below a half from", f"what limits it with {workers[-1]}")
    table.title = f"simulated; a task costs {1000 * overhead.task:.1f} ms, a step {1000 * overhead.step:.0f} ms"
    for stage in stages:
        cells = []
        for n in workers:
            seconds, share = simulate(stage, n, overhead, cluster)[0], efficiency(stage, n, overhead, cluster)
            cells.append(f"{seconds:.1f} s, {share:.0%}")
            named_figures.record(f"{stage.name}: efficiency of {n} workers, %", 100 * share)
        end = stops_at(stage, overhead, cluster)
        one = simulate(stage, 1, overhead, cluster)[0]
        table.add_row(
            stage.name, f"{one:.1f} s", *cells, "more than " + str(MOST) if end is None else str(end),
            limit(stage, workers[-1], overhead, cluster),
        )  # fmt: skip
    Console(width=160).print(table)


def check(
    stages: Sequence[Stage], others: Sequence[tuple[list[Stage], int]], overhead: Overhead, cluster: ClusterParams
) -> None:
    """Print what the simulation says beside what other runs have taken."""
    from rich.console import Console
    from rich.table import Table

    from xpipe.ground.machine import usable_cores

    table = Table("stage", *(f"{n} workers: simulated, measured" for _, n in others), title="the simulation, checked")
    for stage in stages:
        cells = []
        for measured, n in others:
            seconds = simulate(stage, min(n, usable_cores()), overhead, cluster)[0]
            found = next((other.measured for other in measured if other.name == stage.name), None)
            cells.append(f"{seconds:.1f} s, " + ("not run" if found is None else f"{found:.1f} s"))
        table.add_row(stage.name, *cells)
    Console(width=160).print(table)


def main() -> int:
    import named_figures

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--check", type=Path, nargs="*", default=[])
    parser.add_argument("--workers", default=WORKERS)
    parser.add_argument("--set", default="amazoncat-13k")
    parser.add_argument("--share", type=float, default=0.25)
    named_figures.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpipe-scaling-") as scratch:
        runs = (
            [options.run, *options.check] if options.run else run_stand_ins(options.set, options.share, Path(scratch))
        )
        read = [read_run(folder) for folder in runs]
        stages, cluster = read[0]
        if not any(stage.steps for stage in stages):
            raise SystemExit(
                f"{runs[0]} has no times of tasks: all of its stages were in the store, of an older release"
            )
        overhead = Overhead(task_overhead(), step_overhead(stages, runs[0]))
        check(stages, [(other, workers_of(its)) for other, its in read], overhead, cluster)
        show(stages, sorted(map(int, options.workers.split(","))), overhead, cluster)
    named_figures.write(options.json)
    return 0


def run_stand_ins(name: str, share: float, scratch: Path) -> list[Path]:
    """Run the pipeline of `size.py` with two workers and with one, each from the start."""
    from size import measure

    data, folders = scratch / "data", []
    data.mkdir()
    for workers in (2, 1):
        work = scratch / str(workers)  # a store of its own
        work.mkdir()
        (work / "data").symlink_to(data)
        measure(name, share, work, "4GiB", workers)
        folders.append(work / "runs" / f"{name}-{share:g}")
    return folders


if __name__ == "__main__":
    sys.exit(main())
