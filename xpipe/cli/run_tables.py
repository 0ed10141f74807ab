"""Tables and lines people read at the end of a command. Computes nothing it could be wrong about."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from xpipe.cli.console import SYNTHETIC, new_console, new_table
from xpipe.ground.quantities import format_bytes, format_seconds
from xpipe.stages import STAGES


def _mark(ok: bool | None, no: str, unknown: str) -> Text:
    return Text(unknown) if ok is None else Text("ok", style="green") if ok else Text(no, style="red")


def show_results(results: dict) -> None:
    """The table at the end of a run, then where the datasets are and what is in them."""
    console = new_console()
    numbers = ("rows", "seconds", "peak memory")
    columns = ("stage", "status", "rows", "seconds", "peak memory", "what")
    table = new_table(*columns, numbers=numbers, title=results["name"])
    for stage in results["stages"]:
        summary = stage["summary"]
        peak = format_bytes(stage["peak_memory"]) if stage.get("peak_memory") else "-"
        rows = f"{summary['rows']:,}" if "rows" in summary else "-"
        table.add_row(
            stage["stage"], stage["status"], rows, f"{stage['seconds']:.1f}", peak, describe(stage["stage"], summary)
        )
    console.print(table)
    for stage in results["stages"]:
        if stage["stage"] == "verify":
            from xpipe.cli.verify_tables import show_heads

            show_heads(stage["summary"])
        if stage["stage"] == "evaluate":
            from xpipe.cli.model_tables import models_table

            console.print(models_table(stage["summary"]))
    if results["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    for name, output in results["outputs"].items():
        folder = "" if "." in name else "/"  # an output is a folder, or one file
        count = f"{output['files']} files, " if folder else ""
        console.print(f"  {name + folder:<10} {output['path']}  ({count}{format_bytes(output['bytes'])})")
    cached = all(stage["status"] == "cached" for stage in results["stages"])
    ending = "everything was cached" if cached else "done"
    console.print(f"{ending} in {format_seconds(results['seconds'])}; details: {results['out']}/results.json")


def describe(stage: str, summary: dict) -> str:
    """One line about what a stage made, in its own words."""
    return next((known.describe(summary) for known in STAGES if known.name == stage), "")


def show_plan(pipeline: Any, decisions: list, title: str | None = None) -> None:
    console = new_console()
    table = new_table(
        "stage", "status", "rows", "memory a worker", "why", numbers=("rows", "memory a worker"),
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
    console.print(table)


def show_check(report: Any) -> None:
    console = new_console()
    console.print(report.layout_sentence)
    if report.synthetic:
        console.print(SYNTHETIC, style="bold yellow")
    table = new_table("quantity", "published", "found", "", "note", numbers=("published", "found"), title=report.title)
    for row in report.rows:
        mark = _mark(row.ok, "differs", "")
        table.add_row(row.quantity, _figure(row.published), _figure(row.found), mark, row.note)
    console.print(table)


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def show_written(paths: list[str]) -> None:
    console = new_console()
    for path in paths:
        console.print(f"wrote {path}")


def show_synth(name: str, out: str, facts: dict) -> None:
    console = new_console()
    console.print(f"SYNTHETIC stand-in of {name} written to {out}", style="bold yellow")
    for key, value in facts.items():
        if isinstance(value, int | float | str):
            console.print(f"  {key.replace('_', ' ')}: {_figure(value)}")


def show_cleaned(removed: list, dry_run: bool) -> None:
    console = new_console()
    for item in removed:
        console.print(
            f"{'would remove' if dry_run else 'removed'} {item.name} ({format_bytes(item.bytes)}): {item.why}"
        )
    total = format_bytes(sum(item.bytes for item in removed))
    console.print(f"{len(removed)} stages, {total} (files that a run's folder still links to stay on disk)")


def show_doctor(checks: list) -> None:
    console = new_console()
    table = new_table("check", "", "found", "advice")
    for item in checks:
        mark = _mark(item.ok, "no", "-")
        table.add_row(item.name, mark, str(item.found), item.advice)
    console.print(table)
