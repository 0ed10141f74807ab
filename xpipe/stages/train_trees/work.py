"""Label trees at a worker: plan the trees, train some of their units, join the trained units to one model.

Holds no algorithm (that is `xpipe.trees`) and nothing of Dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.formats.parquet import read_about, read_label_embedding, read_split
from xpipe.ground import files
from xpipe.ground.sparse_rows import matrix_with_ones
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.train_trees.params import TreeParams
from xpipe.trees import (
    LabelTree,
    TrainingData,
    TreeOptions,
    TreePlan,
    UnitWeights,
    hold_out,
    make_calibrated,
    plan_forest,
    prepare_data,
    train_unit_without,
    unit_costs,
)

CHUNKS = 64  # tasks of about equal cost; fixed, so that the number of workers changes no file
PLAN = "plan/trees.npz"
MODEL_FILE = f"tree_model/{MODELS_FOLDER}/tree.npz"


@dataclass(frozen=True)
class Training:
    """What every task of the stage needs."""

    dataset: str  # the folder of the emitted tree/
    params: TreeParams
    seed: int

    def options(self) -> TreeOptions:
        """The options of the forest. Rows of tree/ have length 1 already; `normalize` also takes rows that do not."""
        return TreeOptions(**self.params.model_dump(exclude={"label_vectors", "weighted"}), seed=self.seed)

    def data(self) -> TrainingData:
        """The training rows."""
        return _training_data(self.dataset, self.params.weighted)


@dataclass(frozen=True)
class TreeUnits(Unit):
    """Units first to last - 1 of all trees, counted tree after tree; its size is their cost."""

    first: int
    last: int


@dataclass(frozen=True)
class ForestPlan:
    """The trees, and how their units are cut into tasks."""

    chunks: tuple[tuple[int, int, int], ...]  # first unit, one after the last unit, cost
    rows: int  # training rows
    trees: int
    levels: int  # of one tree
    labels: int  # with positives
    label_vectors: str  # what the labels were clustered by: "rows" or "embedding"
    held_out: int  # rows that calibrate the forest


@dataclass(frozen=True)
class Trained:
    """The files of all trained units."""

    training: Training
    paths: tuple[str, ...]  # in the order of the units


@dataclass(frozen=True)
class ModelFacts:
    """What the summary says about the model."""

    weights: int
    bytes: int


@lru_cache(maxsize=1)
def _training_data(dataset: str, weighted: bool | str) -> TrainingData:
    """The training rows. A process keeps them, because it trains many units on them."""
    if weighted == "auto":
        weighted = read_about(dataset).get("label_scores") == "posterior"
    X, scores = read_split(dataset, "train")
    return prepare_data(X, matrix_with_ones(scores), scores if weighted else None)


def plan_trees(folder: str, unit: Unit, shared: Training) -> Finished[ForestPlan]:
    """Plan the trees, and cut their units into chunks of about equal cost."""
    data = shared.data()
    vectors = read_label_embedding(shared.dataset) if shared.params.label_vectors == "embedding" else None
    plans = plan_forest(data, vectors, shared.options())
    costs = np.concatenate([np.zeros(0, np.int64), *(unit_costs(data, plan) for plan in plans)])
    arrays = {f"order-{plan.tree}": plan.order for plan in plans}
    arrays |= {f"bounds-{plan.tree}-{level}": plan.bounds[level] for plan in plans for level in range(plan.depth)}
    found = ForestPlan(
        chunks=tuple(_cut(costs)),
        rows=data.X.n_rows,
        trees=len(plans),
        levels=plans[0].depth if plans else 0,
        labels=len(data.labels),
        label_vectors="rows" if vectors is None else "embedding",
        held_out=sum(map(len, hold_out(data, shared.options()))),
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
    """Train some units, and write their weights: those of all rows, then those without each fold of held-out rows."""
    data, options = shared.data(), shared.options()
    folds = hold_out(data, options)
    wanted = [(plan, part) for plan in read_plans(folder) for part in plan.units()][unit.first : unit.last]
    arrays = {
        f"{number}-{fold}-{name}": array
        for number, (plan, part) in enumerate(wanted)
        for fold, weights in enumerate(train_unit_without(data, plan, part, options, folds))
        for name, array in weights._asdict().items()
    }
    return Finished((write_arrays(folder, f"units/{unit.name}.npz", arrays),), None)


def join_trees(folder: str, unit: Unit, shared: Trained) -> Finished[ModelFacts]:
    """Join all trained units to the model, and write it to one file."""
    training = shared.training
    data, options = training.data(), training.options()
    folds = hold_out(data, options)
    found = [units for path in shared.paths for units in _read_units(folder, path, len(folds) + 1)]
    tree = LabelTree.of(make_calibrated(data, read_plans(folder), found, folds, options, threads=1), options)
    tree.save(files.join(folder, MODEL_FILE))
    entry = entry_of_file(folder, MODEL_FILE)
    return Finished((entry,), ModelFacts(sum(len(weights[0].weights) for weights in found), entry.bytes))


def _read_units(folder: str, path: str, times: int) -> Iterator[tuple[UnitWeights, ...]]:
    """The units of a file of `train_units`, each trained so many times."""
    arrays = read_arrays(folder, path)
    for number in range(len(arrays) // (times * len(UnitWeights._fields))):
        yield tuple(
            UnitWeights(*(arrays[f"{number}-{fold}-{name}"] for name in UnitWeights._fields)) for fold in range(times)
        )
