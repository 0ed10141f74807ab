"""The calibration of a forest: which rows are held out, and the map from its scores to probabilities.

Holds no fit of a map (`ground.calibration_map`) and no training. The forest itself is trained on all rows. Its map
belongs to forests that were trained without the held-out rows, on the same trees: see `train_unit_without`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from xpipe.ground.calibration_map import TOP, CalibrationMap, fit_predictions
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, to_matrix
from xpipe.ground.sparse_rows import row_pointers
from xpipe.trees.forest import Forest, make_forest
from xpipe.trees.options import BEAM, TreeOptions
from xpipe.trees.planning import TreePlan
from xpipe.trees.prediction import predict_rows
from xpipe.trees.row_parts import UnitWeights
from xpipe.trees.training_data import TrainingData

HELD_OUT = 4000  # rows, at most
SHARE = 0.2  # of the rows with labels that a fold has, at most
FOLDS = 2  # at most


def hold_out(data: TrainingData, options: TreeOptions) -> tuple[np.ndarray, ...]:
    """Choose the rows that the calibration holds out.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    options : TreeOptions
        Its seed decides the choice.

    Returns
    -------
    tuple of numpy.ndarray
        Folds: row numbers, int64, ascending. None where nothing is to be calibrated.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, hold_out, prepare_data
    >>> data = prepare_data(sp.eye(20, format="csr"), sp.eye(20, format="csr"))
    >>> [len(rows) for rows in hold_out(data, TreeOptions())]
    [4, 4]
    """
    if options.calibrate == "none":
        return ()
    has_label = np.zeros(data.X.n_rows, dtype=bool)
    has_label[data.label_rows.indices] = True
    labelled = np.flatnonzero(has_label)
    largest = int(SHARE * len(labelled))
    if not largest:
        return ()
    n_folds = min(FOLDS, -(-HELD_OUT // largest))
    chosen = permutation(len(labelled), options.seed, "tree", "held out")[: min(HELD_OUT, n_folds * largest)]
    return tuple(np.sort(labelled[fold]) for fold in np.array_split(chosen, n_folds))


def make_calibrated(
    data: TrainingData,
    plans: tuple[TreePlan, ...],
    units: Sequence[tuple[UnitWeights, ...]],
    folds: Sequence[np.ndarray],
    options: TreeOptions,
    threads: int,
) -> Forest:
    """Join trained units to a forest, and calibrate it on the held-out rows.

    Parameters
    ----------
    data, plans, options
        As in `make_forest`.
    units : sequence of tuple of UnitWeights
        What `train_unit_without` returned, in the order of the plans and of their `units()`.
    folds : sequence of numpy.ndarray
        What `hold_out` returned.
    threads : int
        Changes no byte.

    Returns
    -------
    Forest
        All trees, ready for `LabelTree.of`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, hold_out, make_calibrated, plan_forest, prepare_data, train_unit_without
    >>> data, options = prepare_data(sp.eye(20, format="csr"), sp.eye(20, format="csr")), TreeOptions(n_trees=1)
    >>> plans, folds = plan_forest(data, None, options), hold_out(data, options)
    >>> units = [train_unit_without(data, plan, unit, options, folds) for plan in plans for unit in plan.units()]
    >>> make_calibrated(data, plans, units, folds, options, threads=1).calibration is not None
    True
    """
    whole = make_forest(data, plans, [own[0] for own in units], options)

    def without(fold: int) -> Forest:
        return make_forest(data, plans, [own[1 + fold] for own in units], options)

    return replace(whole, calibration=fit_calibration(data, without, folds, threads)) if plans else whole


def fit_calibration(
    data: TrainingData, forest_without: Callable[[int], Forest], folds: Sequence[np.ndarray], threads: int
) -> CalibrationMap | None:
    """The map that fits forests without each fold of held-out rows; None without folds.

    forest_without: makes the forest without a fold, by its number. One forest at a time is in memory.
    """
    return fit_to(data, [_predict(data, forest_without(n), fold, threads) for n, fold in enumerate(folds)], folds)


def fit_to(
    data: TrainingData, predicted: Sequence[sp.csr_matrix], folds: Sequence[np.ndarray]
) -> CalibrationMap | None:
    """The map for what was predicted for the held-out rows of each fold, by its own forest; None without folds."""
    return fit_predictions(predicted, [_labels_of(data, fold) for fold in folds]) if folds else None


def _labels_of(data: TrainingData, rows: np.ndarray) -> sp.csr_matrix:
    """The labels of some rows, which ascend; rows x labels. No other row is transposed."""
    place = np.full(data.X.n_rows, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    at = place[data.label_rows.indices]
    chosen = np.flatnonzero(at >= 0)
    labels = np.searchsorted(data.label_rows.indptr, chosen, side="right") - 1
    order = np.argsort(at[chosen], kind="stable")
    found = Triple(
        row_pointers(np.bincount(at[chosen], minlength=len(rows))), labels[order].astype(np.int32),
        data.label_rows.data[chosen][order],
    )  # fmt: skip
    return to_matrix(found, data.n_labels)


def _predict(data: TrainingData, forest: Forest, rows: np.ndarray, threads: int) -> sp.csr_matrix:
    """The scores of the best labels of some rows."""
    X = to_matrix(data.take(rows), data.n_features)
    return predict_rows(forest, X, data.scales[rows], TOP, BEAM, threads)
