"""Figures of a benchmark: runs a file of `benchmarks/` with `--json`, and reads what it found. Holds no figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproductions.configuration import Measured
from xpipe.errors import DataError, StageError

TOP = Path(__file__).parent.parent.parent
FOLDER = "{data}"  # in arguments: the folder of the data


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """Run a benchmark; its figures have the names that it gives them.

    options: benchmark (the name of its file without .py), arguments ({data} stands for the folder of the data), and
    synthetic (true: it runs on a generated stand-in). A benchmark that misses a goal of its own ends with 1: its
    figures are compared all the same.
    """
    with tempfile.TemporaryDirectory(prefix="xpipe-reproduction-") as scratch:
        found = Path(scratch) / "figures.json"
        command = [*command_of(options, data), "--json", str(found)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), os.environ.get("PYTHONPATH", "")])}
        ended = subprocess.run(command, check=False, cwd=TOP, env=environment)
        if ended.returncode not in (0, 1) or not found.exists():
            raise StageError("the benchmark failed", where=command[1], why="its own message stands above")
        figures = json.loads(found.read_text(encoding="utf-8"))
    synthetic = ("SYNTHETIC: on a generated stand-in, not the real dataset.",) if options.get("synthetic") else ()
    return Measured(figures, (), synthetic)


def command_of(options: Mapping[str, Any], data: str | None) -> list[str]:
    """The command without --json. Raises DataError where a file of the data is not there."""
    words = [str(word) for word in options.get("arguments", ())]
    if data is not None:
        folder = os.path.abspath(data)
        missing = [word.replace(FOLDER, folder) for word in words if word.startswith(FOLDER)]
        missing = [path for path in missing if not os.path.exists(path)]
        if missing:
            raise DataError(
                "data is missing", where=missing[0], why="the benchmark reads it", fix="name another folder"
            )
        words = [word.replace(FOLDER, folder) for word in words]
    return [sys.executable, str(TOP / "benchmarks" / f"{options['benchmark']}.py"), *words]
