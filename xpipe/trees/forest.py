"""A trained forest as plain arrays: the plans of its trees and the weights of their units.

Holds no training, no prediction and no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.sparse_rows import row_pointers
from xpipe.trees._beam_numba import Level, Weights
from xpipe.trees.options import Loss, TreeOptions
from xpipe.trees.planning import TreePlan
from xpipe.trees.training import UnitWeights
from xpipe.trees.training_data import TrainingData


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


def make_forest(
    data: TrainingData, plans: tuple[TreePlan, ...], units: list[UnitWeights], options: TreeOptions
) -> Forest:
    """Join trained units to a forest.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    plans : tuple of TreePlan
        The trees.
    units : list of UnitWeights
        What `train_unit` returned, in the order of the plans and of their `units()`.
    options : TreeOptions
        The options the units were trained with.

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
    return Forest(data.n_features, data.n_labels, options.loss, options.normalize, plans, join_units(units))


def join_units(units: Sequence[UnitWeights]) -> Weights:
    """The weights of all units of all trees, in the order of the trees and of `TreePlan.units`."""
    features = [unit.features for unit in units]
    before = row_pointers([len(unit.weights) for unit in units])
    entry_ptr = [unit.feature_ptr[:-1] + start for unit, start in zip(units, before[:-1], strict=True)]
    return Weights(
        row_pointers([len(part) for part in features]),
        _joined(features, np.int32),
        np.concatenate([*entry_ptr, before[-1:]]),
        _joined([unit.lanes for unit in units], np.uint8),
        _joined([unit.weights for unit in units], np.float32),
        row_pointers([len(unit.biases) for unit in units]),
        _joined([unit.biases for unit in units], np.float32),
    )


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """All parts, one after the other."""
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)
