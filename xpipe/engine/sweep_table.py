"""The table of a sweep: one row per combination and model, with its figures. Runs nothing and draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ORACLE = "oracle"
SUMMARISED = ("assign", "train", "train_heads", "verify", "evaluate")  # stages whose seconds the table has
QUALITY = ("method", "precision", "recall", "f1")  # figures of an assignment that the table has

Row = dict[str, Any]


def figures(results: Mapping[str, Any]) -> list[Row]:
    """What one run adds to the table: one row per model, or a single row where it has no model.

    labels: the quality of the assignment. model: the metrics of the model. verified: what a head can produce. seconds:
    the time of each stage that was not cached.
    """
    stages = {stage["stage"]: stage for stage in results["stages"]}
    assignment = _summary(stages, "assign")
    shared = {
        "synthetic": results["synthetic"],
        "labels": {name: assignment[name] for name in QUALITY if name in assignment},
        "seconds": {
            name: stages[name]["seconds"]
            for name in SUMMARISED
            if name in stages and stages[name]["status"] != "cached"
        },
    }
    verified = {head["name"]: _verified(head) for head in _summary(stages, "verify").get("heads", ())}
    measured = {model["name"]: model for model in _summary(stages, "evaluate").get("models", ())}
    names = list(dict.fromkeys([*measured, *verified]))
    rows = [
        {**shared, "model": measured.get(name, {"name": name}), "verified": verified.get(name, {})} for name in names
    ]
    return rows or [{**shared, "model": {}, "verified": {}}]


def _summary(stages: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The summary of a stage; {} where the run does not have it."""
    found: Mapping[str, Any] = stages.get(name, {}).get("summary", {})
    return found


def _verified(head: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a verified head that the table has."""
    return {
        "sets": head["sets"],
        "eps_argmaxable": head["argmaxable"],
        "one_argmaxable": head["one_argmaxable"],
        "undecided": head["undecided"],
    }


def close_gaps(rows: list[Row]) -> None:
    """Add to every row `gap_closed`: the share of the gap between the baseline and the oracle that it closes.

    The gap is that of P at the last rank. Rows without a baseline or an oracle get nothing.
    """
    for row in rows:
        start = {**row["values"], "assign.method": "baseline"}
        baseline = _precision_of(rows, row, start.__eq__)
        oracle = _precision_of(rows, row, lambda values: ORACLE in values.values())
        own = row["model"].get("precision")
        if own and baseline and oracle and oracle[-1] > baseline[-1]:
            row["gap_closed"] = round((own[-1] - baseline[-1]) / (oracle[-1] - baseline[-1]), 4)


def _precision_of(rows: list[Row], row: Row, fits: Callable[[dict[str, str]], bool]) -> list[float] | None:
    """P of the same model in the first row whose values fit; None where there is no such row, or it has no P."""
    same_model = (other for other in rows if other["model"].get("name") == row["model"].get("name"))
    return next((other["model"].get("precision") for other in same_model if fits(other["values"])), None)
