"""Tables of trained models: those of one run, and those of every combination of a matrix.

Computes nothing: figures come from results.json and table.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.table import Table

from xpipe.cli.console import SYNTHETIC, USUAL_RANKS, new_console, new_table
from xpipe.engine.sweep import ORACLE

LAST_RANK = {"nDCG": "ndcg", "PSP": "psp", "F1": "f1"}  # metrics shown at the last rank alone
PROVED = {"eps_argmaxable": "eps-argmaxable", "one_argmaxable": "1-argmaxable"}


def models_table(summary: dict) -> Table:
    """One row a model: what it gets right, how far its confidences can be believed, how large it is."""
    models = summary["models"]
    measures = [measure for measure in measures_of(models) if any(measure.of(model) for model in models)]
    names = [measure.name for measure in measures]
    title = f"{summary['rows']:,} rows of split {summary['split']}, %"
    drawn = new_table("model", *names, numbers=tuple(names), title=title)
    for model in models:
        drawn.add_row(model["name"], *(measure.of(model) for measure in measures))
    return drawn


class Measure(NamedTuple):
    """A column of a table of models, and a model's cell in it: empty where the model has no such figure."""

    name: str
    of: Callable[[dict], str]


def measures_of(models: list[dict]) -> list[Measure]:
    """The columns that tables of these models may have."""
    ranks = max((len(model.get("precision", ())) for model in models), default=0)

    def at(name: str, rank: int) -> Callable[[dict], str]:
        return lambda model: f"{model[name][rank - 1]:.2f}" if len(model.get(name, ())) >= rank else ""

    found = [Measure(f"P@{rank}", at("precision", rank)) for rank in USUAL_RANKS if rank <= ranks]
    if ranks:
        found += [Measure(f"{text}@{ranks}", at(name, ranks)) for text, name in LAST_RANK.items()]
    k = next((model["calibration_k"] for model in models if "ece" in model), None)
    found.append(Measure(f"ECE@{k}", lambda model: f"{100 * model['ece']:.2f}" if "ece" in model else ""))
    found.append(Measure("AU-ROC", lambda model: f"{100 * model['auroc']:.2f}" if "auroc" in model else ""))
    sizes = Measure("parameters", lambda model: f"{model['parameters']['head']:,}" if "parameters" in model else "")
    return [*found, sizes]


def show_matrix(table: dict) -> None:
    """One row for each combination and model: how good its labels are, how good the model, what it can produce."""
    console = new_console()
    rows = table["rows"]
    assigned = ("precision", "recall", "f1") if any("f1" in row["labels"] for row in rows) else ()
    several = len({row["model"]["name"] for row in rows if row["model"]}) > 1
    measures = [
        measure
        for measure in measures_of([row["model"] for row in rows])
        if any(measure.of(row["model"]) for row in rows)
    ]
    gaps = any("precision" in row["model"] and ORACLE in row["values"].values() for row in rows)
    proved = PROVED if any(row["verified"] for row in rows) else {}
    numbers = ["F1" if name == "f1" else name for name in assigned] + [measure.name for measure in measures]
    numbers += ["gap closed"] * gaps + list(proved.values())
    columns = [*table["keys"], *["model"] * several]
    drawn = new_table(*columns, *numbers, numbers=tuple(numbers), title=table["name"])
    for row in rows:
        cells = [row["model"].get("name", "")] * several
        cells += [f"{row['labels'][name]:.3f}" if name in row["labels"] else "" for name in assigned]
        cells += [measure.of(row["model"]) for measure in measures]
        cells += [f"{row['gap_closed']:.1%}" if "gap_closed" in row else ""] * gaps
        found = row["verified"]
        cells += [f"{found[what]:,} of {found['sets']:,}" if found else "" for what in proved]
        drawn.add_row(*row["values"].values(), *cells)
    console.print(drawn)
    if table["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    notes = ["precision, recall, F1: of the assigned labels"] if assigned else []
    notes += ["gap closed: from the baseline to the oracle (true labels) at the last rank of P"] if gaps else []
    notes += ["argmaxable: label sets of the split that the head is proved to be able to produce"] if proved else []
    console.print("; ".join([*notes, f"details: {table['out']}"]))
