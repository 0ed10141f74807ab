"""The trained models of a run: where they lie, and which of them a user means.

Holds no prediction. Everything is found in the run's folder, so it works where the store is gone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from xpipe.engine.lock_files import LOCK
from xpipe.engine.results import RESULTS, RUNS, TABLE, places_of_run
from xpipe.engine.run_record import JOURNAL
from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.close_match import did_you_mean
from xpipe.stages.emitted_paths import LABELS_FILE, MODELS_FOLDER, VECTORIZER_FOLDER

TREE_ENDING = ".npz"
HEAD_FILE = "model.safetensors"


@dataclass(frozen=True)
class StoredModel:
    """A model on disk. kind: tree or head. path: the file of a tree, the folder of a head.

    dataset: the folder with the labels.parquet that it was trained with; None where it has none. run: the folder of its
    run; None for a model of its own.
    """

    name: str
    kind: str
    path: str
    dataset: str | None = None
    run: str | None = None

    @property
    def vectorizer(self) -> str | None:
        """The folder of the vectorizer that made its rows of texts; None where it was made from matrices."""
        folder = None if self.run is None else files.join(self.run, VECTORIZER_FOLDER)
        return folder if folder is not None and files.is_folder(folder) else None


def find_finished_run(run: str) -> str:
    """The folder of a finished run, from its folder or its name below runs/. Raises ConfigError where there is none."""
    candidates = places_of_run(files.local(str(run)))
    for folder in candidates:
        if files.exists(files.join(folder, RESULTS)):
            return folder
    for folder in candidates:
        names = files.listing(folder)
        if TABLE in names:
            raise ConfigError(
                f"{run} is a matrix of runs, not one run", where=folder, why=f"it has {TABLE}, which lists its runs",
                fix=f"give the folder of one of them: {_examples(folder, names)}",
            )  # fmt: skip
        if {LOCK, JOURNAL} & set(names):
            raise ConfigError(
                f"the run {run} has not finished", where=folder, why=f"there is no {RESULTS}",
                fix="give the same `xpipe run` again: it goes on where it stopped",
            )  # fmt: skip
    if any(files.is_folder(folder) for folder in candidates):
        raise ConfigError(
            f"{run} is no run", why=f"there is no {RESULTS} in it", fix="give the folder that `xpipe run` wrote"
        )
    known = [name for name in files.listing(RUNS) if files.exists(files.join(RUNS, name, RESULTS))]
    raise ConfigError(
        f"no run {run!r}", why=f"looked for {RESULTS} in {' and '.join(candidates)}",
        fix=did_you_mean(os.path.basename(str(run)), known) or "xpipe run ... first",
    )  # fmt: skip


def _examples(folder: str, names: list[str]) -> str:
    """Some runs of a matrix."""
    runs = [name for name in names if files.exists(files.join(folder, name, RESULTS))]
    return ", ".join(files.join(folder, name) for name in runs[:3]) or "none of them has finished"


def find_model(place: str, model: str | None = None) -> StoredModel:
    """The model at a place: a run, the file of a tree, or the folder or file of a head.

    model: the name of the model, where a run has several. Raises ConfigError where nothing or too much is found.
    """
    path = files.local(os.fspath(place))
    if path.endswith(TREE_ENDING) and files.exists(path):
        return _own(path, "tree")
    if files.basename(path).endswith(".safetensors") and files.exists(path):
        return _own(files.parent(path), "head", file=path)
    if files.exists(files.join(path, HEAD_FILE)):
        return _own(path, "head")
    return _named(find_finished_run(path), model)


def _own(path: str, kind: str, file: str | None = None) -> StoredModel:
    """A model by its path. It is a run's own where it lies in the folder of a run."""
    if file is not None and files.basename(file) != HEAD_FILE:
        raise DataError(
            f"{files.basename(file)} is no whole model", where=file, why="a head without its encoder cannot take rows",
            fix=f"give the folder with {HEAD_FILE}",
        )  # fmt: skip
    name = files.basename(path).removesuffix(TREE_ENDING)
    models = files.parent(path)
    run = files.parent(models)
    if files.basename(models) != MODELS_FOLDER or not files.exists(files.join(run, RESULTS)):
        return StoredModel(name, kind, path)
    return next(found for found in models_of(run) if found.name == name)


def _named(run: str, model: str | None) -> StoredModel:
    """The model of a run by its name, or its only one."""
    found = {each.name: each for each in models_of(run)}
    if not found:
        raise ConfigError(
            f"the run in {run} trained no model", fix="add `train: {tree: {}}` to its pipeline file, and run it again"
        )
    if model is None and len(found) == 1:
        return next(iter(found.values()))
    if model is None:
        raise ConfigError(f"the run in {run} has {len(found)} models", why="one must be named", fix=_listed(found))
    if model not in found:
        fix = did_you_mean(model, found) or _listed(found)
        raise ConfigError(f"the run in {run} has no model {model!r}", why=f"it has {', '.join(found)}", fix=fix)
    return found[model]


def _listed(names: dict[str, StoredModel]) -> str:
    """How to name a model, for messages."""
    return "name one of them: " + ", ".join(names)


def models_of(run: str) -> list[StoredModel]:
    """Every model of a run: trees, then heads, by name."""
    folder, found = files.join(run, MODELS_FOLDER), list[StoredModel]()
    names = files.listing(folder)
    for name in names:
        if name.endswith(TREE_ENDING):
            path, stem = files.join(folder, name), name.removesuffix(TREE_ENDING)
            found.append(StoredModel(stem, "tree", path, _dataset(run, "tree"), run))
    for name in names:
        if files.exists(files.join(folder, name, HEAD_FILE)):
            found.append(StoredModel(name, "head", files.join(folder, name), _dataset(run, "heads"), run))
    return found


def _dataset(run: str, name: str) -> str:
    """The folder of the dataset that a model of a run was trained with. Raises DataError where it is gone."""
    folder = files.join(run, name)
    if not files.exists(files.join(folder, LABELS_FILE)):
        raise DataError(
            f"the run has no {name}/{LABELS_FILE}", where=run, why="it says which label each output of a model is",
            fix="give the same `xpipe run` again: it is laid out anew",
        )  # fmt: skip
    return folder
