"""Figures of a pipeline: runs it in a folder of its own, and reads what it measured. Holds no figure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproductions.configuration import Measured, Table
from xpipe.engine.tracking import TrackedRun, tracked_runs
from xpipe.errors import StageError

TOP = Path(__file__).parent.parent.parent
BY_RANK = re.compile(r"_at_[0-9]+$")


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """Run a pipeline and take figures by the names that `xpipe export` gives them.

    options: pipeline (a file), settings (as of `xpipe run --set`; {data} stands for the folder of the data), table
    (title; columns: title -> name of a metric; rows: published ones, a name and one text per column; name: that of our
    row). Figures of a matrix begin with the name of the combination: `eagle: tree.precision_at_1`.
    """
    with tempfile.TemporaryDirectory(prefix="xpipe-reproduction-") as out:
        run_pipeline(options, data, out)
        runs = tracked_runs(os.path.join(out, "run"))
        return read_figures(options, runs)


def read_figures(options: Mapping[str, Any], runs: list[TrackedRun]) -> Measured:
    """What finished runs measured."""
    figures = {f"{prefix_of(run)}{name}": value for run in runs for name, value in in_percent(run).items()}
    tables = (compare_table(options["table"], runs),) if "table" in options else ()
    synthetic = any(run.tags["xpipe.synthetic"] == "SYNTHETIC" for run in runs)
    return Measured(
        figures, tables, ("SYNTHETIC: on a generated stand-in, not the real dataset.",) if synthetic else ()
    )


def run_pipeline(options: Mapping[str, Any], data: str | None, out: str) -> None:
    """Run `xpipe run`. Raises StageError where it fails."""
    folder = None if data is None else os.path.abspath(data)
    settings = [text.replace("{data}", str(folder)) for text in options.get("settings", ())]
    settings += [f"out={out}/run", f"store={out}/.store", "report=none"]
    command = [sys.executable, "-m", "xpipe", "-q", "run", str(TOP / options["pipeline"])]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(command, check=False, cwd=TOP, env=environment)
    if ended.returncode:
        raise StageError("the pipeline failed", where=options["pipeline"], why="its own message stands above")


def in_percent(run: TrackedRun) -> dict[str, float]:
    """The metrics of a run. Those by rank are shares in its files, and percents in papers."""
    return {name: 100 * value if BY_RANK.search(name) else value for name, value in run.metrics.items()}


def prefix_of(run: TrackedRun) -> str:
    """The combination of a run of a matrix, as a beginning of names; empty for a single run."""
    _, slash, combination = run.name.partition("/")
    return f"{combination}: " if slash else ""


def compare_table(wanted: Mapping[str, Any], runs: list[TrackedRun]) -> Table:
    """Published rows, then one row per run."""
    columns = wanted["columns"]
    rows = [tuple(str(cell) for cell in row) for row in wanted.get("rows", ())]
    for run in runs:
        metrics = in_percent(run)
        cells = [f"{metrics[name]:.2f}" if name in metrics else "" for name in columns.values()]
        rows.append((run.name.partition("/")[2] or wanted.get("name", "xpipe"), *cells))
    return Table(wanted["title"], ("", *columns), tuple(rows))
