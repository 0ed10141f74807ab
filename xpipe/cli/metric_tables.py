"""Tables and sentences at the end of `xpipe evaluate`. Computes no metric."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from xpipe.cli.console import SYNTHETIC, new_console, new_table, print_table
from xpipe.metrics.propensity_constants import FAMILIES

TITLES = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "ndcg": "nDCG",
    "psp": "PSP",
    "psndcg": "PSnDCG",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "coverage": "coverage",
}
USUAL_RANKS = (1, 3, 5, 10, 20, 50, 100)


def show_evaluation(results: dict[str, Any]) -> None:
    """Print the metrics with their intervals, the figures by label frequency, and sentences about the rows."""
    console = new_console()
    at = [f"@{rank}" for rank in USUAL_RANKS]
    print_table(metrics_table(results), drop=[*at[4:], at[1], at[3]], note="--out FILE has them")
    if "threshold" in results:
        above = results["threshold"]
        console.print(
            f"scores from {above['threshold']:g} on: micro F1 {_percent(above['micro'])}, macro F1 "
            f"{_percent(above['macro'])}; {above['predicted']:,} predictions, {above['hits']:,} right"
        )
    less = ["true", "predicted", "right", "covered", "F1", f"of P@{results['k']}", "frequency"]
    print_table(frequency_table(results), drop=less, note="--out FILE has them")
    if results["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    for line in describe_rows(results):
        console.print(line)


def metrics_table(results: dict[str, Any]) -> Table:
    """The table with one row per metric and one column per usual rank, with intervals where there are any."""
    k = results["k"]
    ranks = sorted({rank for rank in USUAL_RANKS if rank <= k} | {k})
    columns = [f"@{rank}" for rank in ranks]
    ends = results["intervals"]
    title = f"{results['scores']} against {results['truth']}, %"
    if ends:
        title += f", with {ends['confidence']:.0%} intervals"
    table = new_table("metric", *columns, numbers=tuple(columns), title=title)
    for name, values in results["metrics"].items():
        of_metric = ends.get(name) if ends else None
        cells = [_cell(values[rank - 1], of_metric[rank - 1] if of_metric else None) for rank in ranks]
        table.add_row(TITLES[name], *cells)
    return table


def _cell(value: float, ends: list[float] | None) -> str:
    """A cell of the table of metrics: the value, and the ends of its interval where it has one."""
    return _percent(value) if ends is None else f"{_percent(value)} ({_percent(ends[0])} to {_percent(ends[1])})"


def _percent(value: float) -> str:
    """A share between 0 and 1 in percent."""
    return f"{100 * value:.2f}"


def frequency_table(results: dict[str, Any]) -> Table:
    """The table with one row per group of labels, from the most frequent to the rarest."""
    k = results["k"]
    title = f"labels by frequency in {results['frequency_from']}, most frequent first; metrics at {k} in %"
    numbers = ("labels", "frequency", "true", "predicted", "right", "precision", "recall", "F1", "covered", f"of P@{k}")
    table = new_table(*numbers, numbers=numbers, title=title)
    for group in results["by_frequency"]:
        most, least = group["frequency"]
        table.add_row(
            f"{group['labels']:,}",
            f"{most:,} to {least:,}",
            *(f"{group[name]:,}" for name in ("true", "predicted", "hits")),
            *(_percent(group[name]) for name in ("precision", "recall", "f1", "covered", "share_of_precision")),
        )
    return table


def describe_rows(results: dict[str, Any]) -> list[str]:
    """Sentences about the rows and labels: what was measured, and what was unusual about them."""
    k, empty = results["k"], results["rows_without_labels"]
    treated = "left out" if results["rows_removed"] else "counted as misses"
    lines = [
        f"{results['rows_measured']:,} of {results['rows']:,} rows measured, {results['labels']:,} labels: "
        f"{results['labels_with_true_rows']:,} with true rows, {results['labels_predicted']:,} predicted at {k}"
    ]
    odd = [
        (empty, f"{empty:,} rows without true labels: {treated}"),
        (results["short_rows"], f"{results['short_rows']:,} rows with fewer than {k} predictions: the rest are misses"),
        (
            results["tied_rows"],
            f"{results['tied_rows']:,} rows where equal scores decide about the {k} best: smaller label numbers first",
        ),
        (
            results["filter_pairs"],
            f"{results['filter_pairs']:,} pairs filtered, {results['filtered_true']:,} of them true labels",
        ),
    ]
    lines += [sentence for count, sentence in odd if count]
    if results["propensity"] is None:
        constants = f"constants (--dataset NAME, or --propensity A B: {FAMILIES})"
        lines.append(f"no PSP: it needs training labels (--train) and {constants}")
    return lines
