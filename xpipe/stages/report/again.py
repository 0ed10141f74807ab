"""The report of a finished run, made anew. Runs no stage: figures that the run lacks are counted in this process.

Holds no drawing: that is the room `report`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpipe.engine.conclude import add_to_run, add_to_sweep
from xpipe.engine.locks import RunLock
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Unit
from xpipe.engine.paths import absolute
from xpipe.engine.results import RESULTS, TABLE, path_of, read_results, read_table
from xpipe.engine.run_record import close_journal
from xpipe.engine.store import Store
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.report import matrix_report, run_report
from xpipe.report.figures import Figures
from xpipe.report.run_files import read_figures
from xpipe.stages.emitted_paths import REPORT_FILE
from xpipe.stages.report.messages import Nothing
from xpipe.stages.report.params import ReportParams
from xpipe.stages.report.stage import STAGE, part_units, to_figure


def described_by(folder: str) -> str:
    """The file that tells of a run, or else of a matrix."""
    return RESULTS if files.exists(path_of(folder, RESULTS)) else TABLE


def make_again(folder: str, out: str | None = None) -> str:
    """Make the report of a run or a matrix anew, and return its path.

    out: the file to write; by default report.html in the folder, which also goes onto the record of the run.
    """
    folder = absolute(folder)
    return (_run_again if described_by(folder) == RESULTS else _matrix_again)(folder, out)


def _run_again(folder: str, out: str | None) -> str:
    """The report of a run."""
    results = read_results(folder)
    content = run_report(folder, results, read_figures(folder) or _count_figures(results)).encode()
    if out is not None:
        files.write_bytes(files.local(out), content)
        return out
    results["out"] = folder  # a folder may have been moved since
    with RunLock(folder):
        add_to_run(results, REPORT_FILE, content, _ignore)
        files.write_bytes(path_of(folder), dump_json(results))
        close_journal(folder)
    return files.join(folder, REPORT_FILE)


def _matrix_again(folder: str, out: str | None) -> str:
    """The report of a matrix."""
    table = read_table(folder)
    content = matrix_report(folder, table).encode()
    if out is not None:
        files.write_bytes(files.local(out), content)
        return out
    table.setdefault("written", [])
    add_to_sweep(table, folder, REPORT_FILE, content, _ignore)
    files.write_bytes(path_of(folder, TABLE), dump_json(table))
    return files.join(folder, REPORT_FILE)


def _ignore(warning: str) -> None:
    """Where what was in the way went is plain to see."""


def _count_figures(results: Mapping[str, Any]) -> Figures | None:
    """The figures of a run that has none, from what its stages left in the store; None where that is gone."""
    from xpipe.stages.report import work

    inputs = _artifacts(results)
    if any(name.removesuffix("?") not in inputs for name in STAGE.reads if not name.endswith("?")):
        return None
    params = ReportParams()
    with tempfile.TemporaryDirectory() as scratch:
        counted = [work.count_part(scratch, unit, Nothing()).result for unit in part_units(inputs)]
        work.make_figures(scratch, Unit("figures", 0), to_figure(inputs, counted, params))
        return read_figures(os.fspath(Path(scratch, work.ARTIFACT)))


def _artifacts(results: Mapping[str, Any]) -> dict[str, Artifact]:
    """What stages of the run left in the store, by name: of artifacts that several write, the latest."""
    store, found = Store(str(results.get("store", "")), remembers=False), dict[str, Artifact]()
    for stage in results["stages"]:
        try:
            manifest = store.find(stage["stage"], stage["key"])
        except (OSError, DataError):
            continue
        if manifest is not None and not manifest.broken:
            found |= manifest.artifacts
    return found
