"""Label trees at a worker: store the rows, sum those of labels, train some units of the trees, join these to one model.

Holds no algorithm (that is `xpipe.trees`), no plan (`planning`) and nothing of Dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from xpipe.engine.messages import FileEntry, Finished, Unit, entry_of_file
from xpipe.ground import files
from xpipe.ground.npy_header import check_npz
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.train_trees.messages import LabelChunk, ModelFacts, Trained, Training, TreeUnits, UnitOfParts
from xpipe.stages.train_trees.planning import CHUNKS, VECTORS, cut_by_cost, read_plans
from xpipe.stages.train_trees.stored_rows import DatasetFiles, LabelFacts, Stored
from xpipe.stages.train_trees.stored_rows import store_rows as store_dataset_rows
from xpipe.stages.train_trees.stored_rows import transpose_labels as transpose_stored_labels
from xpipe.trees import LabelTree, TreePlan, UnitWeights, hold_out, make_forest
from xpipe.trees.calibration import fit_calibration
from xpipe.trees.forest import SIZED, Forest, UnitSizes
from xpipe.trees.planning import Unit as PlannedUnit
from xpipe.trees.row_parts import mean_of_parts
from xpipe.trees.training import train_part
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
    return Finished(entries, LabelFacts(len(sizes), tuple(cut_by_cost(sizes, sizes.sum() / CHUNKS))))


def sum_labels(folder: str, unit: LabelChunk, shared: Training) -> Finished[None]:
    """Write the vectors of some labels: the sums of their rows."""
    data = shared.data(folder)
    labels = data.labels[unit.first : unit.last]
    return Finished((write_matrix_part(folder, VECTORS, "train", unit.index, labels, sum_rows(data, labels)),), None)


def train_units(folder: str, unit: TreeUnits, shared: Training) -> Finished[None]:
    """Train some units, or a part of one, and write their weights."""
    data, options = shared.data(folder), shared.options()
    folds = hold_out(data, options)
    wanted = _units_between(folder, unit.first, unit.last)
    found = [train_part(data, plan, own, options, folds, unit.part) for plan, own in wanted]
    return Finished(_write_units(folder, unit.name, found), None)


def join_parts(folder: str, unit: UnitOfParts, shared: Training) -> Finished[None]:
    """Join the parts of a unit, and write its weights like those of other units."""
    data, options = shared.data(folder), shared.options()
    (own,) = _units_between(folder, unit.number, unit.number + 1)
    means = tuple(
        mean_of_parts(_read_units(folder, unit.parts, fold), len(unit.parts), own[1], data.n_features, options)
        for fold in range(len(hold_out(data, options)) + 1)
    )
    return Finished(_write_units(folder, unit.name, [means]), None)


def _units_between(folder: str, first: int, last: int) -> list[tuple[TreePlan, PlannedUnit]]:
    """Some units of all trees, each with its plan."""
    return [(plan, own) for plan in read_plans(folder) for own in plan.units()][first:last]


def _write_units(folder: str, name: str, found: list[tuple[UnitWeights, ...]]) -> tuple[FileEntry, ...]:
    """Write the weights of a chunk of units: a file with those of all rows, then one without each fold of rows."""
    entries = []
    for fold in range(len(found[0])):
        arrays = {
            f"{number}-{field}": array
            for number, weights in enumerate(found)
            for field, array in weights[fold]._asdict().items()
        }
        entries.append(write_arrays(folder, _units_path(name, fold), arrays))
    return tuple(entries)


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
