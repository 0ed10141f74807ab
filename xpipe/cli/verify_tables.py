"""Tables and sentences at the end of `xpipe verify`, and of runs that verify. Computes no figures but shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.text import Text

from xpipe.argmaxability.explanation import Explanation
from xpipe.argmaxability.summary import PERCENTILES, Line
from xpipe.cli.console import new_console, new_table, print_table
from xpipe.errors import printable
from xpipe.ground.quantities import format_seconds


def show_sentence(sentence: str) -> None:
    """Print a line of text, made safe to print; nothing where it is empty."""
    if sentence:
        new_console().print(Text(printable(sentence)))


def show_verdicts(
    lines: list[Line],
    eps: float,
    n_distinct: int,
    seconds: float,
    out: str,
    *,
    exact: bool = False,
    noun: str = "label",
) -> None:
    """Print the table of verdicts. exact: exact radii were asked for, so the table also counts those not reached.

    noun: what a row of the weights is called.
    """
    radius = [f"radius p{percent}" for percent in PERCENTILES]
    above, one = f"radius > {eps:g}", "radius >= 1"
    active = "active labels" if noun == "label" else f"{noun}s"
    numbers = (f"{noun} sets", above, one, "undecided", *(["bounds only"] * exact), *radius)
    table = new_table(active, *numbers, numbers=numbers, title=f"argmaxable {noun} sets")
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
    print_table(table, drop=[*radius[1:], one, "bounds only", "undecided", *radius[:1]], note=f"{out} has them")
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
    print_table(
        table, drop=("inputs", "by sign changes", one, "undecided", "median radius"), note="verification.json has them"
    )
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


def show_answers(
    noun: str,
    n_rows: int,
    impossible: np.ndarray,
    largest: int,
    shape: tuple[int, int] | None,
    in_the_way: list[tuple[str, int]],
    queries: Sequence[str] | None,
    names: Sequence[str] | None,
    indptr: np.ndarray,
    indices: np.ndarray,
    shown: int = 8,
) -> None:
    """Print what an index or a language model can never give, and what it would take.

    impossible: rows that are. largest: labels of the largest set. shape: of the weights; None: the sizes that
    would do are not known. in_the_way: names of labels,
    with the number of impossible rows that they are in the way of.
    """
    asked = "queries" if queries else f"{noun}s" if largest == 1 else "sets"
    show_sentence(f"{len(impossible):,} of {n_rows:,} {asked} can never be answered by any input" if queries else
                  f"{len(impossible):,} of {n_rows:,} {asked} can never be on top")  # fmt: skip
    if not len(impossible):
        return

    def called(row: int) -> str:
        own = [names[label] if names else f"{noun} {label}" for label in indices[indptr[row] : indptr[row + 1]]]
        listed = ", ".join(own[:shown]) + (f" and {len(own) - shown} more" if len(own) > shown else "")
        return f"{queries[row]} ({listed})" if queries else listed

    more = f" and {len(impossible) - shown:,} more" if len(impossible) > shown else ""
    show_sentence(f"never: {'; '.join(called(int(row)) for row in impossible[:shown])}{more}")
    if in_the_way:
        show_sentence("in the way of most: " + ", ".join(f"{name} ({count:,})" for name, count in in_the_way))
    wanted = 2 * largest + 1
    if shape is not None and wanted < shape[0]:
        show_sentence(
            f"every set of at most {largest} is possible in 2 x {largest} + 1 = {wanted} dimensions, with the rows of "
            f"dft_matrix({shape[0]}, {largest}); these rows have {shape[1]}"
        )


def show_conflicts(
    conflicts: list[tuple[int, int, int, Explanation]], more: int, queries: Sequence[str] | None = None
) -> None:
    """Print why sets are unargmaxable.

    conflicts: for each set, its row, its number of active labels, how many rows have the same set, and the explanation.
    more: the number of unargmaxable sets that are not shown. queries: ids of the rows, where they have any.
    """
    console = new_console()
    for row, n_labels, count, conflict in conflicts:
        times = f", {count:,} times" if count > 1 else ""
        which = f"query {queries[row]}" if queries else f"row {row}"
        size = f"{n_labels} {conflict.noun}" + ("" if n_labels == 1 and conflict.noun != "label" else "s")
        show_sentence(f"{which} ({size}{times}): {conflict.sentence()}")
    if more:
        console.print(f"and {more:,} other unargmaxable sets: see multiplier_labels in the file")
