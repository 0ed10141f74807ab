"""Label trees at a worker: store the rows, sum those of labels, train some units of the trees.

Holds no algorithm (that is `xpipe.trees`), no plan (`planning`), no model (`placing`) and nothing of Dask.
"""

from __future__ import annotations

import numpy as np

from xpipe.engine.messages import Finished, Unit
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.train_trees.messages import LabelChunk, Learnt, Training, TreeUnits, UnitOfParts
from xpipe.stages.train_trees.planning import CHUNKS, VECTORS, cut_by_cost, read_plans
from xpipe.stages.train_trees.stored_rows import DatasetFiles, LabelFacts, Stored
from xpipe.stages.train_trees.stored_rows import store_rows as store_dataset_rows
from xpipe.stages.train_trees.stored_rows import transpose_labels as transpose_stored_labels
from xpipe.stages.train_trees.stored_units import learnt_by, read_units, units_between, write_units
from xpipe.trees import hold_out
from xpipe.trees.row_parts import mean_of_parts
from xpipe.trees.training import train_part
from xpipe.trees.vectors import sum_rows


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


def train_units(folder: str, unit: TreeUnits, shared: Training) -> Finished[Learnt]:
    """Train some units, or a part of one, and write their weights."""
    data, options = shared.data(folder), shared.options()
    folds = hold_out(data, options)
    wanted = units_between(read_plans(folder), unit.first, unit.last)
    found = [train_part(data, plan, own, options, folds, unit.part) for plan, own in wanted]
    return Finished(write_units(folder, unit.name, found), learnt_by(found))


def join_parts(folder: str, unit: UnitOfParts, shared: Training) -> Finished[Learnt]:
    """Join the parts of a unit, and write its weights like those of other units."""
    data, options = shared.data(folder), shared.options()
    (own,) = units_between(read_plans(folder), unit.number, unit.number + 1)
    means = tuple(
        mean_of_parts(read_units(folder, unit.parts, fold), len(unit.parts), own[1], data.n_features, options)
        for fold in range(len(hold_out(data, options)) + 1)
    )
    return Finished(write_units(folder, unit.name, [means]), learnt_by([means]))
