"""The end of a run or a sweep: files that tell of all of it, such as its report, are written when all else is there.

Knows no particular file: stages declare what they write (`Stage.conclude`, `Stage.conclude_sweep`). Such a file is on
record, in results.json or table.json. So a later run replaces it, and never one that somebody else wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpipe.engine.keep_aside import make_way_for_outputs
from xpipe.engine.messages import FileEntry, entry_from
from xpipe.engine.pipeline import Pipeline
from xpipe.engine.results import TABLE
from xpipe.engine.run_record import KEPT, Journal, read_record, write_journal
from xpipe.engine.wiring import Step
from xpipe.errors import DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.checked_json import read_json

# What drawing raises for content of another shape than expected. Such a defect must not cost a finished run.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
Warn = Callable[[str], None]
Contents = dict[str, bytes]


def conclude(steps: Sequence[Step], results: dict[str, Any], warn: Warn) -> None:
    """Write the files that the stages of a run conclude with into its folder, and add them to `results`.

    The caller writes results.json, then calls `close_journal`.
    """
    for step in steps:
        if step.stage.conclude is not None:
            contents = _made(step.stage.name, step.stage.conclude, step.params, results, results["out"], warn)
            for name, content in contents.items():
                add_to_run(results, name, content, warn)


def conclude_sweep(base: Pipeline, table: dict[str, Any], out: str, warn: Warn) -> None:
    """Write the files that the stages of a sweep conclude with into its folder, and add them to `table`.

    The caller writes table.json.
    """
    table["written"] = []
    for stage in base.stages:
        params = getattr(base, stage.section)
        if stage.conclude_sweep is not None and params is not None and stage.enabled(params):
            for name, content in _made(stage.name, stage.conclude_sweep, params, table, out, warn).items():
                add_to_sweep(table, out, name, content, warn)


def _made(
    stage: str, make: Callable[..., Contents], params: Any, content: Mapping[str, Any], out: str, warn: Warn
) -> Contents:
    """The files of a stage. One that cannot be made is a warning: the run itself has succeeded."""
    try:
        return make(params, content, out)
    except (XpipeError, OSError, *UNFIT) as error:
        warn(f"stage {stage} could not conclude: {type(error).__name__}: {error}")
        return {}


def add_to_run(results: dict[str, Any], name: str, content: bytes, warn: Warn) -> None:
    """Write a file into the run's folder and onto its record in `results`, in the place of an earlier one."""
    out, entry = results["out"], _entry(name, content)
    others = [entry_from(each) for each in results["written"] if each["path"] != name]
    before = [each for each in read_record(out) if each.path == name]
    write_journal(out, [*others, *before, entry])  # so that a run that is killed here knows its own file again
    _write(out, entry, content, {each.path for each in before}, warn)
    results["written"] = [each.to_json() for each in (*others, entry)]
    results["outputs"][name] = {"path": files.join(out, name), "files": 1, "bytes": entry.bytes}


def add_to_sweep(table: dict[str, Any], out: str, name: str, content: bytes, warn: Warn) -> None:
    """Write a file into the folder of a sweep and onto its record in `table`, in the place of an earlier one."""
    before: set[str] = set()
    with contextlib.suppress(DataError):
        before = {each["path"] for each in read_json(files.join(out, TABLE), Journal, allow_nan=True)["written"]}
    entry = _entry(name, content)
    _write(out, entry, content, before, warn)
    table["written"] = [*(each for each in table["written"] if each["path"] != name), entry.to_json()]


def _entry(name: str, content: bytes) -> FileEntry:
    """The record of a file."""
    return FileEntry(name, len(content), hashlib.sha256(content).hexdigest())


def _write(out: str, entry: FileEntry, content: bytes, recorded: set[str], warn: Warn) -> None:
    """Write a file. What is in its way, and not on record as written by xpipe, is moved aside."""
    for path in make_way_for_outputs([entry], recorded, out):
        warn(f"{path} in {out}, not on record as written by xpipe, was in the way: moved to {KEPT}/")
    files.write_bytes(files.join(out, entry.path), content)
