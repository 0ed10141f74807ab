"""Stage evaluate: a model's predictions for a held-out split, and every metric of them.

Orchestration only: predictions are `evaluate_rows`, metrics are `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xpipe.stages.matrices import entries_of, locate, matrix_about, part_path, part_rows, rows_of, splits_of
from xpipe.stages.stage import Estimate, Params, Produced, Stage

REPORT = "evaluation"


class EvaluateParams(Params):
    """Section `evaluate`: on which split, at which ranks."""

    split: Literal["test", "dev"] = "test"
    k: int = Field(default=5, ge=1)
    beam: int = Field(default=10, ge=1)
    remove_empty: bool = False  # leave rows without true labels out, instead of counting them as misses
    propensity_a: float = Field(default=0.55, gt=0)
    propensity_b: float = Field(default=1.5, gt=0)
    resamples: int = Field(default=1000, ge=0)  # for the intervals


def estimate(params: EvaluateParams, inputs: dict) -> Estimate:
    features = inputs["features"]
    if params.split not in splits_of(features):
        return Estimate()
    rows = rows_of(features, params.split)
    return Estimate(rows, 300 * 2**20 + 24 * entries_of(features, params.split) + rows * params.k * 80)


def run(context: Any) -> Produced:
    from xpipe.errors import ConfigError

    inputs, params = context.inputs, context.params
    features = inputs["features"]
    truth = inputs.get("labels") or inputs.get("held_out_labels")
    if truth is None or params.split not in splits_of(features) or params.split not in splits_of(truth):
        raise ConfigError(
            f"there is no split {params.split!r} with labels to evaluate on",
            why="the data has " + ", ".join(splits_of(features)),
            fix=f"put {params.split}.txt beside the training file, or leave the section `evaluate` out",
        )
    shared = {
        "features": locate(features),
        "dataset": f"{inputs['datasets'].folder}/datasets/tree",
        "model": f"{inputs['tree_model'].folder}/{inputs['tree_model'].files[0]['path']}",
        "truth": locate(truth),
        "train_truth": locate(truth) if "train" in splits_of(truth) else None,
        "synthetic": bool(features.about.get("synthetic")),
        "n_labels": truth.about["n_columns"],
        "params": params.model_dump(mode="json"),
        "seed": context.seed,
    }
    units, start = [], 0
    for index, rows in enumerate(part_rows(features, params.split)):
        path = part_path("scores", params.split, index)
        units.append({"unit": f"rows-{index:05d}", "index": index, "start": start, "rows": rows, "path": path})
        start += rows
    predicted = context.map("predict", predict_parts, units, shared)
    entries = [entry for receipt in predicted for entry in receipt["files"]]
    shared["scores"] = [entry["path"] for entry in entries]
    shared["predict_seconds"] = sum(receipt["result"]["seconds"] for receipt in predicted)
    (measured,) = context.map("measure", measure_scores, [{"unit": "metrics", "rows": 0}], shared)
    about = matrix_about(shared["n_labels"], features.about["part_rows"], {params.split: start})
    summary = {"rows": start, "split": params.split, **measured["result"]}
    return Produced({"scores": (entries, about), REPORT: (measured["files"], {})}, summary)


def predict_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import evaluate_rows

    for unit in units:
        yield unit["unit"], *evaluate_rows.predict(folder, unit, shared)


def measure_scores(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import evaluate_rows

    yield units[0]["unit"], *evaluate_rows.measure(folder, shared)


EVALUATE = Stage(
    name="evaluate",
    section="evaluate",
    version=1,
    reads=("features", "datasets", "tree_model", "labels?", "held_out_labels?"),
    writes=("scores", REPORT),
    params=EvaluateParams,
    run=run,
    seeded=True,
    exports=(REPORT,),
    estimate=estimate,
)
