"""Stage train_heads: trains the heads of section `train` on the emitted heads/ dataset, one head per task.

Orchestration only: `work` has what a worker does, `progress` the notes meanwhile, the room `heads` the algorithm. A
head in training keeps its state in checkpoints/ of the stage's folder, so that a killed run continues in mid-training.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from xpipe.engine.context import Context, Counts
from xpipe.engine.manifest import Artifact
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.heads.registry import HEADS
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.emitted_paths import MODELS_FOLDER, dataset_folder
from xpipe.stages.matrices import rows_of
from xpipe.stages.train_heads.messages import MODELS, STEP, HeadToTrain, Training
from xpipe.stages.train_heads.params import HeadParams, names_of
from xpipe.stages.train_heads.progress import tell_progress
from xpipe.stages.train_trees.params import TrainParams

DEVICES = {"cpu": "cpu", "gpu": "cuda"}  # exactly the device of the run's backend, which is in the key


def has_heads(params: TrainParams) -> bool:
    """Whether the section asks for heads."""
    return bool(params.heads)


def identity(params: TrainParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """The heads of the section; the tree beside them changes nothing."""
    return {"heads": [canonical_params(head) for head in params.heads]}


def preflight(params: TrainParams, outlook: Outlook) -> list[XpipeError]:
    """What is bound to fail: no dataset, a `k` that is too large, too few rows to hold some out."""
    problems = dataset_problem("heads", "heads are trained on", outlook)
    for name, head in zip(names_of(params.heads), params.heads, strict=True):
        problems += _too_large_k(name, head, outlook.n_labels)
        if outlook.rows.get("train", 2) < 2 and head.validation:
            problems.append(
                DataError(
                    f"train.heads: {name} cannot hold out rows of {outlook.rows['train']} training rows",
                    fix="validation: 0, or more data",
                )
            )
    return problems


def _too_large_k(name: str, head: HeadParams, n_labels: int | None) -> list[XpipeError]:
    """The problem of a head whose `k` is too large for the number of labels, if that is known."""
    limit = HEADS[head.layer].limit_of_k
    if limit is None or n_labels is None or head.k is None or head.k <= limit.largest(n_labels):
        return []
    return [
        ConfigError(
            f"train.heads: {name} has k = {head.k}, but {n_labels:,} labels allow at most {limit.largest(n_labels)}",
            why=limit.why,
            fix="leave k out: the largest label set of the data",
        )
    ]


def estimate(params: TrainParams, inputs: dict[str, Artifact]) -> Estimate:
    """Memory for PyTorch, a model with its gradient, optimiser and best weights, and some batches of logits."""
    features = inputs.get("features")
    if features is None:
        return Estimate()
    weights = max(features.about["n_columns"] * head.width for head in params.heads)
    return Estimate(rows_of(features, "train"), 600 * 2**20 + 6 * 4 * weights)


def run(context: Context[TrainParams]) -> Produced:
    """Train every head, and list the models."""
    from xpipe.stages.train_heads import work

    heads = context.params.heads
    dataset = dataset_folder(context.inputs["datasets"].folder, "heads")
    shared = Training(dataset, context.seed, DEVICES[context.backend.name])
    units = [HeadToTrain(name, 1, head) for name, head in zip(names_of(heads), heads, strict=True)]
    epochs = Counts(sum(head.epochs for head in heads), "epochs", by_stage=True)
    with tell_progress(context.folder, units, context.note, context.bar):
        trained = context.map(
            STEP, work.train_and_save, units, shared, one_unit_per_task=True, doing="training", counts=epochs
        )
    for made in trained:
        if made.result.note is not None:
            context.note(made.result.note)
    entries = [entry for made in trained for entry in made.files]
    abouts = [dataclasses.asdict(made.result.head) for made in trained]
    summary = {"heads": [{**about, **made.result.course} for about, made in zip(abouts, trained, strict=True)]}
    return Produced({MODELS: (entries, {"heads": abouts})}, summary)


def describe(summary: dict[str, Any]) -> str:
    """One line: of each head its best epoch, its nDCG and its size."""
    return "; ".join(
        f"{head['name']}: epoch {head['best_epoch']} of {head['epochs']}"
        + (f", held-out nDCG@5 {head['validation_ndcg']:.3f}" if "validation_ndcg" in head else "")
        + f", {head['parameters']['head']:,} parameters"
        for head in summary["heads"]
    )


STAGE = Stage(
    name="train_heads",
    section="train",
    version=5,
    reads=("datasets", "features?"),
    writes=(MODELS,),
    params=TrainParams,
    run=run,
    seeded=True,
    exports=(MODELS,),
    outputs=(MODELS_FOLDER,),
    enabled=has_heads,
    preflight=preflight,
    identity=identity,
    uses_backend=lambda params: True,
    libraries=("numba", "numpy", "safetensors", "scipy", "torch"),
    estimate=estimate,
    describe=describe,
    counts="epochs",
    packages=("torch", "safetensors"),
    extra="heads",
)
