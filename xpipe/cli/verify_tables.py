"""Tables and sentences at the end of `xpipe verify`, and of runs that verify. Computes no figures but shares."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from xpipe.argmaxability.explanation import Explanation
from xpipe.argmaxability.summary import PERCENTILES, Line
from xpipe.cli.console import new_console, new_table
from xpipe.errors import printable
from xpipe.ground.quantities import format_seconds


def show_sentence(sentence: str) -> None:
    """Print a line of text, made safe to print; nothing where it is empty."""
    if sentence:
        new_console().print(Text(printable(sentence)))


def show_verdicts(
    lines: list[Line], eps: float, n_distinct: int, seconds: float, out: str, *, exact: bool = False
) -> None:
    """Print the table of verdicts. exact: exact radii were asked for, so the table also counts those not reached."""
    console = new_console()
    radius = [f"radius p{percent}" for percent in PERCENTILES]
    above, one = f"radius > {eps:g}", "radius >= 1"
    numbers = ("label sets", above, one, "undecided", *(["bounds only"] * exact), *radius)
    table = new_table("active labels", *numbers, numbers=numbers, title="argmaxable label sets")
    for line in lines:
        if line.labels == "all":
            table.add_section()
        table.add_row(
            line.labels,
            f"{line.sets:,}",
            _share(line.argmaxable, line.sets),
            _share(line.one_argmaxable, line.sets),
            f"{line.undecided:,}",
            *([f"{line.bounds_only:,}"] * exact),
            *(["-"] * len(radius) if line.radii is None else [f"{value:.3g}" for value in line.radii]),
        )
    console.print(table)
    rate = n_distinct / seconds if seconds else 0
    took = f"{n_distinct:,} distinct sets in {format_seconds(seconds)}, {rate:,.0f} a second"
    show_sentence(f"{took}; verdicts: {out}")


def show_heads(summary: dict[str, Any]) -> None:
    """Print what stage verify found, one row per head: how many rows of the split it can produce, and their radius."""
    above, one = f"radius > {summary['eps']:g}", "radius >= 1"
    has_dft = any("dft" in head for head in summary["heads"])
    numbers = ("inputs", "sets", above, one, "never", "undecided", "median radius", *(["by sign changes"] * has_dft))
    title = f"label sets of {summary['split']} that heads can produce"
    table = new_table("head", *numbers, numbers=numbers, title=title)
    for head in summary["heads"]:
        median = f"{head['radii']['p50']:.3g}" if head["radii"] else "-"
        counts = [head[name] for name in ("sets", "argmaxable", "one_argmaxable", "unargmaxable", "undecided")]
        cells = [str(head["inputs"]), *(f"{count:,}" for count in counts), median]
        if has_dft:
            cells.append(f"{head['dft']['guaranteed']:,}" if "dft" in head else "-")
        table.add_row(Text(printable(head["name"])), *cells)
    console = new_console()
    console.print(table)
    if summary.get("radius") == "exact" and (short := sum(head.get("bounds_only", 0) for head in summary["heads"])):
        console.print(f"{short:,} radii are known by their bounds only: see column `exact` of verdicts.parquet")
    for head in summary["heads"]:
        if head.get("bias_told"):
            show_sentence(f"{head['name']}: {head['bias_told']}")
    if summary["unseen_occurrences"]:
        console.print(f"{summary['unseen_occurrences']:,} occurrences of labels that training never saw were left out")


def _share(count: int, total: int) -> str:
    """A count, and its share of the total."""
    return f"{count:,} ({count / total:.1%})" if total else "0"


def show_conflicts(conflicts: list[tuple[int, int, int, Explanation]], more: int) -> None:
    """Print why sets are unargmaxable.

    conflicts: for each set, its row, its number of active labels, how many rows have the same set, and the explanation.
    more: the number of unargmaxable sets that are not shown.
    """
    console = new_console()
    for row, n_labels, count, conflict in conflicts:
        times = f", {count:,} times" if count > 1 else ""
        show_sentence(f"row {row} ({n_labels} labels{times}): {conflict.sentence()}")
    if more:
        console.print(f"and {more:,} other unargmaxable sets: see multiplier_labels in the file")
