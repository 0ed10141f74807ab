"""A pipeline file with a `matrix`: every combination of its values as a pipeline of its own, and one table of all.

Stages that combinations share run once, thanks to content keys. Where labels are grouped there is also the oracle: the
same pipeline on the true labels. Holds no stage and no drawing.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.engine import decide, execute
from xpipe.engine.export import KEPT, make_way
from xpipe.engine.results import TABLE
from xpipe.engine.wiring import raise_all
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json

ORACLE = "oracle"
GROUPED = ("group", "embed", "assign")
FIXED = ("matrix", "out", "store")
MOST_COMBINATIONS = 10_000
LONGEST_FOLDER = 120  # letters of a combination's folder


@dataclass(frozen=True)
class Combination:
    """One pipeline of the matrix; `values` maps each key of the matrix to its text ("oracle" for the oracle)."""

    values: dict[str, str]
    pipeline: Any


def expand(load: Callable[[Sequence[str]], Any]) -> list[Combination]:
    """Every combination, in the order of the file, then the oracle. Raises ConfigError for any that is wrong.

    load: gives the checked pipeline of the file with some settings, texts such as "group.size=10", on top.
    """
    base = load(())
    check_keys(base.matrix)
    found: list[Combination] = []
    taken = {TABLE}
    for values in itertools.product(*base.matrix.values()):
        chosen = dict(zip(base.matrix, values, strict=True))
        texts = {key: in_words(value) for key, value in chosen.items()}
        settings = [f"{key}={json.dumps(value)}" for key, value in chosen.items()]
        found.append(_combination(load, base, texts, settings, taken))
    if any(getattr(member.pipeline, section, None) is not None for member in found for section in GROUPED):
        off = [f"{section}=null" for section in GROUPED]
        others = {key: in_words(values[0]) for key, values in base.matrix.items() if key.split(".")[0] not in GROUPED}
        settings = [f"{key}={json.dumps(base.matrix[key][0])}" for key in others]
        texts = {key: others.get(key, ORACLE) for key in base.matrix}
        found.append(_combination(load, base, texts, settings + off, taken))
    return found


def check_keys(matrix: dict[str, list[Any]]) -> None:
    """Raise ConfigError for keys that cannot vary, values that stand twice, and far too many combinations."""
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
    load: Callable[[Sequence[str]], Any], base: Any, texts: dict[str, str], settings: list[str], taken: set[str]
) -> Combination:
    name = folder_name(texts, taken)
    own = [f"out={files.join(base.out, name)}", f"store={base.store}", "matrix=null"]
    return Combination(texts, load([*settings, *own]))


def folder_name(texts: dict[str, str], taken: set[str]) -> str:
    """A folder for a combination: its values in letters every file system has, as short as names must be.

    No two are the same, also where the file system takes capitals for small letters.
    """
    words = [re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") for text in dict.fromkeys(texts.values())]
    usual = "_".join(word for word in words if word)[:LONGEST_FOLDER].strip("-._") or "combination"
    name, number = usual, 2
    while name.lower() in taken:
        name, number = f"{usual}-{number}", number + 1
    taken.add(name.lower())
    return name


def in_words(value: Any) -> str:
    """A value as a table shows it: {rule: random, size: 4} is "random 4"."""
    if isinstance(value, dict):
        return " ".join(in_words(inner) for inner in value.values())
    if isinstance(value, list):
        return ", ".join(in_words(inner) for inner in value)
    return str(value)


def check(combinations: list[Combination]) -> None:
    """Raise what is bound to fail in any of them, before the first one runs."""
    problems: dict[str, XpipeError] = {}  # by their text: what is wrong with all is said once
    for combination in combinations:
        try:
            decide.check(combination.pipeline)
        except XpipeError as error:
            problems.setdefault(str(error), error)
    raise_all(list(problems.values()), "combinations of the matrix cannot run")


def run(combinations: list[Combination], base: Any, progress: Any, backend: Any) -> dict:
    """Run all of them; gives (and writes) the table. The same call goes on where a stopped one was."""
    rows = []
    check(combinations)
    out = files.local(base.out)
    for name in filter(files.is_abandoned, files.listing(out)):
        files.remove(files.join(out, name))
    for number, combination in enumerate(combinations, 1):
        progress.note(f"{number} of {len(combinations)}: {', '.join(combination.values.values())}")
        results = execute.run(combination.pipeline, progress, backend)
        rows += [{"values": combination.values, "out": results["out"], **row} for row in figures(results)]
    close_gaps(rows)
    table = {
        "name": base.name,
        "keys": list(base.matrix),
        "synthetic": any(row["synthetic"] for row in rows),
        "out": files.join(base.out, TABLE),
        "rows": rows,
    }
    for name in make_way(out, TABLE):
        progress.warn(f"{name} in {out} was in the way of the table: moved to {KEPT}/")
    files.write_bytes(files.join(out, TABLE), dump_json(table))
    return table


def figures(results: dict) -> list[dict[str, Any]]:
    """What one run adds to the table, a row a model (one row where it has none).

    labels: quality of the assignment; model: its metrics; verified: what a head can produce; seconds of stages.
    """
    stages = {stage["stage"]: stage for stage in results["stages"]}
    summary = stages.get("assign", {}).get("summary", {})
    shared = {
        "synthetic": results["synthetic"],
        "labels": {name: summary[name] for name in ("method", "precision", "recall", "f1") if name in summary},
        "seconds": {
            name: stages[name]["seconds"]
            for name in ("assign", "train", "train_heads", "verify", "evaluate")
            if name in stages and stages[name]["status"] != "cached"
        },
    }
    verified = {
        head["name"]: {
            "sets": head["sets"],
            "eps_argmaxable": head["argmaxable"],
            "one_argmaxable": head["one_argmaxable"],
            "undecided": head["undecided"],
        }
        for head in stages.get("verify", {}).get("summary", {}).get("heads", ())
    }
    measured = {model["name"]: model for model in stages.get("evaluate", {}).get("summary", {}).get("models", ())}
    names = list(dict.fromkeys([*measured, *verified]))
    rows = [
        {**shared, "model": measured.get(name, {"name": name}), "verified": verified.get(name, {})} for name in names
    ]
    return rows or [{**shared, "model": {}, "verified": {}}]


def close_gaps(rows: list[dict]) -> None:
    """Add to every row how much of the way from the baseline to the oracle it goes, at the last rank of P."""

    def find(row: dict, fits: Callable[[dict], bool]) -> list[float] | None:
        same_model = (other for other in rows if other["model"].get("name") == row["model"].get("name"))
        return next((other["model"].get("precision") for other in same_model if fits(other["values"])), None)

    for row in rows:
        start = {**row["values"], "assign.method": "baseline"}
        baseline = find(row, start.__eq__)
        oracle = find(row, lambda values: ORACLE in values.values())
        own = row["model"].get("precision")
        if own and baseline and oracle and oracle[-1] > baseline[-1]:
            row["gap_closed"] = round((own[-1] - baseline[-1]) / (oracle[-1] - baseline[-1]), 4)
