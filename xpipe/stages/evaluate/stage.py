"""Stage evaluate: predicts a held-out split with every trained model, and measures the predictions.

Orchestration only: `work` has what a worker does, the room `metrics` the metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Finished, Unit
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.stages.emitted_paths import EVALUATION_FILE, dataset_folder
from xpipe.stages.evaluate.messages import (
    Figures,
    HeadToEvaluate,
    Model,
    ModelToMeasure,
    PartToPredict,
    Predicted,
    Prediction,
    ReportToJoin,
    TreeToEvaluate,
    Truth,
)
from xpipe.stages.evaluate.params import EvaluateParams
from xpipe.stages.matrices import entries_of, locate, matrix_about, part_rows, rows_of, splits_of
from xpipe.stages.read.outlook import split_problem

REPORT = "evaluation"
TREE = "tree"
DESCRIBED_RANKS = (1, 3, 5)  # of the precisions in the line about the stage


def preflight(params: EvaluateParams, outlook: Outlook) -> list[XpipeError]:
    """What is bound to fail: a split that the data does not have."""
    return split_problem("evaluate", params.split, outlook)


def estimate(params: EvaluateParams, inputs: dict[str, Artifact]) -> Estimate:
    """Memory for the features of the split and the scores of its rows."""
    features = inputs["features"]
    if params.split not in splits_of(features):
        return Estimate()
    rows = rows_of(features, params.split)
    base = (600 if "head_models" in inputs else 300) * 2**20  # PyTorch needs more
    return Estimate(rows, base + 24 * entries_of(features, params.split) + rows * params.k * 80)


def run(context: Context[EvaluateParams]) -> Produced:
    """Predict the split's rows with every model, measure the scores, and write a report."""
    split, features = context.params.split, context.inputs["features"]
    truth = find_truth(context)
    models = find_models(context.inputs)
    predicted = predict(context, models)
    measured = measure(context, models, predicted, truth)
    report = join_reports(context, measured, truth)
    n_rows = sum(part_rows(features, split))
    scores = [entry for parts in predicted for made in parts for entry in made.files]
    about = matrix_about(truth.n_labels, features.about["part_rows"], {split: n_rows})
    summaries = [
        summarise(model, made.result, parts) for model, made, parts in zip(models, measured, predicted, strict=True)
    ]
    return Produced(
        {"scores": (scores, about), REPORT: (report.files, {})},
        {"rows": n_rows, "split": split, "models": summaries},
    )


def find_truth(context: Context[EvaluateParams]) -> Truth:
    """The true labels of the split. Raises ConfigError where the data has none."""
    inputs, params = context.inputs, context.params
    features, labels = inputs["features"], inputs.get("labels") or inputs.get("held_out_labels")
    if labels is None or params.split not in splits_of(features) or params.split not in splits_of(labels):
        raise ConfigError(
            f"there is no split {params.split!r} with labels to evaluate on",
            why="the data has " + ", ".join(splits_of(features)),
            fix=f"put {params.split}.txt beside the training file, or leave the section `evaluate` out",
        )
    return Truth(
        labels=locate(labels),
        train_labels=locate(labels) if "train" in splits_of(labels) else None,
        n_labels=labels.about["n_columns"],
        synthetic=bool(features.about.get("synthetic")),
        params=params,
        seed=context.seed,
    )


def find_models(inputs: dict[str, Artifact]) -> list[Model]:
    """Every trained model: the tree, then the heads in their order."""
    datasets, found = inputs["datasets"].folder, list[Model]()
    if "tree_model" in inputs:
        tree = inputs["tree_model"]
        path = files.join(tree.folder, tree.files[0].path)
        found.append(TreeToEvaluate(TREE, path, dataset_folder(datasets, "tree")))
    if "head_models" in inputs:
        artifact, dataset = inputs["head_models"], dataset_folder(datasets, "heads")
        for head in artifact.about["heads"]:
            path = files.join(artifact.folder, head["folder"])
            about = {name: head[name] for name in ("layer", "dim", "parameters")}
            found.append(HeadToEvaluate(head["name"], path, dataset, **about))
    return found


def predict(context: Context[EvaluateParams], models: Sequence[Model]) -> list[list[Finished[Predicted]]]:
    """Predict the split's rows with every model. Returns for each model the results of its parts, in order."""
    from xpipe.stages.evaluate import work

    features = context.inputs["features"]
    rows = part_rows(features, context.params.split)
    units = [
        PartToPredict(f"{model.name}-{index:05d}", n_rows, model, index)
        for model in models
        for index, n_rows in enumerate(rows)
    ]
    shared = Prediction(locate(features), context.params)
    made = context.map_together("predict", work.predict_parts, units, shared, doing="predicting")
    return [made[number * len(rows) : (number + 1) * len(rows)] for number in range(len(models))]


def measure(
    context: Context[EvaluateParams],
    models: Sequence[Model],
    predicted: Sequence[Sequence[Finished[Predicted]]],
    truth: Truth,
) -> list[Finished[Figures]]:
    """Measure the scores of every model; each gets a report of its own, as JSON."""
    from xpipe.stages.evaluate import work

    units = [
        ModelToMeasure(
            model.name,
            0,
            model,
            scores=tuple(part.files[0].path for part in parts),
            probabilities=tuple(part.files[-1].path for part in parts),  # of a tree these are its scores
        )
        for model, parts in zip(models, predicted, strict=True)
    ]
    return context.map("measure", work.measure_model, units, truth, one_unit_per_task=True, doing="measuring")


def join_reports(
    context: Context[EvaluateParams], measured: Sequence[Finished[Figures]], truth: Truth
) -> Finished[None]:
    """Write evaluation.json from the reports of all models."""
    from xpipe.stages.evaluate import work

    reports = tuple(made.files[0].path for made in measured)
    content = ReportToJoin(context.params.split, truth.synthetic, reports)
    (joined,) = context.map("join", work.join_reports, [Unit("report", 0)], content, doing="joining the figures")
    return joined


def summarise(model: Model, figures: Figures, parts: Sequence[Finished[Predicted]]) -> dict[str, Any]:
    """What the tables and results.json of a run say of a model."""
    seconds = round(sum(part.result.seconds for part in parts), 3)
    return {**model.about(), **figures.metrics, **figures.calibration, "predict_seconds": seconds}


def describe(summary: dict[str, Any]) -> str:
    """One line: the precisions of each model."""
    first = summary["models"][0]["precision"]
    ranks = [rank for rank in DESCRIBED_RANKS if rank <= len(first)]
    shown = [
        f"{model['name']} " + " / ".join(f"{100 * model['precision'][rank - 1]:.2f}" for rank in ranks)
        for model in summary["models"][:3]
    ]
    more = f" and {len(summary['models']) - 3} more models" if len(summary["models"]) > 3 else ""
    return f"{summary['split']}: P@{'/'.join(map(str, ranks))} of {', '.join(shown)}{more}"


def compile_kernels() -> None:
    """Compile the kernels of the metrics on a small problem; those of the models are compiled when they are trained."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.metrics.assessment import assess
    from xpipe.metrics.evaluation import EvaluationOptions, evaluate_scores
    from xpipe.metrics.propensity import label_frequency
    from xpipe.metrics.propensity_constants import Constants
    from xpipe.metrics.score_files import Known

    Y = sp.csr_matrix(np.tile(np.eye(3, dtype=np.float32), (4, 1)))
    known = Known(Y, train_labels=Y, synthetic=False)
    evaluate_scores(Y, known, EvaluationOptions(k=2, constants=Constants(0.55, 1.5), resamples=2))
    assess(Y, Y, 2, bins=2, frequency=label_frequency(Y))


STAGE = Stage(
    name="evaluate",
    section="evaluate",
    version=5,
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
    outputs=(EVALUATION_FILE,),
    preflight=preflight,
    libraries=("numba", "numpy", "pyarrow", "scipy", "torch"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="metrics",
    describe=describe,
)
