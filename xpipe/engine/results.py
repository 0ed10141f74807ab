"""What a run leaves for people, read again: results.json of a run, table.json of a matrix; their shapes.

Draws nothing (`console` and `model_tables` do) and writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, read_json

RESULTS = "results.json"
TABLE = "table.json"
FIX = "run the pipeline again: it is written anew"


class StageUsed(TypedDict):
    stage: str
    key: str


class Uses(TypedDict):
    """The stages that a run stands on."""

    stages: list[StageUsed]


class StageMade(TypedDict):
    stage: str
    ingredients: dict[str, Any]


class Ingredients(TypedDict):
    """What the stages of a run were made of."""

    stages: list[StageMade]


class StageShown(TypedDict):
    stage: str
    status: str
    seconds: float | int
    summary: dict[str, Any]


class OutputShown(TypedDict):
    path: str
    files: Count
    bytes: Count


class Results(TypedDict):
    """What the table of a run needs."""

    name: str
    synthetic: bool
    stages: list[StageShown]
    outputs: dict[str, OutputShown]
    seconds: float | int
    out: str


class MatrixRow(TypedDict):
    values: dict[str, str]
    model: dict[str, Any]
    labels: dict[str, Any]
    verified: dict[str, Any]


class MatrixTable(TypedDict):
    """What the table of a matrix needs."""

    name: str
    keys: list[str]
    synthetic: bool
    out: str
    rows: list[MatrixRow]


def path_of(out: str, name: str = RESULTS) -> str:
    return files.join(files.local(out), name)


def last_ingredients(out: str) -> dict[str, dict]:
    """What each stage of the last run in this folder was made of; {} where nothing can be read."""
    try:
        found = read_json(path_of(out), Ingredients, allow_nan=True)
    except DataError:
        return {}
    return {stage["stage"]: stage["ingredients"] for stage in found["stages"]}


def stages_used(out: str) -> set[str]:
    """Names of the stage folders that the finished run in this folder uses. Raises DataError where it is damaged."""
    found = read_json(path_of(out), Uses, fix=f"{FIX}, or remove the folder of the run", allow_nan=True)
    return {f"{stage['stage']}-{stage['key']}" for stage in found["stages"]}


def read_results(out: str) -> dict[str, Any]:
    """The results.json of a run folder. Raises DataError where it is not there or damaged."""
    return dict(read_json(path_of(out), Results, fix=FIX, allow_nan=True))


def read_table(out: str) -> dict[str, Any]:
    """The table.json of a matrix. Raises DataError where it is not there or damaged."""
    return dict(read_json(path_of(out, TABLE), MatrixTable, fix=FIX, allow_nan=True))


@contextlib.contextmanager
def shown(path: str) -> Iterator[None]:
    """For code that draws what was read: a summary has the shape that its stage gave it, or the file is damaged."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        name = files.basename(path)
        raise DataError(f"{name} has not the expected content", where=path, why=why, fix=FIX) from error
