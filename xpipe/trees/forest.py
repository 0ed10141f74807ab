"""A trained forest as plain arrays: the plans of its trees and the weights of their units.

Holds no training, no prediction and no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.sparse_rows import row_pointers
from xpipe.trees._beam_numba import Level, Weights
from xpipe.trees.options import Loss, TreeOptions
from xpipe.trees.planning import TreePlan
from xpipe.trees.row_parts import UnitWeights
from xpipe.trees.training_data import TrainingData

SIZED = ("features", "weights", "biases")  # fields of `UnitWeights`, as `UnitSizes` has them


@dataclass(frozen=True)
class Forest:
    """Trees over the same labels. Units are numbered tree by tree, level by level, node by node.

    calibration: from the scores of the trees to probabilities; None where scores stay as they are.
    names: of the labels, objects or int64; None where labels have only numbers.
    """

    n_features: int
    n_labels: int
    loss: Loss
    normalize: bool
    plans: tuple[TreePlan, ...]
    weights: Weights
    calibration: CalibrationMap | None = None
    names: np.ndarray | None = None

    @cached_property
    def levels(self) -> tuple[tuple[Level, ...], ...]:
        """For each tree and each of its levels, the units and children of its nodes."""
        found, done = [], 0
        for plan in self.plans:
            of_tree = []
            for level in range(plan.depth):
                children = plan.child_ptr(level)
                units = row_pointers(plan.units_of(level)) + done
                done = int(units[-1])
                of_tree.append(Level(units, children))
            found.append(tuple(of_tree))
        return tuple(found)

    @property
    def n_units(self) -> int:
        """Units of all trees."""
        return len(self.weights.feature_ptr) - 1


class UnitSizes(NamedTuple):
    """How much has been learnt: one number per unit, in the order of the units."""

    features: Sequence[int]
    weights: Sequence[int]
    biases: Sequence[int]


def make_forest(
    data: TrainingData,
    plans: tuple[TreePlan, ...],
    units: Iterable[UnitWeights],
    options: TreeOptions,
    sizes: UnitSizes | None = None,
) -> Forest:
    """Join trained units to a forest.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    plans : tuple of TreePlan
        The trees.
    units : iterable of UnitWeights
        What `train_unit` returned, in the order of the plans and of their `units()`.
    options : TreeOptions
        The options the units were trained with.
    sizes : UnitSizes, optional
        What the units have learnt, where it is known before. Then one unit at a time is asked for.

    Returns
    -------
    Forest
        All trees, ready for `LabelTree.of`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, make_forest, plan_forest, prepare_data, train_unit
    >>> data, options = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr")), TreeOptions(n_trees=1)
    >>> plans = plan_forest(data, None, options)
    >>> units = [train_unit(data, plan, unit, options) for plan in plans for unit in plan.units()]
    >>> make_forest(data, plans, units, options).n_units
    1
    """
    return Forest(data.n_features, data.n_labels, options.loss, options.normalize, plans, join_units(units, sizes))


def join_units(units: Iterable[UnitWeights], sizes: UnitSizes | None = None) -> Weights:
    """The weights of all units of all trees, in the order of the trees and of `TreePlan.units`.

    sizes: of the units; without them, all units are in memory at once.
    """
    if sizes is None:
        units = list(units)
        sizes = UnitSizes(*([len(unit[at]) for unit in units] for at in map(UnitWeights._fields.index, SIZED)))
    feature_ptr, before, child_ptr = map(row_pointers, sizes)
    joined = Weights(
        feature_ptr,
        np.empty(feature_ptr[-1], np.int32),
        np.empty(feature_ptr[-1] + 1, np.int64),
        np.empty(before[-1], np.uint8),
        np.empty(before[-1], np.float32),
        child_ptr,
        np.empty(child_ptr[-1], np.float32),
    )
    joined.entry_ptr[-1] = before[-1]
    for number, unit in enumerate(units):
        own, entries = (slice(*ends[number : number + 2]) for ends in (feature_ptr, before))
        joined.features[own] = unit.features
        joined.entry_ptr[own] = unit.feature_ptr[:-1] + before[number]
        joined.lanes[entries], joined.weights[entries] = unit.lanes, unit.weights
        joined.biases[slice(*child_ptr[number : number + 2])] = unit.biases
    return joined
