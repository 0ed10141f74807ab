"""Label trees at a worker: store the rows, plan the trees, train some of their units, join these to one model.

Holds no algorithm (that is `xpipe.trees`) and nothing of Dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.formats.parquet import read_label_embedding
from xpipe.formats.parts import read_part
from xpipe.ground import files
from xpipe.ground.npy_header import check_npz
from xpipe.ground.sparse import to_matrix
from xpipe.ground.sparse_rows import concatenate
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.matrices import part_path, write_matrix_part
from xpipe.stages.train_trees.params import TreeParams
from xpipe.stages.train_trees.stored_rows import DatasetFiles, LabelFacts, RowFacts, Stored, open_data
from xpipe.stages.train_trees.stored_rows import store_rows as store_dataset_rows
from xpipe.stages.train_trees.stored_rows import transpose_labels as transpose_stored_labels
from xpipe.trees import (
    LabelTree,
    TrainingData,
    TreeOptions,
    TreePlan,
    UnitWeights,
    hold_out,
    make_forest,
    train_unit_without,
)
from xpipe.trees import unit_costs as costs_of
from xpipe.trees.calibration import fit_calibration
from xpipe.trees.forest import SIZED, Forest, UnitSizes
from xpipe.trees.planning import chosen_vectors, plan_trees
from xpipe.trees.vectors import sum_rows

CHUNKS = 64  # tasks of about equal cost; fixed, so that the number of workers changes no file
PLAN = "plan/trees.npz"
VECTORS = "vectors"
MODEL_FILE = f"tree_model/{MODELS_FOLDER}/tree.npz"


@dataclass(frozen=True)
class Training:
    """What every task of the stage needs. rows: None until they are stored."""

    dataset: str  # the folder of the emitted tree/
    params: TreeParams
    seed: int
    weighted: bool  # whether the scores of positives are chances
    rows: RowFacts | None = None

    def options(self) -> TreeOptions:
        """The options of the forest. Rows of tree/ have length 1 already; `normalize` also takes rows that do not."""
        return TreeOptions(**self.params.model_dump(exclude={"label_vectors", "weighted"}), seed=self.seed)

    def data(self, folder: str) -> TrainingData:
        """The training rows, once they are stored."""
        assert self.rows is not None
        return open_data(folder, self.rows)


@dataclass(frozen=True)
class LabelChunk(Unit):
    """Labels first to last - 1 of those with positives; its size is their rows."""

    index: int
    first: int
    last: int


@dataclass(frozen=True)
class Planning:
    """What the plan of the trees is made from."""

    training: Training
    embedded: bool  # whether the dataset has label vectors
    chunks: int  # of label vectors that were made from rows


@dataclass(frozen=True)
class TreeUnits(Unit):
    """Units first to last - 1 of all trees, counted tree after tree; its size: rows, each as often as it is taken."""

    first: int
    last: int


@dataclass(frozen=True)
class ForestPlan:
    """The trees, and how their units are cut into tasks."""

    chunks: tuple[tuple[int, int, int], ...]  # first unit, one after the last unit, rows
    trees: int
    levels: int  # of one tree
    labels: int  # with positives
    held_out: int  # rows that calibrate the forest


@dataclass(frozen=True)
class Trained:
    """The chunks of trained units."""

    training: Training
    chunks: tuple[str, ...]  # their names, in the order of the units


@dataclass(frozen=True)
class ModelFacts:
    """What the summary says about the model."""

    weights: int
    bytes: int


def store_rows(folder: str, unit: DatasetFiles, shared: Training) -> Finished[Stored]:
    """Write the rows of some files of the dataset to the folder of the stage."""
    return store_dataset_rows(folder, unit, shared.dataset, weighted=shared.weighted)


def transpose_labels(folder: str, unit: Unit, shared: Training) -> Finished[LabelFacts]:
    """Write the rows of each label, and cut the labels into chunks of about as many rows."""
    assert shared.rows is not None
    entries = transpose_stored_labels(folder, shared.rows, shared.dataset, weighted=shared.weighted)
    sizes = np.diff(shared.data(folder).label_rows.indptr)
    sizes = sizes[sizes > 0]
    return Finished(entries, LabelFacts(len(sizes), tuple(_cut(sizes))))


def sum_labels(folder: str, unit: LabelChunk, shared: Training) -> Finished[None]:
    """Write the vectors of some labels: the sums of their rows."""
    data = shared.data(folder)
    labels = data.labels[unit.first : unit.last]
    return Finished((write_matrix_part(folder, VECTORS, "train", unit.index, labels, sum_rows(data, labels)),), None)


def plan_forest(folder: str, unit: Unit, shared: Planning) -> Finished[ForestPlan]:
    """Plan the trees, and cut their units into chunks of about equal cost."""
    training = shared.training
    data, options = training.data(folder), training.options()
    if not shared.embedded:
        paths = [files.join(folder, part_path(VECTORS, "train", index)) for index in range(shared.chunks)]
        vectors = to_matrix(concatenate([read_part(path, mapped=False)[1] for path in paths]), data.n_features)
    else:
        embedding = read_label_embedding(training.dataset)
        assert embedding is not None  # dataset.json says so
        vectors = chosen_vectors(embedding, data.n_labels, data.labels)
    plans = plan_trees(vectors, data.labels, options, threads=1)
    costs = np.concatenate([np.zeros(0, np.int64), *(costs_of(data, plan) for plan in plans)])
    per_row = 1 + data.X.n_entries // max(data.X.n_rows, 1)
    arrays = {f"order-{plan.tree}": plan.order for plan in plans}
    arrays |= {f"bounds-{plan.tree}-{level}": plan.bounds[level] for plan in plans for level in range(plan.depth)}
    found = ForestPlan(
        chunks=tuple(_cut(costs // per_row)),
        trees=len(plans),
        levels=plans[0].depth if plans else 0,
        labels=len(data.labels),
        held_out=sum(map(len, hold_out(data, options))),
    )
    return Finished((write_arrays(folder, PLAN, arrays),), found)


def _cut(costs: np.ndarray) -> list[tuple[int, int, int]]:
    """Chunks of consecutive units: (first, one after the last, cost)."""
    chunks, first, total = [], 0, 0
    for number, cost in enumerate(costs.tolist()):
        total += cost
        if total >= costs.sum() / CHUNKS or number == len(costs) - 1:
            chunks.append((first, number + 1, total))
            first, total = number + 1, 0
    return chunks


def read_plans(folder: str) -> tuple[TreePlan, ...]:
    """The plans that `plan_trees` wrote."""
    arrays = read_arrays(folder, PLAN)
    n_trees = sum(name.startswith("order-") for name in arrays)
    depth = [sum(name.startswith(f"bounds-{tree}-") for name in arrays) for tree in range(n_trees)]
    return tuple(
        TreePlan(tree, arrays[f"order-{tree}"], tuple(arrays[f"bounds-{tree}-{level}"] for level in range(depth[tree])))
        for tree in range(n_trees)
    )


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
