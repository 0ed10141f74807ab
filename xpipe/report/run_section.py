"""The section "What ran": the stages with their times and peak memory. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpipe.ground.quantities import format_bytes, format_seconds
from xpipe.report import charts
from xpipe.report.page import NOTHING, Beside, Cell, Column, Facts, Paragraph, Picture, Section, Table, table
from xpipe.report.run_files import RunFiles

COLUMNS = (
    Column("stage"), Column("status"), Column("seconds", number=True, digits=1), Column("peak memory", number=True),
    Column("why"),
)  # fmt: skip


def run_section(run: RunFiles) -> Section:
    """What ran, how long it took, and how much memory it needed."""
    stages = run.results["stages"]
    cached = sum(stage["status"] == "cached" for stage in stages)
    total = format_seconds(sum(seconds_of(stage) or 0 for stage in stages))
    told = f"{len(stages)} stages, {total} of work in all."
    if cached:
        told += (
            f" {cached} of them {'was' if cached == 1 else 'were'} in the store already: the figures are those of when"
            " they were made, and their bars are pale."
        )
    unknown = [stage["stage"] for stage in stages if seconds_of(stage) is None]
    if unknown:
        told += f" Nobody knows what {', '.join(unknown)} took: an older release made it."
    blocks = [Paragraph(told), Facts(_facts(run))]
    return Section("run", "What ran", (*blocks, *[Beside((_picture(stages), _table(stages)))] * bool(stages)))


def seconds_of(stage: Mapping[str, Any]) -> float | None:
    """How long a stage took, at its making; None where nobody knows."""
    if "cost" in stage:
        return float(stage["cost"]["seconds"])
    return float(stage["seconds"]) if stage["status"] != "cached" else None


def memory_of(stage: Mapping[str, Any]) -> int | None:
    """The peak memory of a stage's process, at its making; None where nobody knows."""
    if "cost" in stage:
        return int(stage["cost"]["peak_memory"])
    return stage.get("peak_memory")


def _facts(run: RunFiles) -> tuple[tuple[str, str], ...]:
    """Where it ran."""
    results = run.results
    cluster, backend = results["cluster"], results["backend"]
    workers = f"{cluster['workers']} workers" if "workers" in cluster else ""
    workers += f" of {format_bytes(cluster['memory_limit'])}" if "memory_limit" in cluster else ""
    return (
        ("seed", str(results["seed"])),
        ("cluster", f"{cluster['kind']}" + (f", {workers}" if workers else "")),
        ("backend", f"{backend['name']}"),
        ("peak memory of the main process", format_bytes(results["peak_memory_main"])),
    )


def _picture(stages: list[Mapping[str, Any]]) -> Picture:
    """Bars of seconds and of peak memory."""
    names = [stage["stage"] for stage in stages]
    seconds, memory = [seconds_of(stage) for stage in stages], [memory_of(stage) for stage in stages]
    pale = [stage["status"] == "cached" for stage in stages]
    svg = charts.bars(
        "costs",
        names,
        [
            ("time", [each or 0.0 for each in seconds], [_time(each) for each in seconds], pale),
            ("peak memory", [float(each or 0) for each in memory], [_memory(each) for each in memory], pale),
        ],
    )
    longest = max(range(len(stages)), key=lambda place: seconds[place] or 0.0)
    largest = max(range(len(stages)), key=lambda place: memory[place] or 0)
    return Picture(
        "Time and peak memory of each stage",
        svg,
        f"Bars of {len(stages)} stages. The longest is {names[longest]} with {_time(seconds[longest])}; "
        f"{names[largest]} needed most memory, {_memory(memory[largest])}.",
        table(
            (
                Column("stage"),
                Column("seconds", number=True, digits=1),
                Column("peak memory, MiB", number=True, digits=0),
            ),
            [
                (name, took, None if peak is None else peak / 2**20)
                for name, took, peak in zip(names, seconds, memory, strict=True)
            ],
        ),
        note="Peak memory is that of the largest worker process, or of the main process where no worker did the work.",
    )


def _time(seconds: float | None) -> str:
    """A duration in a picture."""
    return NOTHING if seconds is None else format_seconds(seconds)


def _memory(count: int | None) -> str:
    """An amount of memory in a picture."""
    return NOTHING if count is None else format_bytes(count)


def _table(stages: list[Mapping[str, Any]]) -> Table:
    """One row per stage."""
    rows = [
        (
            stage["stage"],
            stage["status"],
            seconds_of(stage),
            Cell(_memory(memory_of(stage)), memory_of(stage)),
            stage.get("why", ""),
        )
        for stage in stages
    ]
    return table(COLUMNS, rows, "Stages")
