"""A pipeline file with a `matrix`: every combination of its values as a pipeline of its own, and one table of all.

Stages that combinations share run once, thanks to content keys. Where labels are grouped there is also the oracle: the
same pipeline on the true labels. Holds no stage and no drawing.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpipe import config, files, pipeline, store

ORACLE = "oracle"
GROUPED = ("group", "embed", "assign")
TABLE = "table.json"


@dataclass(frozen=True)
class Combination:
    """One pipeline of the matrix; `values` maps each key of the matrix to its text ("oracle" for the oracle)."""

    values: dict[str, str]
    pipeline: Any


def expand(path: str, overrides: Sequence[str] = ()) -> list[Combination]:
    """Every combination, in the order of the file, then the oracle. Raises ConfigError for any that is wrong."""
    base = config.load(path, overrides)
    found = []
    for values in itertools.product(*base.matrix.values()):
        chosen = dict(zip(base.matrix, values, strict=True))
        texts = {key: in_words(value) for key, value in chosen.items()}
        settings = [f"{key}={json.dumps(value)}" for key, value in chosen.items()]
        found.append(_combination(path, overrides, base, texts, settings))
    if any(getattr(member.pipeline, section, None) is not None for member in found for section in GROUPED):
        off = [f"{section}=null" for section in GROUPED]
        others = {key: in_words(values[0]) for key, values in base.matrix.items() if key.split(".")[0] not in GROUPED}
        settings = [f"{key}={json.dumps(base.matrix[key][0])}" for key in others]
        texts = {key: others.get(key, ORACLE) for key in base.matrix}
        found.append(_combination(path, overrides, base, texts, settings + off))
    return found


def _combination(
    path: str, overrides: Sequence[str], base: Any, texts: dict[str, str], settings: list[str]
) -> Combination:
    name = "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") for text in dict.fromkeys(texts.values()))
    own = [f"out={files.join(base.out, name)}", f"store={base.store}", "matrix=null"]
    return Combination(texts, config.load(path, [*overrides, *settings, *own]))


def in_words(value: Any) -> str:
    """A value as a table shows it: {rule: random, size: 4} is "random 4"."""
    if isinstance(value, dict):
        return " ".join(in_words(inner) for inner in value.values())
    return str(value)


def run(combinations: list[Combination], base: Any, progress: Any, backend: Any) -> dict:
    """Run all of them; gives (and writes) the table. The same call goes on where a stopped one was."""
    rows = []
    for number, combination in enumerate(combinations, 1):
        progress.note(f"{number} of {len(combinations)}: {', '.join(combination.values.values())}")
        results = pipeline.run(combination.pipeline, progress, backend)
        rows.append({"values": combination.values, "out": results["out"], **figures(results)})
    close_gaps(rows)
    table = {
        "name": base.name,
        "keys": list(base.matrix),
        "synthetic": any(row["synthetic"] for row in rows),
        "out": files.join(base.out, TABLE),
        "rows": rows,
    }
    files.write_bytes(files.join(files.local(base.out), TABLE), store.dump_json(table))
    return table


def figures(results: dict) -> dict[str, Any]:
    """What one run adds to the table: quality of the assignment, metrics, what heads can produce, seconds of stages."""
    stages = {stage["stage"]: stage for stage in results["stages"]}
    found: dict[str, Any] = {"synthetic": results["synthetic"], "seconds": {}}
    for name in ("assign", "train", "train_heads", "verify", "evaluate"):
        if name in stages and stages[name]["status"] != "cached":
            found["seconds"][name] = stages[name]["seconds"]
    summary = stages.get("assign", {}).get("summary", {})
    found |= {name: summary[name] for name in ("method", "precision", "recall", "f1") if name in summary}
    measured = stages.get("evaluate", {}).get("summary", {})
    names = {"precision": "P", "ndcg": "nDCG", "psp": "PSP"}
    found["metrics"] = {short: measured[name] for name, short in names.items() if name in measured}
    found["verified"] = {
        head["name"]: {
            "sets": head["sets"],
            "eps_argmaxable": head["argmaxable"],
            "one_argmaxable": head["one_argmaxable"],
            "undecided": head["undecided"],
        }
        for head in stages.get("verify", {}).get("summary", {}).get("heads", ())
    }
    return found


def close_gaps(rows: list[dict]) -> None:
    """Add to every row how much of the way from the baseline to the oracle it goes, at the last rank of P."""
    oracle = next((row for row in rows if ORACLE in row["values"].values()), None)
    for row in rows:
        same = {key: text for key, text in row["values"].items() if key != "assign.method"}
        baseline = next((other for other in rows if other["values"] == {**same, "assign.method": "baseline"}), None)
        if oracle is None or baseline is None or not all("P" in each["metrics"] for each in (row, oracle, baseline)):
            continue
        low, high = baseline["metrics"]["P"][-1], oracle["metrics"]["P"][-1]
        if high > low:
            row["gap_closed"] = round((row["metrics"]["P"][-1] - low) / (high - low), 4)
