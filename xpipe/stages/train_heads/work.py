"""What a worker does in stage train_heads: it trains a head from its checkpoint on, and saves it.

Holds no algorithm: that is the room `heads`.
"""

from __future__ import annotations

from xpipe.engine.messages import FileEntry, Finished, entry_of_file, write_entry
from xpipe.errors import BackendError
from xpipe.formats.parquet import read_about
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.heads import TrainOptions, train_head
from xpipe.heads.training_run import Trained
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.train_heads.messages import CHECKPOINTS, MODELS, HeadEntry, HeadToTrain, TrainedHead, Training


def train_and_save(folder: str, unit: HeadToTrain, shared: Training) -> Finished[TrainedHead]:
    """Train a head, and write its model, its weights for `verify`, and its history."""
    params = unit.params
    options = TrainOptions(**params.train_options(read_about(shared.dataset), shared.seed, shared.device))
    trained = _train(shared.dataset, options, files.join(folder, CHECKPOINTS, unit.name), unit.name)
    top = f"{MODELS}/{MODELS_FOLDER}/{unit.name}"
    entries = (*_save(folder, top, trained), _write_history(folder, top, trained, options))
    model = trained.model
    head = HeadEntry(unit.name, params.layer, params.size, top, model.head.options(), model.parameter_counts())
    note = f"{unit.name}: {trained.note}" if trained.note else None
    return Finished(entries, TrainedHead(head, _figures(trained), note))


def _train(dataset: str, options: TrainOptions, checkpoint: str, name: str) -> Trained:
    """Train on the device of the run. Raises BackendError if PyTorch cannot use it."""
    try:
        return train_head(dataset, options, checkpoint=checkpoint)
    except BackendError as error:
        raise BackendError(
            "this run computes on a GPU, but PyTorch cannot use it",
            where=f"head {name}",
            why=error.why,
            fix="install PyTorch for CUDA where heads are trained, or --set backend=cpu",
        ) from error


def _save(folder: str, top: str, trained: Trained) -> list[FileEntry]:
    """Write the files of the model below `top`."""
    names = trained.model.save(files.join(folder, top))
    return [entry_of_file(folder, f"{top}/{name}") for name in names]


def _write_history(folder: str, top: str, trained: Trained, options: TrainOptions) -> FileEntry:
    """Write history.json: the figures of every epoch."""
    history = {"best_epoch": trained.best_epoch, "criterion": options.criterion, "epochs": trained.history}
    return write_entry(folder, f"{top}/history.json", dump_json(history))


def _figures(trained: Trained) -> dict[str, int | float]:
    """Figures of the best epoch, its number, and the number of epochs."""
    best = {name: value for name, value in trained.history[trained.best_epoch - 1].items() if name != "epoch"}
    return {**best, "best_epoch": trained.best_epoch, "epochs": len(trained.history)}
