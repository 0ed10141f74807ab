"""A trained forest as plain arrays: the plans of its trees and the weights of their units.

Holds no training, no prediction and no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xpipe.trees._beam_numba import Level, Weights
from xpipe.trees.options import Loss
from xpipe.trees.planning import TreePlan
from xpipe.trees.training import UnitWeights


@dataclass(frozen=True)
class Forest:
    """Trees over the same labels. Units are numbered tree by tree, level by level, node by node."""

    n_features: int
    n_labels: int
    loss: Loss
    normalize: bool
    plans: tuple[TreePlan, ...]
    weights: Weights

    @cached_property
    def levels(self) -> tuple[tuple[Level, ...], ...]:
        """For each tree and level, where its nodes' units and children are."""
        found, done = [], 0
        for plan in self.plans:
            of_tree = []
            for level in range(plan.depth):
                children = plan.child_ptr(level)
                units = np.concatenate([[0], np.cumsum(plan.units_of(level))]) + done
                done = int(units[-1])
                of_tree.append(Level(units.astype(np.int64), children))
            found.append(tuple(of_tree))
        return tuple(found)

    @property
    def n_units(self) -> int:
        return len(self.weights.feature_ptr) - 1


def join_units(units: Sequence[UnitWeights]) -> Weights:
    """The weights of all units of all trees, in the order of the trees and of `TreePlan.units`."""
    features = [unit.features for unit in units]
    entries = [len(unit.weights) for unit in units]
    before = np.concatenate([[0], np.cumsum(entries)])
    entry_ptr = [unit.feature_ptr[:-1] + start for unit, start in zip(units, before[:-1], strict=True)]
    return Weights(
        _pointers([len(part) for part in features]),
        _joined(features, np.int32),
        np.concatenate([*entry_ptr, before[-1:]]).astype(np.int64),
        _joined([unit.lanes for unit in units], np.uint8),
        _joined([unit.weights for unit in units], np.float32),
        _pointers([len(unit.biases) for unit in units]),
        _joined([unit.biases for unit in units], np.float32),
    )


def _pointers(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)
