"""A pipeline file with a `matrix`: each combination of its values is a pipeline of its own. One table shows them all.

Holds no stage and draws nothing. Stages that combinations share run once, thanks to content keys. Where labels are
grouped, there is also the oracle: the same pipeline on the true labels.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.engine import decide, execute
from xpipe.engine.conclude import conclude_sweep
from xpipe.engine.keep_aside import make_way
from xpipe.engine.pipeline import Pipeline
from xpipe.engine.progress import Progress
from xpipe.engine.results import FORMAT, TABLE
from xpipe.engine.run_record import KEPT
from xpipe.engine.sweep_table import ORACLE, close_gaps, figures
from xpipe.engine.wiring import raise_all
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.ground.backend import Backend
from xpipe.ground.checked_json import dump_json
from xpipe.ground.quantities import timestamp

GROUPED = ("group", "embed", "assign")  # sections that the oracle switches off
FIXED = ("matrix", "out", "store")  # keys that every combination has its own value of
MOST_COMBINATIONS = 10_000
LONGEST_FOLDER = 120  # characters of the name of a combination's folder

Load = Callable[[Sequence[str]], Pipeline]


@dataclass(frozen=True)
class Combination:
    """One pipeline of the matrix. values: for each key of the matrix, its value in words ("oracle" for the oracle)."""

    values: dict[str, str]
    pipeline: Pipeline


def expand(load: Load) -> list[Combination]:
    """Every combination, in the order of the file, then the oracle. Raises ConfigError for any that is wrong.

    load: a function that gives the checked pipeline of the file, changed by settings such as "group.size=10".
    """
    base = load(())
    check_keys(base.matrix)
    found: list[Combination] = []
    taken = {TABLE}  # names in the folder of the matrix that no combination can have
    for values in itertools.product(*base.matrix.values()):
        chosen = dict(zip(base.matrix, values, strict=True))
        texts = {key: in_words(value) for key, value in chosen.items()}
        settings = [f"{key}={json.dumps(value)}" for key, value in chosen.items()]
        found.append(_combination(load, base, texts, settings, taken))
    if any(getattr(member.pipeline, section, None) is not None for member in found for section in GROUPED):
        found.append(_oracle(load, base, taken))
    return found


def _oracle(load: Load, base: Pipeline, taken: set[str]) -> Combination:
    """The pipeline on the true labels: without the sections of groups, and with the first value of all other keys."""
    off = [f"{section}=null" for section in GROUPED]
    others = {key: in_words(values[0]) for key, values in base.matrix.items() if key.split(".")[0] not in GROUPED}
    settings = [f"{key}={json.dumps(base.matrix[key][0])}" for key in others]
    texts = {key: others.get(key, ORACLE) for key in base.matrix}
    return _combination(load, base, texts, settings + off, taken)


def check_keys(matrix: Mapping[str, list[Any]]) -> None:
    """Raise ConfigError for keys that cannot vary, values that are given twice, and far too many combinations."""
    problems = [f"`matrix` cannot vary {key}: every combination has its own" for key in FIXED if key in matrix]
    for key, values in matrix.items():
        texts = [json.dumps(value, sort_keys=True) for value in values]
        doubled = [text for text in dict.fromkeys(texts) if texts.count(text) > 1]
        problems += [f"`matrix.{key}` has the value {text[:60]} twice" for text in doubled]
    count = math.prod(len(values) for values in matrix.values())
    if count > MOST_COMBINATIONS:
        problems.append(f"`matrix` has {count:,} combinations, more than {MOST_COMBINATIONS:,}")
    if problems:
        raise ConfigError("the matrix of the pipeline cannot be run", why="; ".join(problems))


def _combination(
    load: Load, base: Pipeline, texts: dict[str, str], settings: list[str], taken: set[str]
) -> Combination:
    """A combination with its own folder, below that of the matrix. taken: the names of folders so far."""
    name = folder_name(texts, taken)
    own = [f"out={files.join(base.out, name)}", f"store={base.store}", "matrix=null"]
    return Combination(texts, load([*settings, *own]))


def folder_name(texts: dict[str, str], taken: set[str]) -> str:
    """The name of a combination's folder: its values, in letters that every file system allows, cut where too long.

    No two combinations get the same name, not even on a file system that ignores case. The name is added to `taken`.
    """
    words = [re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") for text in dict.fromkeys(texts.values())]
    usual = "_".join(word for word in words if word)[:LONGEST_FOLDER].strip("-._") or "combination"
    name, number = usual, 2
    while name.lower() in taken:
        name, number = f"{usual}-{number}", number + 1
    taken.add(name.lower())
    return name


def in_words(value: Any) -> str:
    """A value as the table shows it: {rule: random, size: 4} becomes "random 4"."""
    if isinstance(value, dict):
        return " ".join(in_words(inner) for inner in value.values())
    if isinstance(value, list):
        return ", ".join(in_words(inner) for inner in value)
    return str(value)


def check(combinations: list[Combination]) -> None:
    """Raise what is bound to fail in any combination, before the first one runs."""
    problems: dict[str, XpipeError] = {}  # by their text, so that a problem of all combinations is told once
    for combination in combinations:
        try:
            decide.check(combination.pipeline)
        except XpipeError as error:
            problems.setdefault(str(error), error)
    raise_all(list(problems.values()), "combinations of the matrix cannot run")


def run(combinations: list[Combination], base: Pipeline, progress: Progress, backend: Backend) -> dict[str, Any]:
    """Run all combinations, then write and return the table. The same call resumes a sweep that was stopped."""
    rows, started = [], timestamp()
    check(combinations)
    out = files.local(base.out)
    execute.remove_abandoned(out)
    for number, combination in enumerate(combinations, 1):
        progress.note(f"{number} of {len(combinations)}: {', '.join(combination.values.values())}")
        results = execute.run(combination.pipeline, progress, backend, concluding=False)
        rows += [{"values": combination.values, "out": results["out"], **row} for row in figures(results)]
    close_gaps(rows)
    table = {
        "format": FORMAT,
        "name": base.name,
        "keys": list(base.matrix),
        "synthetic": any(row["synthetic"] for row in rows),
        "out": files.join(base.out, TABLE),
        "rows": rows,
        "pipeline": base.to_json(),
        "versions": execute.versions(),
        "started": started,
        "finished": timestamp(),
    }
    for name in make_way(out, TABLE):
        progress.warn(f"{name} in {out} was in the way of the table: moved to {KEPT}/")
    conclude_sweep(base, table, out, progress.warn)
    files.write_bytes(files.join(out, TABLE), dump_json(table))
    return table
