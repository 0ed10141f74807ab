"""Reads what a report is made from: the JSON files of a run folder, or of the folder of a matrix. Draws nothing.

A file that the run does not have is None. A damaged one is a DataError that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import from_plain, read_json
from xpipe.report.figures import FIGURES, FORMAT, Figures

FIX = "run the pipeline again: it is written anew"


@dataclass(frozen=True)
class RunFiles:
    """The files of a run. histories: of each trained head its epochs."""

    folder: str
    results: Mapping[str, Any]
    figures: Figures | None
    evaluation: Mapping[str, Any] | None
    verification: Mapping[str, Any] | None
    histories: Mapping[str, Mapping[str, Any]]

    def stage(self, name: str) -> Mapping[str, Any] | None:
        """The entry of a stage in results.json; None where the run does not have it."""
        return next((stage for stage in self.results["stages"] if stage["stage"] == name), None)

    def summary(self, name: str) -> Mapping[str, Any]:
        """The summary of a stage; {} where the run does not have it."""
        stage = self.stage(name)
        return stage["summary"] if stage is not None else {}


def read_run(folder: str, results: Mapping[str, Any] | None = None, figures: Figures | None = None) -> RunFiles:
    """The files of a run folder. results, figures: taken instead of results.json and figures.json, where given.

    Raises DataError where a file is missing that must be there, or damaged.
    """
    folder = files.local(folder)
    if results is None:
        results = _read(folder, "results.json")
        if results is None:
            raise DataError("no results of a run", where=files.join(folder, "results.json"), fix="xpipe run ... first")
    has = set(results.get("outputs", {}))
    if figures is None and FIGURES in has:
        figures = read_figures(folder)
    return RunFiles(
        folder=folder,
        results=results,
        figures=figures,
        evaluation=_read(folder, "evaluation.json") if "evaluation.json" in has else None,
        verification=_read(folder, "verification.json") if "verification.json" in has else None,
        histories=_histories(folder, results),
    )


def read_table(folder: str) -> dict[str, Any]:
    """The content of table.json of a matrix. Raises DataError where it is missing or damaged."""
    table = _read(files.local(folder), "table.json")
    if table is None:
        raise DataError("no table of a matrix", where=files.join(folder, "table.json"), fix="xpipe run ... first")
    if "format" not in table:
        raise DataError("the table of an older release", where=files.join(folder, "table.json"), fix="xpipe report RUN")
    return table


def read_figures(folder: str) -> Figures | None:
    """The figures of a run folder; None where it has none, or those of another format."""
    content = _read(folder, FIGURES)
    if content is None or content.get("format") != FORMAT:
        return None
    return from_plain(content, Figures, where=files.join(folder, FIGURES))


def _histories(folder: str, results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The epochs of every trained head."""
    summaries = [stage["summary"] for stage in results["stages"] if stage["stage"] == "train_heads"]
    names = [head["name"] for summary in summaries for head in summary["heads"]]
    found = {name: _read(folder, "models", name, "history.json") for name in names if "/" not in name}
    return {name: history for name, history in found.items() if history is not None}


def _read(folder: str, *names: str) -> dict[str, Any] | None:
    """A JSON file; None where it is missing."""
    path = files.join(folder, *names)
    return read_json(path, dict[str, Any], fix=FIX, allow_nan=True) if files.exists(path) else None
