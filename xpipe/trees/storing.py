"""A forest in one npz file: plain arrays, no pickles, the same bytes every time.

Holds no training and no prediction. Every number that a compiled kernel uses as an index is checked first. The arrays
are those of `TYPES`, in that order; the weights are the fields of `Weights`. Their numbers begin at multiples of 64
bytes of the file, so that they can be mapped; files of before, where they do not, hold the same arrays.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from xpipe.errors import DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.checked_json import parse_json
from xpipe.ground.given_labels import names_of
from xpipe.ground.npy_header import ArrayHeader, map_npz, read_npz
from xpipe.ground.npz_layout import write_npz
from xpipe.ground.sparse import read_only
from xpipe.trees._beam_numba import Weights
from xpipe.trees._storing_numba import NO_CHILD, NOT_ASCENDING, NOT_FINITE, OUT_OF_RANGE, check_weights, falls
from xpipe.trees.forest import Forest
from xpipe.trees.options import OptionValues, TreeOptions
from xpipe.trees.planning import TreePlan

FORMAT = "xpipe label tree 2"
FORMAT_1 = "xpipe label tree 1"  # without calibration
TYPES = {
    "format": "U",
    "options": "U",
    "shape": np.int64,  # n_features, n_labels
    "orders": np.int64,  # trees x labels in them
    "level_sizes": np.int64,  # trees x levels: nodes
    "bounds": np.int64,  # of all levels of all trees, back to back
    "feature_ptr": np.int64,
    "features": np.int32,
    "entry_ptr": np.int64,
    "lanes": np.uint8,
    "weights": np.float32,
    "child_ptr": np.int64,
    "biases": np.float32,
    "calibration_scores": np.float64,  # the knots of the map; none where there is no map
    "calibration_probabilities": np.float64,
}
CALIBRATION = ("calibration_scores", "calibration_probabilities")
NAMES = "names"  # of the labels, as JSON; not there where labels have only numbers
WRONG_WEIGHTS = {
    OUT_OF_RANGE: "a feature is out of range",
    NOT_ASCENDING: "the features of a unit are not ascending",
    NO_CHILD: "a weight has no child",
    NOT_FINITE: "a weight is not finite",
}
MOST = 2**31 - 1  # features, and labels: their numbers are int32
UNREADABLE = (ValueError, KeyError, IndexError, OSError, OverflowError, MemoryError, TypeError)


def write_forest(path: str, forest: Forest, options: TreeOptions) -> None:
    """Write a forest; the file appears when it is complete."""
    arrays = {
        **arrays_of_plans(forest.plans, forest.n_features, forest.n_labels, options),
        **forest.weights._asdict(),
        **arrays_of_calibration(forest.calibration),
    }
    if forest.names is not None:
        arrays[NAMES] = np.frombuffer(json.dumps(forest.names.tolist()).encode(), dtype=np.uint8)
    with files.open_write(os.fspath(path)) as stream:
        write_npz(stream, arrays)


def arrays_of_plans(
    plans: tuple[TreePlan, ...], n_features: int, n_labels: int, options: TreeOptions
) -> dict[str, np.ndarray]:
    """What stands in the file of a forest before its weights."""
    levels, n_trees = [[plan.n_nodes(level) for level in range(plan.depth)] for plan in plans], len(plans)
    return {
        "format": np.array(FORMAT),
        "options": np.array(json.dumps(asdict(options), sort_keys=True)),
        "shape": np.array([n_features, n_labels], dtype=np.int64),
        "orders": np.array([plan.order for plan in plans], dtype=np.int64).reshape(n_trees, -1 if n_trees else 0),
        "level_sizes": np.array(levels, dtype=np.int64).reshape(n_trees, -1 if n_trees else 0),
        "bounds": np.concatenate([np.empty(0, np.int64), *(bounds for plan in plans for bounds in plan.bounds)]),
    }


def headers_of_weights(n_units: int, n_features: int, n_weights: int, n_biases: int) -> dict[str, ArrayHeader]:
    """Shapes and types of the weights of a forest, as they stand in its file. n_features: of all units together."""
    lengths = (n_units + 1, n_features, n_features + 1, n_weights, n_weights, n_units + 1, n_biases)
    fields = zip(Weights._fields, lengths, strict=True)
    return {name: ArrayHeader((length,), _type_of(name)) for name, length in fields}


def _type_of(name: str) -> np.dtype:
    """The type of an array of numbers."""
    found: np.dtype = np.dtype(cast(Any, TYPES[name]))
    return found


def arrays_of_calibration(calibration: CalibrationMap | None) -> dict[str, np.ndarray]:
    """What stands in the file of a forest after its weights."""
    knots = ((), ()) if calibration is None else (calibration.scores, calibration.probabilities)
    return {name: np.array(each, dtype=np.float64) for name, each in zip(CALIBRATION, knots, strict=True)}


def read_forest(path: str, *, mapped: bool = False) -> tuple[Forest, TreeOptions]:
    """(forest, the options it was trained with). Raises DataError for a damaged file, and for one that is no model.

    mapped: weights stay in a local file, which nobody may write to meanwhile; processes of a machine share its pages.
    """
    path = os.fspath(path)
    try:
        arrays = map_npz(path) if mapped and files.is_local(path) else read_npz(path)
        old = str(arrays.get("format")) == FORMAT_1
        if old:
            arrays |= dict.fromkeys(CALIBRATION, np.empty(0))
        if missing := TYPES.keys() - arrays.keys():
            raise ValueError(f"it has no {', '.join(sorted(missing))}")
        if str(arrays["format"]) != FORMAT and not old:
            raise ValueError(f"it says it is {str(arrays['format'])[:80]!r}, not {FORMAT!r}")
        text = str(arrays["options"]).encode("utf-8", "surrogatepass")
        given = parse_json(text, OptionValues, where=path)
        if old:
            given["calibrate"] = "none"
        options = TreeOptions(**given)
        forest = _checked(arrays, options)
        if NAMES in arrays:
            forest = replace(forest, names=_checked_names(arrays[NAMES], forest.n_labels, path))
        return forest, options
    except (*UNREADABLE, XpipeError) as error:
        if not files.exists(path):
            raise DataError("there is no such model", where=path, fix="check the path") from error
        why = (error.why or error.what) if isinstance(error, XpipeError) else str(error) or type(error).__name__
        raise DataError(
            "this is not a saved label tree, or it is damaged",
            where=path,
            why=why,
            fix="save the model again with LabelTree.save; if that was done, copy it again: it may be cut short",
        ) from error


def _checked(arrays: dict[str, np.ndarray], options: TreeOptions) -> Forest:
    """The forest in these arrays. Raises ValueError where they do not fit each other."""
    for name, kind in TYPES.items():
        if kind != "U":
            _must(arrays[name].dtype == kind, f"{name} has the type {arrays[name].dtype}")
            _must(arrays[name].ndim == (2 if name in ("orders", "level_sizes") else 1), f"{name} has a wrong shape")
    shape = arrays["shape"]
    _must(shape.shape == (2,) and bool((shape >= 0).all() and (shape <= MOST).all()), "its shape is no shape")
    n_features, n_labels = shape.tolist()
    plans = _checked_plans(arrays["orders"], arrays["level_sizes"], arrays["bounds"], n_labels)
    weights = Weights(*(arrays[name] for name in Weights._fields))
    _check_weights(weights, plans, n_features)
    knots = [tuple(arrays[name].tolist()) for name in CALIBRATION]
    calibration = CalibrationMap(*knots) if any(knots) else None
    return Forest(n_features, n_labels, options.loss, options.normalize, plans, weights, calibration)


def _checked_names(content: np.ndarray, n_labels: int, path: str) -> np.ndarray:
    """The names of the labels. Raises ValueError unless there is one of its own for each."""
    _must(content.dtype == np.uint8 and content.ndim == 1, "its names are no text")
    names = parse_json(content.tobytes(), list[str | int], where=path)
    _must(len({type(name) for name in names}) <= 1, "its names are of several types")
    _must(len(names) == n_labels == len(set(names)), "its names do not fit its labels")
    return names_of(names)


def _check_weights(weights: Weights, plans: tuple[TreePlan, ...], n_features: int) -> None:
    """Raise ValueError unless the weights are those of the units of these trees."""
    n_children = [unit.last_child - unit.first_child for plan in plans for unit in plan.units()]
    _must(np.array_equal(np.diff(weights.child_ptr), n_children), "its biases do not fit its trees")
    _must(len(weights.feature_ptr) == len(n_children) + 1, "its units do not fit its trees")
    for pointers, target in (
        (weights.child_ptr, weights.biases),
        (weights.feature_ptr, weights.features),
        (weights.entry_ptr, weights.weights),
    ):
        _must(len(pointers) > 0 and pointers[0] == 0 and pointers[-1] == len(target), "its pointers do not fit")
        _must(not falls(read_only(pointers)), "its pointers go down")
    _must(len(weights.entry_ptr) == len(weights.features) + 1, "its features do not fit their weights")
    _must(len(weights.lanes) == len(weights.weights), "its weights do not fit their children")
    wrong = check_weights(Weights(*map(read_only, weights)), np.array(n_children, dtype=np.int64), n_features)
    _must(not wrong, WRONG_WEIGHTS.get(wrong, ""))


def _checked_plans(
    orders: np.ndarray, level_sizes: np.ndarray, bounds: np.ndarray, n_labels: int
) -> tuple[TreePlan, ...]:
    """The plans of the trees in these arrays. Raises ValueError where they are no trees of the labels."""
    n_trees, n_placed = orders.shape
    _must(len(level_sizes) == n_trees and (n_trees == 0 or level_sizes.shape[1] > 0), "its levels do not fit its trees")
    _must(bool((level_sizes > 0).all() and (level_sizes <= n_placed).all()), "a level has a wrong number of nodes")
    _must(len(bounds) == int((level_sizes + 1).sum()), "its levels do not fit their bounds")
    ends = np.cumsum(level_sizes + 1)
    cut = np.split(bounds, ends[:-1]) if n_trees else []
    plans = []
    for tree in range(n_trees):
        depth = level_sizes.shape[1]
        levels = tuple(cut[tree * depth : (tree + 1) * depth])
        for level in levels:
            _must(
                level[0] == 0 and level[-1] == n_placed and bool((np.diff(level) > 0).all()), "a level is cut wrongly"
            )
        for upper, lower in pairwise(levels):
            _must(bool(np.isin(upper, lower).all()), "a node is not below one other")
        _must(len(levels[0]) == 2, "a tree has several roots")
        _must(_inside(orders[tree], n_labels), "a label is out of range")
        _must(len(np.unique(orders[tree])) == n_placed, "a label is in a tree twice")
        _must(np.array_equal(np.sort(orders[tree]), np.sort(orders[0])), "its trees have other labels")
        plans.append(TreePlan(tree, orders[tree], levels))
    return tuple(plans)


def _inside(numbers: np.ndarray, limit: int) -> bool:
    """Whether all numbers are from 0 to limit - 1."""
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < limit)


def _must(holds: bool | np.bool, else_why: str) -> None:
    """Raise ValueError with this reason unless the condition holds."""
    if not holds:
        raise ValueError(else_why)
