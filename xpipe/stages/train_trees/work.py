"""Label trees at a worker: store the rows, sum those of labels, train some units of the trees, join these to one model.

Holds no algorithm (that is `xpipe.trees`), no plan (`planning`) and nothing of Dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.ground import files
from xpipe.ground.npy_header import check_npz
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.train_trees.messages import LabelChunk, ModelFacts, Trained, Training, TreeUnits
from xpipe.stages.train_trees.planning import VECTORS, cut_by_cost, read_plans
from xpipe.stages.train_trees.stored_rows import DatasetFiles, LabelFacts, Stored
from xpipe.stages.train_trees.stored_rows import store_rows as store_dataset_rows
from xpipe.stages.train_trees.stored_rows import transpose_labels as transpose_stored_labels
from xpipe.trees import (
    LabelTree,
    UnitWeights,
    hold_out,
    make_forest,
    train_unit_without,
)
from xpipe.trees.calibration import fit_calibration
from xpipe.trees.forest import SIZED, Forest, UnitSizes
from xpipe.trees.vectors import sum_rows

MODEL_FILE = f"tree_model/{MODELS_FOLDER}/tree.npz"


def store_rows(folder: str, unit: DatasetFiles, shared: Training) -> Finished[Stored]:
    """Write the rows of some files of the dataset to the folder of the stage."""
    return store_dataset_rows(folder, unit, shared.dataset, weighted=shared.weighted)


def transpose_labels(folder: str, unit: Unit, shared: Training) -> Finished[LabelFacts]:
    """Write the rows of each label, and cut the labels into chunks of about as many rows."""
    assert shared.rows is not None
    entries = transpose_stored_labels(folder, shared.rows, shared.dataset, weighted=shared.weighted)
    sizes = np.diff(shared.data(folder).label_rows.indptr)
    sizes = sizes[sizes > 0]
    return Finished(entries, LabelFacts(len(sizes), tuple(cut_by_cost(sizes))))


def sum_labels(folder: str, unit: LabelChunk, shared: Training) -> Finished[None]:
    """Write the vectors of some labels: the sums of their rows."""
    data = shared.data(folder)
    labels = data.labels[unit.first : unit.last]
    return Finished((write_matrix_part(folder, VECTORS, "train", unit.index, labels, sum_rows(data, labels)),), None)


def train_units(folder: str, unit: TreeUnits, shared: Training) -> Finished[None]:
    """Train some units, and write their weights: a file with those of all rows, then one without each fold of rows."""
    data, options = shared.data(folder), shared.options()
    folds = hold_out(data, options)
    wanted = [(plan, part) for plan in read_plans(folder) for part in plan.units()][unit.first : unit.last]
    found = [train_unit_without(data, plan, part, options, folds) for plan, part in wanted]
    entries = []
    for fold in range(len(folds) + 1):
        arrays = {
            f"{number}-{name}": array
            for number, weights in enumerate(found)
            for name, array in weights[fold]._asdict().items()
        }
        entries.append(write_arrays(folder, _units_path(unit.name, fold), arrays))
    return Finished(tuple(entries), None)


def _units_path(chunk: str, fold: int) -> str:
    """Where the weights of a chunk of units are. fold: 0 for those of all rows."""
    return f"units/{chunk}-{fold}.npz"


def join_trees(folder: str, unit: Unit, shared: Trained) -> Finished[ModelFacts]:
    """Join all trained units to the model, one fold after the other, and write it to one file.

    The task holds one model and the units of one chunk at a time.
    """
    data, options = shared.training.data(folder), shared.training.options()
    folds, plans = hold_out(data, options), read_plans(folder)

    def forest_of(fold: int) -> Forest:
        units, sizes = _read_units(folder, shared.chunks, fold), _sizes_of_units(folder, shared.chunks, fold)
        return make_forest(data, plans, units, options, sizes)

    calibration = fit_calibration(data, lambda number: forest_of(1 + number), folds, threads=1) if plans else None
    forest = forest_of(0)
    LabelTree.of(replace(forest, calibration=calibration), options).save(files.join(folder, MODEL_FILE))
    entry = entry_of_file(folder, MODEL_FILE)
    return Finished((entry,), ModelFacts(len(forest.weights.weights), entry.bytes))


def _read_units(folder: str, chunks: tuple[str, ...], fold: int) -> Iterator[UnitWeights]:
    """The units of all chunks as they were trained without a fold."""
    for chunk in chunks:
        arrays = read_arrays(folder, _units_path(chunk, fold))
        for number in range(len(arrays) // len(UnitWeights._fields)):
            yield UnitWeights(*(arrays.pop(f"{number}-{name}") for name in UnitWeights._fields))


def _sizes_of_units(folder: str, chunks: tuple[str, ...], fold: int) -> UnitSizes:
    """What these units have learnt, by the headers of their files."""
    sizes: list[list[int]] = []
    for chunk in chunks:
        headers = check_npz(files.join(folder, _units_path(chunk, fold)))
        for number in range(len(headers) // len(UnitWeights._fields)):
            sizes.append([headers[f"{number}-{name}"].shape[0] for name in SIZED])
    return UnitSizes(*np.array(sizes, dtype=np.int64).reshape(-1, len(SIZED)).T.tolist())
