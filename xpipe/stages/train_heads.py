"""Stage train_heads: heads of section `train` on the emitted heads/ dataset, one head a task.

Orchestration only: the algorithm is `heads`. A head that is being trained keeps its state in checkpoints/ of the
stage's folder, so that a run that is killed goes on in mid-training.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from xpipe import files
from xpipe.errors import ConfigError
from xpipe.stages.head_params import HeadParams, names_of
from xpipe.stages.matrices import rows_of
from xpipe.stages.stage import Estimate, Produced, Stage
from xpipe.stages.train import TrainParams
from xpipe.store import RECEIPTS, dump_json
from xpipe.units import format_seconds

MODELS = "head_models"
CHECKPOINTS = "checkpoints"
STEP = "heads"
NOTE_SECONDS = 10.0  # between two looks at how far training is
DEVICES = {"cpu": "cpu", "gpu": "cuda", "auto": "auto"}


def has_heads(params: TrainParams) -> bool:
    return bool(params.heads)


def identity(params: TrainParams, inputs: dict, store: Any) -> dict:
    """Heads do not depend on the tree beside them."""
    return {"heads": [head.model_dump(mode="json", exclude_none=True) for head in params.heads]}


def estimate(params: TrainParams, inputs: dict) -> Estimate:
    """PyTorch, a model with its gradient, optimiser and best weights, and some batches of logits."""
    features = inputs.get("features")
    if features is None:
        return Estimate()
    weights = max(features.about["n_columns"] * head.width for head in params.heads)
    return Estimate(rows_of(features, "train"), 600 * 2**20 + 6 * 4 * weights)


def run(context: Any) -> Produced:
    params, dataset = context.params, f"{context.inputs['datasets'].folder}/datasets/heads"
    if not files.exists(files.join(dataset, "dataset.json")):
        raise ConfigError(
            "heads are trained on the emitted heads/ dataset, which this pipeline does not write",
            where="emit.datasets",
            fix="emit: {datasets: [tree, heads], formats: [parquet]}",
        )
    shared = {"dataset": dataset, "seed": context.seed, "device": DEVICES[context.backend.requested]}
    units = [
        {"unit": name, "rows": 1, "params": head.model_dump(mode="json")}
        for name, head in zip(names_of(params.heads), params.heads, strict=True)
    ]
    with watching(context.folder, units, context.note):
        trained = context.map(STEP, train_units, units, shared, apart=True)
    entries = [entry for receipt in trained for entry in receipt["files"]]
    about = {"heads": [receipt["result"]["head"] for receipt in trained]}
    summary = {"heads": [{**receipt["result"]["head"], **receipt["result"]["course"]} for receipt in trained]}
    return Produced({MODELS: (entries, about)}, summary, scratch=(CHECKPOINTS,))


def train_units(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    """Train heads: their model, weights for `verify`, and history."""
    from xpipe.formats.parquet import read_about
    from xpipe.heads import TrainOptions, train_head
    from xpipe.stages.read_rows import entry_of

    about = read_about(shared["dataset"])
    for unit in units:
        params = HeadParams(**unit["params"])
        options = TrainOptions(**params.train_options(about, shared["seed"], shared["device"]))
        own = files.join(folder, CHECKPOINTS, unit["unit"])
        trained = train_head(shared["dataset"], options, checkpoint=own)
        top = f"{MODELS}/models/{unit['unit']}"
        entries = []
        for name in trained.model.save(files.join(folder, top)):
            path = files.join(folder, top, name)
            entries.append({"path": f"{top}/{name}", "bytes": files.size(path), "sha256": files.sha256(path)})
        history = {"best_epoch": trained.best_epoch, "criterion": options.criterion, "epochs": trained.history}
        entries.append(entry_of(folder, f"{top}/history.json", dump_json(history)))
        head = {
            "name": unit["unit"], "layer": params.layer, "dim": params.size, "folder": top,
            "options": trained.model.head.options(), "parameters": trained.model.parameter_counts(),
        }  # fmt: skip
        course = {"epochs": len(trained.history), **trained.history[trained.best_epoch - 1]}
        course["best_epoch"] = course.pop("epoch")
        yield unit["unit"], entries, {"head": head, "course": course}


@contextlib.contextmanager
def watching(folder: str, units: list[dict], note: Callable[[str], None]) -> Iterator[None]:
    """While heads are trained, by whichever worker, tell now and then how far each is, from its checkpoint."""
    stop = threading.Event()
    before = {unit["unit"]: len(read_history(folder, unit["unit"])) for unit in units}  # of an interrupted run

    def watch() -> None:
        told, since = dict(before), dict.fromkeys(before, time.monotonic())
        while not stop.wait(NOTE_SECONDS):
            done = files.listing(files.join(folder, RECEIPTS, STEP))
            for unit in [unit for unit in units if f"{unit['unit']}.json" not in done]:
                name, epochs, now = unit["unit"], unit["params"]["epochs"], time.monotonic()
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


def read_history(folder: str, name: str) -> list[dict]:
    """The epochs a head's checkpoint tells of; none where there is none, or not yet."""
    path = files.join(folder, CHECKPOINTS, name, "checkpoint.json")
    with contextlib.suppress(OSError, ValueError, KeyError):
        return json.loads(files.read_bytes(path))["facts"]["history"]
    return []


def in_words(epoch: dict) -> str:
    held_out = f", held-out nDCG@5 {epoch['validation_ndcg']:.3f}" if "validation_ndcg" in epoch else ""
    return f"loss {epoch['loss']:.4g}{held_out}"


TRAIN_HEADS = Stage(
    name="train_heads",
    section="train",
    version=2,
    reads=("datasets", "features?"),
    writes=(MODELS,),
    params=TrainParams,
    run=run,
    seeded=True,
    exports=(MODELS,),
    enabled=has_heads,
    identity=identity,
    estimate=estimate,
    counts="heads",
    packages=("torch", "safetensors"),
    extra="heads",
)
