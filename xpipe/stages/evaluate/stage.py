"""Stage evaluate: predictions of every trained model for a held-out split, and every metric of them.

Orchestration only: predictions are `evaluate_rows`, metrics are `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xpipe.engine.stage import Estimate, Outlook, Params, Produced, Stage
from xpipe.errors import XpipeError
from xpipe.stages.matrices import entries_of, locate, matrix_about, part_path, part_rows, rows_of, splits_of
from xpipe.stages.read.outlook import split_problem

REPORT = "evaluation"
TREE = "tree"


class EvaluateParams(Params):
    """Section `evaluate`: on which split, at which ranks."""

    split: Literal["test", "dev"] = "test"
    k: int = Field(default=5, ge=1)
    beam: int = Field(default=10, ge=1)
    remove_empty: bool = False  # leave rows without true labels out, instead of counting them as misses
    propensity_a: float = Field(default=0.55, gt=0)
    propensity_b: float = Field(default=1.5, gt=0)
    resamples: int = Field(default=1000, ge=0)  # for the intervals
    calibration_k: int = Field(default=4, ge=1)  # most probable labels of a row whose confidences are judged
    calibration_bins: int = Field(default=10, ge=1)


def preflight(params: EvaluateParams, outlook: Outlook) -> list[XpipeError]:
    return split_problem("evaluate", params.split, outlook)


def estimate(params: EvaluateParams, inputs: dict) -> Estimate:
    features = inputs["features"]
    if params.split not in splits_of(features):
        return Estimate()
    rows = rows_of(features, params.split)
    base = (600 if "head_models" in inputs else 300) * 2**20  # PyTorch takes its share
    return Estimate(rows, base + 24 * entries_of(features, params.split) + rows * params.k * 80)


def models_of(inputs: dict) -> list[dict]:
    """{name, kind, path, dataset, ...} of every trained model: the tree, then the heads in their order."""
    top = f"{inputs['datasets'].folder}/datasets"
    found: list[dict] = []
    if "tree_model" in inputs:
        tree = inputs["tree_model"]
        path = f"{tree.folder}/{tree.files[0]['path']}"
        found.append({"name": TREE, "kind": "tree", "path": path, "dataset": f"{top}/tree"})
    if "head_models" in inputs:
        artifact = inputs["head_models"]
        for head in artifact.about["heads"]:
            about = {name: head[name] for name in ("name", "layer", "dim", "parameters")}
            own = {"kind": "head", "path": f"{artifact.folder}/{head['folder']}", "dataset": f"{top}/heads"}
            found.append({**about, **own})
    return found


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
    models = models_of(inputs)
    shared = {
        "features": locate(features),
        "models": models,
        "truth": locate(truth),
        "train_truth": locate(truth) if "train" in splits_of(truth) else None,
        "synthetic": bool(features.about.get("synthetic")),
        "n_labels": truth.about["n_columns"],
        "params": params.model_dump(mode="json"),
        "seed": context.seed,
    }
    units, n_rows = [], sum(part_rows(features, params.split))
    for number, model in enumerate(models):
        for index, rows in enumerate(part_rows(features, params.split)):
            kinds = ("ranking",) if model["kind"] == "tree" else ("ranking", "probabilities")
            paths = [part_path(f"scores/{model['name']}/{kind}", params.split, index) for kind in kinds]
            name = f"{model['name']}-{index:05d}"
            units.append({"unit": name, "model": number, "index": index, "rows": rows, "paths": paths})
    predicted = context.map("predict", predict_parts, units, shared)
    measures = [{"unit": model["name"], "model": number, "rows": 0} for number, model in enumerate(models)]
    for measure in measures:
        own = [made for unit, made in zip(units, predicted, strict=True) if unit["model"] == measure["model"]]
        measure["scores"] = [made["files"][0]["path"] for made in own]
        measure["probabilities"] = [made["files"][-1]["path"] for made in own]  # a tree's scores are probabilities
        measure["predict_seconds"] = sum(made["result"]["seconds"] for made in own)
    measured = context.map("measure", measure_scores, measures, shared, apart=True)
    shared["measured"] = [made["files"][0]["path"] for made in measured]
    (joined,) = context.map("join", join_reports, [{"unit": "report", "rows": 0}], shared)
    entries = [entry for made in predicted for entry in made["files"]]
    about = matrix_about(shared["n_labels"], features.about["part_rows"], {params.split: n_rows})
    summary = {"rows": n_rows, "split": params.split, "models": [made["result"] for made in measured]}
    artifacts = {"scores": (entries, about), REPORT: (joined["files"], {})}
    return Produced(artifacts, summary, scratch=("measured",))


def predict_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.evaluate import work as evaluate_rows

    for unit in units:
        yield unit["unit"], *evaluate_rows.predict(folder, unit, shared)


def measure_scores(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.evaluate import work as evaluate_rows

    for unit in units:
        yield unit["unit"], *evaluate_rows.measure(folder, unit, shared)


def join_reports(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.evaluate import work as evaluate_rows

    yield units[0]["unit"], *evaluate_rows.join(folder, shared)


EVALUATE = Stage(
    name="evaluate",
    section="evaluate",
    version=3,
    reads=(
        "features",
        "datasets",
        "tree_model|head_models",
        "tree_model?",
        "head_models?",
        "labels?",
        "held_out_labels?",
    ),
    writes=("scores", REPORT),
    params=EvaluateParams,
    run=run,
    seeded=True,
    exports=(REPORT,),
    preflight=preflight,
    libraries=("numba", "numpy", "pyarrow", "scipy", "torch"),
    estimate=estimate,
)
