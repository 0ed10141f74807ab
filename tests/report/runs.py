"""Folders of finished runs, as small as a report of everything needs, with names that would do harm if they could."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOSTILE = (
    "<script>document.title='owned'</script>",
    "\"quoted\" 'label' <img src=x onerror=\"document.title='owned'\">",
    "</style></svg><b>bold",
    "${7*7} {{7*7}} $x^2$ `code`",
    "escape \x1b[31m, bell \x07, right to left \u202e",
    "日本語のラベル",
    "#010101 url(#here) &amp; &lt;",
)


def bins(*counts: int) -> list[dict[str, Any]]:
    return [{"low": place, "high": place, "count": count} for place, count in enumerate(counts)]


def spread(*counts: int) -> dict[str, Any]:
    return {"bins": bins(*counts), "mean": 1.0, "median": 1.0, "most": len(counts) - 1}


def example(group: int, chance: float, name: str) -> dict[str, Any]:
    owners = [{"row": 3, "chance": chance, "right": True}, {"row": 4, "chance": chance / 2, "right": False}]
    return {
        "group": group, "name": name, "chance": chance, "more_members": 1, "more_labels": 2,
        "members": [{"row": 3, "id": name, "text": f"text of {name}"}, {"row": 4, "id": "", "text": ""}],
        "labels": [{"label": 0, "name": name, "owners": owners, "more": 1}],
    }  # fmt: skip


def figures() -> dict[str, Any]:
    chance_bins = [
        {"low": place / 10, "high": (place + 1) / 10, "pairs": place, "mean": place / 10 + 0.05, "right": place // 2}
        for place in range(10)
    ]
    split = {"rows": 9, "features": spread(0, 1, 5, 3), "labels": spread(1, 4, 4)}
    named = [{"label": number, "name": name, "count": 9 - number} for number, name in enumerate(HOSTILE)]
    return {
        "format": 1,
        "splits": {"test": split | {"labels": None}, "train": split},
        "labels": {
            "counted": "training rows", "labels": 8, "unused": 1, "most": named,
            "classes": [{"low": 1, "high": 1, "count": 4}, {"low": 2, "high": 5, "count": 3}],
            "curve": [{"rank": 1, "count": 9}, {"rank": 2, "count": 4}, {"rank": 7, "count": 1}],
        },
        "groups": {"groups": 3, "sizes": spread(0, 0, 1, 2), "labels": spread(0, 1, 2)},
        "assignment": {
            "scores": "posterior", "said": "text", "pairs": 45, "chances": chance_bins,
            "easy": [example(1, 0.99, HOSTILE[1])], "doubtful": [example(0, 0.4, HOSTILE[0])],
        },
    }  # fmt: skip


def model(name: str, shift: float) -> dict[str, Any]:
    values = [round(0.8 - 0.1 * rank - shift, 4) for rank in range(5)]
    ends = [[value - 0.02, value + 0.02] for value in values]
    group = {"frequency": [9, 3], "labels": 4, "precision": 0.5, "recall": 0.25}
    return {
        "name": name, "k": 5, "rows_measured": 9, "labels": 8, "labels_with_true_rows": 7,
        "frequency_from": "training rows", "metrics": {"precision": values, "ndcg": values, "psp": values},
        "intervals": {"confidence": 0.95, "resamples": 100, "precision": ends, "ndcg": ends},
        "by_frequency": [group, group | {"frequency": [2, 1], "recall": 0.1}],
        "calibration": {
            "ece": 0.02, "ace": 0.03, "calibration_k": 5, "mean_max_confidence": 0.7,
            "reliability": [{"confidence": 0.2, "accuracy": 0.25, "count": 9, "from": 0.0, "to": 0.5},
                            {"confidence": 0.8, "accuracy": 0.7, "count": 3, "from": 0.5, "to": 1.0}],
        },
    }  # fmt: skip


def verification() -> dict[str, Any]:
    classes = [
        {"labels": name, "sets": 5, "argmaxable": 5 - lost, "radii": {"p5": 1.0, "p50": 9.0 + lost, "p95": 80.0}}
        for name, lost in (("1", 0), ("2", 1))
    ]
    conflict = [
        {"label": number, "original_label": number, "name": name, "in_the_set": not number % 2}
        for number, name in enumerate(HOSTILE)
    ]
    worst = {"row": 7, "rows": 2, "labels": list(HOSTILE[:2]), "minimal": True, "sentence": "", "conflict": conflict}
    counts = {"sets": 10, "argmaxable": 9, "one_argmaxable": 9, "unargmaxable": 1, "undecided": 0}
    head = {
        **counts, "name": "bsl-4", "inputs": 4, "radii": {"p5": 1.0, "p50": 9.0, "p95": 80.0}, "bias_told": "",
        "by_active_labels": classes, "worst": [worst],
    }  # fmt: skip
    about = {"split": "test", "rows": 10, "distinct_sets": 8, "eps": 1e-8, "unseen_occurrences": 2}
    return {**about, "heads": [head, head | {"name": "dft-4", "worst": [], "dft": {"guaranteed": 10}}]}


def results(**other: Any) -> dict[str, Any]:
    """The content of results.json."""
    read = {
        "rows": 18, "n_features": 4, "n_labels": 8, "rows_without_labels": 1, "rows_without_features": 0, "rejected": 0,
    }  # fmt: skip
    assign = {
        "method": "discriminative", "assigned": 45, "allowed": 90, "precision": 0.9, "recall": 0.8, "f1": 0.85,
        "choice": {"why": "it explains most", "tried": {
            "explained": {"baseline": 0.3, "discriminative": 0.5},
            "reliability": [{"from": 0.0, "to": 0.5, "count": 8, "confidence": 0.2, "accuracy": 0.3},
                            {"from": 0.5, "to": 1.0, "count": 0, "confidence": 0.0, "accuracy": 0.0}],
        }},
    }  # fmt: skip
    summaries = {
        "read": read, "assign": assign, "train": {"rows": 9}, "train_heads": {"heads": [{"name": "bsl-4"}]},
        "evaluate": {"models": [{"name": "tree", "precision": [0.8], "predict_seconds": 0.5}]},
    }  # fmt: skip
    stages = [
        {
            "stage": name, "key": f"{number:020d}", "status": "cached" if name == "read" else "ran", "why": "not run",
            "seconds": 0.001, "cost": {"seconds": 1.5 * number, "peak_memory": 2**28 * (number + 1)},
            "summary": summary,
            "ingredients": {"version": 1}, "digests": {f"{name}-artifact": "0" * 64},
        }
        for number, (name, summary) in enumerate(summaries.items())
    ]  # fmt: skip
    expected = {name: {"value": 0.88, "low": 0.85, "high": 0.91} for name in ("precision", "recall", "f1")}
    return {
        "name": "sample", "synthetic": True, "seed": 0, "stages": stages, "written": [], "out": "runs/sample",
        "outputs": {name: {} for name in ("figures.json", "evaluation.json", "verification.json")},
        "pipeline": {"name": "sample", "data": {"name": "tiny"}, "out": "runs/sample"}, "versions": {"xpipe": "0.1.0"},
        "cluster": {"kind": "local", "workers": 2, "memory_limit": 2**32}, "backend": {"name": "cpu"},
        "peak_memory_main": 2**28, "seconds": 7.0, "trust": {"expected": expected, "true": None, "why": "By chances."},
    } | other  # fmt: skip


def write_run(folder: Path, **other: Any) -> Path:
    """A run with everything that a report can show. other: keys of results.json."""
    epochs = [{"epoch": number, "loss": 9.0 / number, "validation_ndcg": 0.1 * number} for number in range(1, 6)]
    contents = {
        "results.json": results(**other),
        "figures.json": figures(),
        "evaluation.json": {"split": "test", "models": [model("tree", 0.0), model("bsl-4", 0.05)]},
        "verification.json": verification(),
        "models/bsl-4/history.json": {"best_epoch": 4, "epochs": epochs},
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def matrix_row(group: str, method: str, precision: float) -> dict[str, Any]:
    values = [precision, precision - 0.1, precision - 0.2]
    return {
        "values": {"group": group, "assign.method": method}, "out": f"runs/m/{group}_{method}", "synthetic": True,
        "model": {"name": "tree", "precision": values, "ndcg": values, "ece": 0.02}, "verified": {},
        "labels": {} if method == "oracle" else {"f1": 0.8}, "seconds": {"assign": 3.0, "train": 40.0},
        **({} if method in ("oracle", "baseline") else {"gap_closed": 0.75}),
    }  # fmt: skip


def matrix() -> dict[str, Any]:
    """The content of table.json."""
    rows = [
        matrix_row(group, method, 0.6 + 0.05 * number)
        for group in ("random 4", HOSTILE[0])
        for number, method in enumerate(("baseline", "eagle", "discriminative"))
    ]
    return {
        "format": 2, "name": "m", "keys": ["group", "assign.method"], "synthetic": True, "out": "runs/m/table.json",
        "rows": [*rows, matrix_row("oracle", "oracle", 0.75)],
        "pipeline": {"name": "m", "matrix": {"assign.method": ["x"]}}, "versions": {"xpipe": "0.1.0"},
    }  # fmt: skip
