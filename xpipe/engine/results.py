"""Reads results.json of a run and table.json of a matrix, and checks their shapes.

Writes nothing and prints nothing: `cli` does that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, read_json

RESULTS = "results.json"
RUNS = "runs"  # the folder where runs lie unless a pipeline says otherwise
TABLE = "table.json"
FORMAT = 2  # of both files. 2: every metric is a share between 0 and 1. 1, without a number: those by rank in percent
BY_RANK = ("precision", "ndcg", "psp", "recall", "f1", "micro_f1", "macro_f1")  # metrics of a model
FIX = "run the pipeline again: it is written anew"


class StageUsed(TypedDict):
    """A stage that a run uses, by its key."""

    stage: str
    key: str


class Uses(TypedDict):
    """The part of results.json that names the stages a run uses."""

    stages: list[StageUsed]


class StageMade(TypedDict):
    """A stage, and the ingredients of its key."""

    stage: str
    ingredients: dict[str, Any]


class Ingredients(TypedDict):
    """The part of results.json that tells what the stages of a run were made of."""

    stages: list[StageMade]


class Settings(TypedDict):
    """The part of results.json with the settings of the run."""

    pipeline: dict[str, Any]


class StageShown(TypedDict):
    """A stage as the table of a run shows it."""

    stage: str
    status: str
    seconds: float | int
    summary: dict[str, Any]


class OutputShown(TypedDict):
    """An output as the table of a run shows it."""

    path: str
    files: Count
    bytes: Count


class Results(TypedDict):
    """The part of results.json that the table of a run shows."""

    name: str
    synthetic: bool
    stages: list[StageShown]
    outputs: dict[str, OutputShown]
    seconds: float | int
    out: str


class MatrixRow(TypedDict):
    """One row of the table of a matrix."""

    values: dict[str, str]
    model: dict[str, Any]
    labels: dict[str, Any]
    verified: dict[str, Any]


class MatrixTable(TypedDict):
    """The part of table.json that the table of a matrix shows."""

    name: str
    keys: list[str]
    synthetic: bool
    out: str
    rows: list[MatrixRow]


def path_of(out: str, name: str = RESULTS) -> str:
    """The path of a results file in a run folder."""
    return files.join(files.local(out), name)


def last_ingredients(out: str) -> dict[str, dict[str, Any]]:
    """What each stage of the last run in this folder was made of; {} where there is no readable results.json."""
    try:
        found = read_json(path_of(out), Ingredients, allow_nan=True)
    except DataError:
        return {}
    return {stage["stage"]: stage["ingredients"] for stage in found["stages"]}


def last_pipeline(out: str) -> dict[str, Any] | None:
    """The settings of the last run in this folder; None where there is no readable results.json."""
    try:
        return read_json(path_of(out), Settings, allow_nan=True)["pipeline"]
    except DataError:
        return None


def stages_used(out: str) -> set[str]:
    """Names of the stage folders that the finished run in this folder uses.

    Raises DataError where results.json is missing or damaged.
    """
    found = read_json(path_of(out), Uses, fix=f"{FIX}, or remove the folder of the run", allow_nan=True)
    return {f"{stage['stage']}-{stage['key']}" for stage in found["stages"]}


def read_results(out: str) -> dict[str, Any]:
    """The content of results.json of a run folder. Raises DataError where it is missing or damaged."""
    found: dict[str, Any] = dict(read_json(path_of(out), Results, fix=FIX, allow_nan=True))
    if "format" not in found:
        with shown(path_of(out)):
            _to_shares([model for stage in found["stages"] for model in _measured(stage)])
        found["format"] = FORMAT
    return found


def read_table(out: str) -> dict[str, Any]:
    """The content of table.json of a matrix. Raises DataError where it is missing or damaged."""
    found: dict[str, Any] = dict(read_json(path_of(out, TABLE), MatrixTable, fix=FIX, allow_nan=True))
    if "format" not in found:
        with shown(path_of(out, TABLE)):
            _to_shares([row["model"] for row in found["rows"]])
        found["format"] = FORMAT
    return found


def _measured(stage: StageShown) -> list[dict[str, Any]]:
    """The models that a stage measured."""
    return stage["summary"].get("models", []) if stage["stage"] == "evaluate" else []


def _to_shares(models: list[dict[str, Any]]) -> None:
    """Turn the percents of an older file into shares."""
    for model in models:
        for name in BY_RANK:
            if name in model:
                model[name] = [value / 100 for value in model[name]]


def places_of_run(name: str) -> list[str]:
    """Where a run may be: the folder given, or the one of that name below runs/."""
    return [name, os.path.join(RUNS, name)]


def find_run(name: str) -> str:
    """The folder of a run or a matrix: the folder given, or the one of that name below runs/.

    Raises ConfigError where neither has results.
    """
    candidates = places_of_run(name)
    for folder in candidates:
        if any(files.exists(path_of(folder, results)) for results in (RESULTS, TABLE)):
            return folder
    raise ConfigError(
        f"no results of a run {name!r}",
        why=f"looked for results.json and table.json in {' and '.join(candidates)}",
        fix="xpipe run ... first",
    )


@contextlib.contextmanager
def shown(path: str) -> Iterator[None]:
    """Turn errors of the code that draws a results file into a DataError that names the file.

    The shapes of summaries are not checked when the file is read, so code that draws them fails on a damaged file.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        name = files.basename(path)
        raise DataError(f"{name} has not the expected content", where=path, why=why, fix=FIX) from error
