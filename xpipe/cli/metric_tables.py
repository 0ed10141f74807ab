"""What people read at the end of `xpipe evaluate`. Computes nothing it could be wrong about."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from xpipe.cli.console import SYNTHETIC, new_console, new_table
from xpipe.metrics.evaluation import propensity_hint

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
    """Print the metrics with their intervals, the breakdown by label frequency, and what was odd about the rows."""
    console = new_console()
    console.print(metrics_table(results))
    if "threshold" in results:
        above = results["threshold"]
        console.print(
            f"scores from {above['threshold']:g} on: micro F1 {_percent(above['micro'])}, macro F1 "
            f"{_percent(above['macro'])}; {above['predicted']:,} predictions, {above['hits']:,} right"
        )
    console.print(frequency_table(results))
    if results["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    for line in describe_rows(results):
        console.print(line)


def metrics_table(results: dict[str, Any]) -> Table:
    """One row a metric, one column a usual rank; with intervals where there are any."""
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
    return _percent(value) if ends is None else f"{_percent(value)} ({_percent(ends[0])} to {_percent(ends[1])})"


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def frequency_table(results: dict[str, Any]) -> Table:
    """One row for each group of labels, from head to tail."""
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
    """Sentences about rows and labels that are not as one would wish."""
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
    hint = propensity_hint(results)
    return [*lines, hint] if hint else lines
