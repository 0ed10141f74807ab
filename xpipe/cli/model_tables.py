"""Tables of trained models: those of one run, and those of all combinations of a matrix.

Computes no figures: they come from results.json and table.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpipe.cli.console import SYNTHETIC, USUAL_RANKS, new_console, new_table, print_table
from xpipe.engine.sweep_table import ORACLE

LAST_RANK = {"nDCG": "ndcg", "PSP": "psp", "F1": "f1"}  # metrics that are shown at the last rank only

Model = dict[str, Any]
LEFT_OUT = ("parameters", "AU-ROC", "ACE", "F1@", "PSP", "nDCG", "ECE", "1-argmaxable", "recall", "precision", "gap")
PROVED = {"eps_argmaxable": "eps-argmaxable", "one_argmaxable": "1-argmaxable"}


def show_models(summary: dict[str, Any]) -> None:
    """Print the table of the models of a run, one row per model: its metrics, its calibration, and its size."""
    models = summary["models"]
    measures = measures_of(models)
    names = [measure.name for measure in measures]
    title = f"{summary['rows']:,} rows of split {summary['split']}, %"
    drawn = new_table("model", *names, numbers=tuple(names), title=title)
    for model in models:
        drawn.add_row(model["name"], *(measure.of(model) for measure in measures))
    print_table(drawn, drop=_less_important(names), note="evaluation.json has them")


def _less_important(names: Sequence[str]) -> list[str]:
    """The columns that a narrow table leaves out, in this order: all but P and what a matrix is about."""
    first = [name for prefix in LEFT_OUT for name in names if name.startswith(prefix)]
    return [*first, *(name for name in reversed(names) if name.startswith("P@"))][: len(names) - 1]


class Measure(NamedTuple):
    """A column of a table of models. of: the cell of a model; empty where the model has no such figure."""

    name: str
    of: Callable[[Model], str]


def measures_of(models: list[Model]) -> list[Measure]:
    """The columns of a table of these models. At least one model has a figure in each."""
    return [measure for measure in _possible_measures(models) if any(measure.of(model) for model in models)]


def _possible_measures(models: list[Model]) -> list[Measure]:
    """The columns that a table of these models could have."""
    ranks = max((len(model.get("precision", ())) for model in models), default=0)

    def at(name: str, rank: int) -> Callable[[Model], str]:
        return lambda model: f"{100 * model[name][rank - 1]:.2f}" if len(model.get(name, ())) >= rank else ""

    found = [Measure(f"P@{rank}", at("precision", rank)) for rank in USUAL_RANKS if rank <= ranks]
    if ranks:
        found += [Measure(f"{text}@{ranks}", at(name, ranks)) for text, name in LAST_RANK.items()]
    k = next((model["calibration_k"] for model in models if "ece" in model), None)

    def percent(name: str) -> Callable[[Model], str]:
        return lambda model: f"{100 * model[name]:.2f}" if name in model else ""

    found += [Measure(f"ECE@{k}", percent("ece")), Measure(f"ACE@{k}", percent("ace"))]
    found.append(Measure("AU-ROC", percent("auroc")))
    sizes = Measure("parameters", lambda model: f"{model['parameters']['head']:,}" if "parameters" in model else "")
    return [*found, sizes]


def show_matrix(table: dict[str, Any]) -> None:
    """Print the table of a matrix: one row per combination and model.

    It shows how good the assigned labels are, how good the model is, and what the model can produce.
    """
    console = new_console()
    rows = table["rows"]
    several = len({row["model"]["name"] for row in rows if row["model"]}) > 1
    groups = [group for group in (_labels(rows), _models(rows), _gaps(rows), _proofs(rows)) if group.columns]
    numbers = [name for group in groups for name in group.columns]
    names = [*table["keys"], *["model"] * several]
    drawn = new_table(*names, *numbers, numbers=tuple(numbers), title=table["name"])
    for row in rows:
        cells = [row["model"].get("name", "")] * several
        drawn.add_row(*row["values"].values(), *cells, *(cell for group in groups for cell in group.cells(row)))
    print_table(drawn, drop=_less_important(numbers), note="table.json has them")
    if table["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    notes = [group.note for group in groups if group.note]
    console.print("; ".join([*notes, f"details: {table['out']}"]))


class Columns(NamedTuple):
    """Columns of the table of a matrix that belong together. cells: those of a row. note: a sentence that explains."""

    columns: list[str]
    cells: Callable[[dict[str, Any]], list[str]]
    note: str = ""


def _labels(rows: list[dict[str, Any]]) -> Columns:
    """The quality of the assigned labels; no columns where no row has it."""
    names = ("precision", "recall", "f1") if any("f1" in row["labels"] for row in rows) else ()
    return Columns(
        ["F1" if name == "f1" else name for name in names],
        lambda row: [f"{row['labels'][name]:.3f}" if name in row["labels"] else "" for name in names],
        "precision, recall, F1: of the assigned labels",
    )


def _models(rows: list[dict[str, Any]]) -> Columns:
    """The metrics of the models."""
    measures = measures_of([row["model"] for row in rows])
    return Columns(
        [measure.name for measure in measures], lambda row: [measure.of(row["model"]) for measure in measures]
    )


def _gaps(rows: list[dict[str, Any]]) -> Columns:
    """How much of the gap to the oracle each row closes; no column where there is no oracle."""
    shown = any("precision" in row["model"] and ORACLE in row["values"].values() for row in rows)
    return Columns(
        ["gap closed"] * shown,
        lambda row: [f"{row['gap_closed']:.1%}" if "gap_closed" in row else ""],
        "gap closed: from the baseline to the oracle (true labels) at the last rank of P",
    )


def _proofs(rows: list[dict[str, Any]]) -> Columns:
    """How many label sets each head is proved to be able to produce; no columns where none was verified."""
    proved = PROVED if any(row["verified"] for row in rows) else {}

    def cells(row: dict[str, Any]) -> list[str]:
        found = row["verified"]
        return [f"{found[name]:,} of {found['sets']:,}" if found else "" for name in proved]

    note = "argmaxable: label sets of the split that the head is proved to be able to produce"
    return Columns(list(proved.values()), cells, note)
