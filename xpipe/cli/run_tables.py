"""Tables and lines that commands print at their end. Computes no figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from xpipe.cli.console import SYNTHETIC, new_console, new_table, print_table
from xpipe.ground.quantities import format_bytes, format_seconds
from xpipe.stages import STAGES

if TYPE_CHECKING:
    from xpipe.cli.examination import Check
    from xpipe.engine.decide import Decision
    from xpipe.engine.pipeline import Pipeline
    from xpipe.engine.prune import Removed
    from xpipe.formats.checking import CheckReport


SHOWN_COMPILING = 1.0  # seconds of compilation that are worth a word


def _mark(ok: bool | None, no: str, unknown: str) -> Text:
    """A cell that says whether something is as it should be: ok, or the word `no`, or the word `unknown`."""
    return Text(unknown) if ok is None else Text("ok", style="green") if ok else Text(no, style="red")


def _show_heads(summary: dict[str, Any]) -> None:
    """Print the table of stage verify."""
    from xpipe.cli.verify_tables import show_heads

    show_heads(summary)


def _show_models(summary: dict[str, Any]) -> None:
    """Print the table of stage evaluate."""
    from xpipe.cli.model_tables import show_models

    show_models(summary)


STAGE_TABLES: Mapping[str, Callable[[dict[str, Any]], None]] = {"verify": _show_heads, "evaluate": _show_models}


def show_results(results: dict[str, Any]) -> None:
    """Print the results of a run: the table of its stages, the tables of single stages, and its outputs."""
    _show_stages(results)
    for stage in results["stages"]:
        if stage["stage"] in STAGE_TABLES:
            STAGE_TABLES[stage["stage"]](stage["summary"])
    console = new_console()
    if results["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    for name, output in results["outputs"].items():
        folder = "" if "." in name else "/"  # an output is a folder, or one file
        count = f"{output['files']} files, " if folder else ""
        console.print(f"  {name + folder:<10} {output['path']}  ({count}{format_bytes(output['bytes'])})")
    cached = all(stage["status"] == "cached" for stage in results["stages"])
    ending = "everything was cached" if cached else "done"
    compiling = sum(stage.get("compile_seconds", 0) for stage in results["stages"])
    if compiling >= SHOWN_COMPILING:
        console.print(f"kernels were compiled in {format_seconds(compiling)}, which the times of the stages leave out")
    console.print(f"{ending} in {format_seconds(results['seconds'])}; details: {results['out']}/results.json")


def _show_stages(results: dict[str, Any]) -> None:
    """Print one row per stage of a run: its status, rows, time and memory, and what it made."""
    numbers = ("rows", "seconds", "peak memory")
    table = new_table("stage", "status", *numbers, "what", numbers=numbers, title=results["name"])
    for stage in results["stages"]:
        summary = stage["summary"]
        peak = format_bytes(stage["peak_memory"]) if stage.get("peak_memory") else "-"
        rows = f"{summary['rows']:,}" if "rows" in summary else "-"
        figures = [rows, f"{stage['seconds']:.1f}", peak]
        table.add_row(stage["stage"], stage["status"], *figures, describe(stage["stage"], summary))
    print_table(table, drop=("peak memory", "rows", "status"), note="results.json has them")


def describe(stage: str, summary: dict[str, Any]) -> str:
    """One line about what a stage made, which the stage itself words."""
    return next((known.describe(summary) for known in STAGES if known.name == stage), "")


def show_plan(
    pipeline: Pipeline, decisions: Sequence[Decision], title: str | None = None, replaced: str | None = None
) -> None:
    """Print one row per step of a plan. title: by default the name of the pipeline. replaced: what `run` replaces."""
    table = new_table(
        "stage", "status", "rows", "memory per worker", "why", numbers=("rows", "memory per worker"),
        title=title or pipeline.name,
    )  # fmt: skip
    for decision in decisions:
        rows, needed = decision.estimate.rows, decision.estimate.memory
        table.add_row(
            decision.step.stage.name,
            "cached" if decision.cached else Text("to do", style="yellow"),
            f"{rows:,}" if rows is not None else "?",
            f"about {format_bytes(needed)}" if needed is not None else "?",
            decision.why,
        )
    print_table(table, drop=("memory per worker", "rows"))
    if replaced:
        new_console().print(replaced)


def show_check(report: CheckReport) -> None:
    """Print how a folder compares with published statistics."""
    console = new_console()
    console.print(report.layout_sentence)
    if report.synthetic:
        console.print(SYNTHETIC, style="bold yellow")
    table = new_table("quantity", "published", "found", "", "note", numbers=("published", "found"), title=report.title)
    for row in report.rows:
        mark = _mark(row.ok, "differs", "")
        table.add_row(row.quantity, _figure(row.published), _figure(row.found), mark, row.note)
    print_table(table, drop=("note",))


def _figure(value: Any) -> str:
    """A figure of a table: numbers with separators, "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def show_written(paths: Sequence[str]) -> None:
    """Print the files that were written."""
    console = new_console()
    for path in paths:
        console.print(f"wrote {path}")


def show_synth(name: str, out: str, facts: Mapping[str, Any]) -> None:
    """Print what stand-in was written, and what is known about it."""
    console = new_console()
    console.print(f"SYNTHETIC stand-in of {name} written to {out}", style="bold yellow")
    for key, value in facts.items():
        if isinstance(value, int | float | str):
            console.print(f"  {key.replace('_', ' ')}: {_figure(value)}")


def show_cleaned(removed: Sequence[Removed], dry_run: bool) -> None:
    """Print what was removed from a store, or would be."""
    console = new_console()
    for item in removed:
        console.print(
            f"{'would remove' if dry_run else 'removed'} {item.name} ({format_bytes(item.bytes)}): {item.why}"
        )
    total = format_bytes(sum(item.bytes for item in removed))
    console.print(f"{len(removed)} stages, {total} (files that a run's folder still links to stay on disk)")


def show_doctor(checks: Sequence[Check]) -> None:
    """Print one row per check of the machine."""
    console = new_console()
    table = new_table("check", "", "found", "advice")
    for item in checks:
        mark = _mark(item.ok, "no", "-")
        table.add_row(item.name, mark, str(item.found), item.advice)
    console.print(table)
