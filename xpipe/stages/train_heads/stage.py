"""Stage train_heads: heads of section `train` on the emitted heads/ dataset, one head per task.

Orchestration only: what a worker does is in `work`, the algorithm is `heads`. A head that is being trained keeps its
state in checkpoints/ of the stage's folder, so that a run that is killed goes on in mid-training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from xpipe.engine.context import Context
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.engine.store import RECEIPTS
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.checked_json import read_json
from xpipe.ground.quantities import format_seconds
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.emitted_paths import dataset_folder
from xpipe.stages.matrices import rows_of
from xpipe.stages.train_heads.messages import CHECKPOINTS, MODELS, HeadToTrain, Training
from xpipe.stages.train_heads.params import names_of
from xpipe.stages.train_trees.params import TrainParams

STEP = "heads"
NOTE_SECONDS = 10.0  # between two looks at how far training is
DEVICES = {"cpu": "cpu", "gpu": "cuda"}  # of the run's backend, exactly: it is in the key


def has_heads(params: TrainParams) -> bool:
    return bool(params.heads)


def identity(params: TrainParams, inputs: dict, store: Any) -> dict:
    """Heads do not depend on the tree beside them."""
    return {"heads": [canonical_params(head) for head in params.heads]}


def preflight(params: TrainParams, outlook: Outlook) -> list[XpipeError]:
    problems = dataset_problem("heads", "heads are trained on", outlook)
    for name, head in zip(names_of(params.heads), params.heads, strict=True):
        most = None if outlook.n_labels is None else (outlook.n_labels - 1) // 2
        if head.layer == "dft" and head.k is not None and most is not None and head.k > most:
            problems.append(
                ConfigError(
                    f"train.heads: {name} has k = {head.k}, but {outlook.n_labels:,} labels allow at most {most}",
                    why="a DFT head has 2k + 1 independent columns, a row a label",
                    fix="leave k out: the largest label set of the data",
                )
            )
        if outlook.rows.get("train", 2) < 2 and head.validation:
            problems.append(
                DataError(
                    f"train.heads: {name} cannot hold out rows of {outlook.rows['train']} training rows",
                    fix="validation: 0, or more data",
                )
            )
    return problems


def estimate(params: TrainParams, inputs: dict) -> Estimate:
    """PyTorch, a model with its gradient, optimiser and best weights, and some batches of logits."""
    features = inputs.get("features")
    if features is None:
        return Estimate()
    weights = max(features.about["n_columns"] * head.width for head in params.heads)
    return Estimate(rows_of(features, "train"), 600 * 2**20 + 6 * 4 * weights)


def run(context: Context[TrainParams]) -> Produced:
    from xpipe.stages.train_heads import work

    heads = context.params.heads
    dataset = dataset_folder(context.inputs["datasets"].folder, "heads")
    shared = Training(dataset, context.seed, DEVICES[context.backend.name])
    units = [HeadToTrain(name, 1, head) for name, head in zip(names_of(heads), heads, strict=True)]
    with watching(context.folder, units, context.note):
        trained = context.map(STEP, work.train_and_save, units, shared, one_unit_per_task=True)
    for made in trained:
        if made.result.note is not None:
            context.note(made.result.note)
    entries = [entry for made in trained for entry in made.files]
    facts = [dataclasses.asdict(made.result.head) for made in trained]
    summary = {"heads": [{**about, **made.result.course} for about, made in zip(facts, trained, strict=True)]}
    return Produced({MODELS: (entries, {"heads": facts})}, summary)


@contextlib.contextmanager
def watching(folder: str, units: Sequence[HeadToTrain], note: Callable[[str], None]) -> Iterator[None]:
    """While heads are trained, by whichever worker, tell now and then how far each is, from its checkpoint."""
    stop = threading.Event()
    before = {unit.name: len(read_history(folder, unit.name)) for unit in units}  # of an interrupted run

    def watch() -> None:
        told, since = dict(before), dict.fromkeys(before, time.monotonic())
        while not stop.wait(NOTE_SECONDS):
            done = files.listing(files.join(folder, RECEIPTS, STEP))
            for unit in [unit for unit in units if f"{unit.name}.json" not in done]:
                name, epochs, now = unit.name, unit.params.epochs, time.monotonic()
                history = read_history(folder, name)
                if len(history) == before[name]:
                    since[name] = now  # it waits for a worker, or is in its first epoch
                if len(history) <= told[name]:
                    continue
                told[name] = len(history)
                an_epoch = (now - since[name]) / (len(history) - before[name])
                left = format_seconds(an_epoch * (epochs - len(history)))
                note(f"{name}: epoch {len(history)} of {epochs}, {in_words(history[-1])}, at most {left} left")

    thread = threading.Thread(target=watch, name="xpipe-heads", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class _Epoch(TypedDict):
    loss: float
    validation_ndcg: NotRequired[float]


class _Facts(TypedDict):
    history: list[_Epoch]


class _Checkpoint(TypedDict):
    facts: _Facts


def read_history(folder: str, name: str) -> list[_Epoch]:
    """The epochs a head's checkpoint tells of; none where there is none, not yet, or a damaged one."""
    path = files.join(folder, CHECKPOINTS, name, "checkpoint.json")
    with contextlib.suppress(OSError, DataError):
        return read_json(path, _Checkpoint)["facts"]["history"]
    return []


def in_words(epoch: _Epoch) -> str:
    held_out = f", held-out nDCG@5 {epoch['validation_ndcg']:.3f}" if "validation_ndcg" in epoch else ""
    return f"loss {epoch['loss']:.4g}{held_out}"


def describe(summary: dict[str, Any]) -> str:
    return "; ".join(
        f"{head['name']}: epoch {head['best_epoch']} of {head['epochs']}"
        + (f", held-out nDCG@5 {head['validation_ndcg']:.3f}" if "validation_ndcg" in head else "")
        + f", {head['parameters']['head']:,} parameters"
        for head in summary["heads"]
    )


TRAIN_HEADS = Stage(
    name="train_heads",
    section="train",
    version=3,
    reads=("datasets", "features?"),
    writes=(MODELS,),
    params=TrainParams,
    run=run,
    seeded=True,
    exports=(MODELS,),
    enabled=has_heads,
    preflight=preflight,
    identity=identity,
    uses_backend=lambda params: True,
    libraries=("numba", "numpy", "safetensors", "scipy", "torch"),
    estimate=estimate,
    describe=describe,
    counts="heads",
    packages=("torch", "safetensors"),
    extra="heads",
)
