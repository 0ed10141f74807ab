"""Stage train_heads: heads of section `train` on the emitted heads/ dataset, one head a task.

Orchestration only: the algorithm is `heads`. A head that is being trained keeps its state in checkpoints/ of the
stage's folder, so that a run that is killed goes on in mid-training.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NotRequired

from typing_extensions import TypedDict

from xpipe.engine.stage import Estimate, Outlook, Produced, Stage, canonical_params
from xpipe.engine.store import RECEIPTS
from xpipe.errors import BackendError, ConfigError, DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json
from xpipe.ground.quantities import format_seconds
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.matrices import rows_of
from xpipe.stages.train_heads.params import HeadParams, names_of
from xpipe.stages.train_trees.stage import TrainParams

MODELS = "head_models"
CHECKPOINTS = "checkpoints"
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


def run(context: Any) -> Produced:
    params, dataset = context.params, f"{context.inputs['datasets'].folder}/datasets/heads"
    shared = {"dataset": dataset, "seed": context.seed, "device": DEVICES[context.backend.name]}
    units = [
        {"unit": name, "rows": 1, "params": head.model_dump(mode="json")}
        for name, head in zip(names_of(params.heads), params.heads, strict=True)
    ]
    with watching(context.folder, units, context.note):
        trained = context.map(STEP, train_units, units, shared, apart=True)
    for receipt in trained:
        if "note" in receipt["result"]:
            context.note(receipt["result"]["note"])
    entries = [entry for receipt in trained for entry in receipt["files"]]
    about = {"heads": [receipt["result"]["head"] for receipt in trained]}
    summary = {"heads": [{**receipt["result"]["head"], **receipt["result"]["course"]} for receipt in trained]}
    return Produced({MODELS: (entries, about)}, summary, scratch=(CHECKPOINTS,))


def train_units(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    """Train heads: their model, weights for `verify`, and history."""
    from xpipe.formats.parquet import read_about
    from xpipe.heads import TrainOptions, train_head
    from xpipe.stages.read.work import entry_of

    about = read_about(shared["dataset"])
    for unit in units:
        params = HeadParams(**unit["params"])
        options = TrainOptions(**params.train_options(about, shared["seed"], shared["device"]))
        own = files.join(folder, CHECKPOINTS, unit["unit"])
        try:
            trained = train_head(shared["dataset"], options, checkpoint=own)
        except BackendError as error:
            raise BackendError(
                "this run computes on a GPU, but PyTorch cannot use it",
                where=f"head {unit['unit']}",
                why=error.why,
                fix="install PyTorch for CUDA where heads are trained, or --set backend=cpu",
            ) from error
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
        told = {"note": f"{unit['unit']}: {trained.note}"} if trained.note else {}
        yield unit["unit"], entries, {"head": head, "course": course, **told}


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
    counts="heads",
    packages=("torch", "safetensors"),
    extra="heads",
)
