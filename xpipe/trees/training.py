"""The classifiers of a tree, unit by unit. A unit is some children of one node, and needs nothing of other units.

Holds no tree (`planning`) and no threads (`model`). What a unit gives depends on the rows that reach its node, on their
labels and on the options alone. Kernels are `_gather_numba` and `_solver_numba`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import read_only
from xpipe.ground.sparse_rows import entries_of_rows, row_pointers
from xpipe.trees.options import TreeOptions
from xpipe.trees.planning import TreePlan, Unit
from xpipe.trees.row_parts import KEPT, Part, UnitWeights, large_weights, mean_of_parts, parts_of
from xpipe.trees.training_data import TrainingData

if TYPE_CHECKING:
    from xpipe.trees._gather_numba import NodeFeatures, NodeRows

MANY_ROWS = 75_000  # of a node with more rows, fewer rounds learn as much: about as many visits to rows
FEWEST = 8  # rounds over any number of rows
FORGETTING = 4  # once some rows are forgotten, so many times fewer rounds
LINE = 64  # bytes of a line of the cache: LANES numbers


class Owners(NamedTuple):
    """Rows that reach a node, ascending, and which children of a unit each of them is in."""

    rows: np.ndarray  # int64
    owner_ptr: np.ndarray  # int64: rows[i] has the owners owner_ptr[i] to owner_ptr[i + 1] - 1
    owners: np.ndarray  # int64: children of the unit, from 0
    weights: np.ndarray  # float32: the chance that the row has a label of the child
    doubts: np.ndarray  # float32: the chance that it has a label of the node, but none of the child


def unit_costs(data: TrainingData, plan: TreePlan) -> np.ndarray:
    """Estimate how long each unit of a plan takes to train.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    plan : TreePlan
        One tree.

    Returns
    -------
    numpy.ndarray of shape (n_units,)
        int64, in the order of `plan.units()`: entries of the rows that may reach the unit's node. How many children it
        has hardly matters: memory is what training waits for.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, plan_forest, prepare_data, unit_costs
    >>> data = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr"))
    >>> (plan,) = plan_forest(data, None, TreeOptions(n_trees=1))
    >>> unit_costs(data, plan).tolist()
    [8]
    """
    label_sizes = np.diff(data.label_rows.indptr)[plan.order]
    reached = row_pointers(label_sizes)
    entries_per_row = 1 + data.X.n_entries // max(data.X.n_rows, 1)
    costs = []
    for unit in plan.units():
        start, stop = plan.span(unit.level, unit.node)
        rows = min(int(reached[stop] - reached[start]), data.X.n_rows)
        costs.append(rows * int(entries_per_row))
    return np.array(costs, dtype=np.int64)


def train_unit(data: TrainingData, plan: TreePlan, unit: Unit, options: TreeOptions) -> UnitWeights:
    """Train the classifiers of some children of one node on the rows that reach it.

    Parameters
    ----------
    data : TrainingData
        The rows that reach the node, and any others, in their order: further rows change no byte.
    plan : TreePlan
        The tree.
    unit : Unit
        One of `plan.units()`.
    options : TreeOptions
        How to train.

    Returns
    -------
    UnitWeights
        Weights at or above the threshold, and all biases.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, plan_forest, prepare_data, train_unit
    >>> data, options = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr")), TreeOptions(n_trees=1)
    >>> (plan,) = plan_forest(data, None, options)
    >>> train_unit(data, plan, plan.units()[0], options).features.tolist()
    [0, 1, 2, 3]
    """
    (found,) = train_unit_without(data, plan, unit, options, ())
    return found


def train_unit_without(
    data: TrainingData, plan: TreePlan, unit: Unit, options: TreeOptions, folds: Sequence[np.ndarray]
) -> tuple[UnitWeights, ...]:
    """Train a unit on all rows, and then without each of some sets of rows.

    The classifiers of a fold start from those of all rows, without what its rows have added to them, and need few
    rounds over the others. They are nearly those that the others alone give: scores of the fold's rows are worth what
    scores of new rows are worth. Where very many rows reach the node, it is trained in parts (`row_parts`).

    Parameters
    ----------
    data, plan, unit, options
        As in `train_unit`.
    folds : sequence of numpy.ndarray
        Row numbers, each ascending.

    Returns
    -------
    tuple of UnitWeights
        That of all rows, the same as of `train_unit`; then one per fold.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, plan_forest, prepare_data, train_unit_without
    >>> data, options = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr")), TreeOptions(n_trees=1)
    >>> (plan,) = plan_forest(data, None, options)
    >>> whole, fold = train_unit_without(data, plan, plan.units()[0], options, [np.array([1, 3])])
    >>> whole.features.tolist(), fold.features.tolist()
    ([0, 1, 2, 3], [0, 2])
    """
    owned = unit_rows(data.label_rows, plan, unit)
    parts = [_train_part(data, plan, unit, options, folds, owned, part) for part in parts_of(len(owned.rows))]
    return mean_of_units(parts, unit, data.n_features, options)


def mean_of_units(
    parts: Sequence[tuple[UnitWeights, ...]], unit: Unit, n_features: int, options: TreeOptions
) -> tuple[UnitWeights, ...]:
    """What the parts of a unit have learnt together: from all rows, and without each fold."""
    return tuple(mean_of_parts(same, len(parts), unit, n_features, options) for same in zip(*parts, strict=True))


def train_part(
    data: TrainingData, plan: TreePlan, unit: Unit, options: TreeOptions, folds: Sequence[np.ndarray], part: Part
) -> tuple[UnitWeights, ...]:
    """Train a unit on a part of the rows that reach it; the parts of `parts_of` give `mean_of_units` what it needs."""
    return _train_part(data, plan, unit, options, folds, unit_rows(data.label_rows, plan, unit), part)


def _train_part(
    data: TrainingData,
    plan: TreePlan,
    unit: Unit,
    options: TreeOptions,
    folds: Sequence[np.ndarray],
    owned: Owners,
    part: Part,
) -> tuple[UnitWeights, ...]:
    """`train_unit_without` on some of the rows; where there are several parts, with smaller weights, too."""
    from xpipe.trees import _solver_numba
    from xpipe.trees._lanes_numba import LANES

    rows, owner_ptr, owners, weights, doubts = _rows_of_part(owned, part)
    n_lanes = unit.last_child - unit.first_child
    width = LANES * -(-n_lanes // LANES)
    features, node = _gather(data, rows, options.bias)
    n_shared = int(np.count_nonzero(features.places >= 0))
    block, betas = _aligned_zeros(n_shared + 1, width), _aligned_zeros(len(rows), width)
    settings = _solver_numba.Settings(
        cost=float(options.cost),
        bias=np.float32(options.bias),
        logistic=options.loss == "logistic",
        tolerance=float(options.tolerance),
        max_rounds=_rounds(int(options.max_rounds), len(rows)),
    )
    cost = np.float32(options.cost)
    positives = _solver_numba.Positives(owner_ptr, owners, cost * weights, cost * doubts)
    names = () if part.of == 1 else ("part", part.number)
    state = np.uint64(bit_generator(options.seed, "tree", plan.tree, "solve", *unit, *names).random_raw())
    _solver_numba.solve_lanes(node, positives, np.arange(len(rows)), n_lanes, settings, state, block, betas)

    def learnt(block: np.ndarray, betas: np.ndarray) -> UnitWeights:
        least = options.threshold * (1 if part.of == 1 else KEPT)
        return large_weights(block, betas, n_lanes, features, block[-1, :n_lanes] * settings.bias, least)

    found = [learnt(block, betas)]
    fewer = settings._replace(max_rounds=-(-settings.max_rounds // FORGETTING))
    for number, fold in enumerate(folds):
        gone = np.isin(rows, fold, assume_unique=True)
        if not gone.any():
            found.append(found[0])
            continue
        last = number == len(folds) - 1  # nobody needs the classifiers of all rows after it
        own, own_betas = (block, betas) if last else (_aligned_copy(block), _aligned_copy(betas))
        _solver_numba.forget_rows(node, np.flatnonzero(gone), settings.bias, own, own_betas)
        _solver_numba.solve_lanes(node, positives, np.flatnonzero(~gone), n_lanes, fewer, state, own, own_betas)
        found.append(learnt(own, own_betas))
    return tuple(found)


def _rounds(most: int, n_rows: int) -> int:
    """How many rounds classifiers are trained in at most, by the rows of their node."""
    return min(most, max(FEWEST, most * MANY_ROWS // max(n_rows, 1)))


def _rows_of_part(owned: Owners, part: Part) -> Owners:
    """The rows of a part, and which children they are in."""
    if part.of == 1:
        return owned
    pointers, entries = entries_of_rows(owned.owner_ptr, np.arange(part.number, len(owned.rows), part.of))
    rows = owned.rows[part.number :: part.of]
    return Owners(rows, pointers, owned.owners[entries], owned.weights[entries], owned.doubts[entries])


def _aligned_zeros(n_rows: int, width: int) -> np.ndarray:
    """A matrix of zeros, float32, each LANES of its numbers in one line of the cache: a line less for every access."""
    raw = np.zeros(n_rows * width + LINE // 4, dtype=np.float32)
    first = -raw.ctypes.data % LINE // 4
    return raw[first : first + n_rows * width].reshape(n_rows, width)


def _aligned_copy(matrix: np.ndarray) -> np.ndarray:
    """A copy that is aligned, too."""
    copy = _aligned_zeros(*matrix.shape)
    copy[:] = matrix
    return copy


def _gather(data: TrainingData, rows: np.ndarray, bias: float) -> tuple[NodeFeatures, NodeRows]:
    """The features that the rows have, and the rows with the shared ones numbered from 0."""
    from xpipe.trees._gather_numba import (
        NodeFeatures,
        NodeRows,
        SparseRows,
        count_rows,
        gather_rows,
        number_features,
    )

    counts = np.zeros(data.n_features, dtype=np.uint8)
    n_entries = 0
    for piece in data.X.pieces(rows):
        indptr, indices, _ = map(read_only, piece.triple)
        n_entries += count_rows(indptr, indices, piece.rows, counts)
    n_features = int(np.count_nonzero(counts))
    features = NodeFeatures(
        np.empty(n_features, np.int32), np.empty(n_features, np.int64), np.empty(n_features, np.float32)
    )
    numbers = np.empty(data.n_features, dtype=np.uint32)
    number_features(counts, numbers, features)
    n_entries -= int(np.count_nonzero(counts == 1))
    node = NodeRows(
        indptr=np.zeros(len(rows) + 1, dtype=np.int64),
        columns=np.empty(n_entries, dtype=np.uint32),
        values=np.empty(n_entries, dtype=np.float32),
        alone=np.empty(len(rows), dtype=np.float32),
        squares=np.empty(len(rows), dtype=np.float32),
    )
    first = at = 0
    for piece in data.X.pieces(rows):
        scales = data.scales[piece.start : piece.start + piece.triple.n_rows]
        indptr, indices, values = map(read_only, piece.triple)
        stored = SparseRows(indptr, indices, values, read_only(scales))
        at = gather_rows(stored, piece.rows, first, at, counts, numbers, bias, node, features)
        first += len(piece.rows)
    return features, node


def unit_rows(label_rows: sp.csr_matrix, plan: TreePlan, unit: Unit) -> Owners:
    """The rows that reach a unit's node, and which of the unit's children they are in.

    Parameters
    ----------
    label_rows : scipy.sparse.csr_matrix of shape (n_labels, n_samples)
        `TrainingData.label_rows`.
    plan : TreePlan
        The tree.
    unit : Unit
        One of `plan.units()`.

    Returns
    -------
    Owners
        Rows with a label below the node. Chances of labels are taken for independent.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import TreeOptions, plan_forest, prepare_data, unit_rows
    >>> data = prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr"))
    >>> (plan,) = plan_forest(data, None, TreeOptions(n_trees=1))
    >>> unit_rows(data.label_rows, plan, plan.units()[0]).rows.tolist()
    [0, 1, 2, 3]
    """
    positions = np.arange(*plan.span(unit.level, unit.node))
    children = plan.child_of(unit.level, unit.node, positions)
    n_children = int(children[-1]) + 1
    pointers, entries = entries_of_rows(label_rows.indptr, plan.order[positions])
    pairs, weights = label_rows.indices[entries].astype(np.int64), label_rows.data[entries]
    del entries  # as large as what is sorted: a root has all labels of all rows
    pairs *= n_children  # a pair is row * n_children + child
    pairs += np.repeat(children, np.diff(pointers))
    order = np.argsort(pairs, kind="stable")
    pairs, weights = pairs[order], weights[order]
    del order
    firsts = np.flatnonzero(_changes(pairs))
    weights = _chances(weights, firsts)
    found, child = np.divmod(pairs[firsts], n_children)
    new_row = _changes(found)
    row_of, starts = np.cumsum(new_row) - 1, np.flatnonzero(new_row)
    doubts = np.maximum(_chances(weights, starts)[row_of] - weights, 0)
    inside = (child >= unit.first_child) & (child < unit.last_child)
    counts = np.bincount(row_of[inside], minlength=len(starts))
    return Owners(
        found[new_row], row_pointers(counts), child[inside] - unit.first_child, weights[inside], doubts[inside]
    )


def _chances(weights: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """The chance of at least one of several labels, float32; a weight above 1 stays. firsts: where each several begin.

    A row counts at a node by its chances there: as a positive of a child with the chance that it has a label of the
    child, and as a negative of it with the chance that it reaches the node by other labels only. The sum of both losses
    is the loss to expect.
    """
    if not len(firsts):
        return weights.astype(np.float32)
    none = np.multiply.reduceat(1 - np.minimum(weights, 1, dtype=np.float64), firsts)
    found: np.ndarray = np.maximum(1 - none, np.maximum.reduceat(weights, firsts)).astype(np.float32)
    return found


def _changes(numbers: np.ndarray) -> np.ndarray:
    """True where a number differs from the one before it, and at the first."""
    found = np.ones(len(numbers), dtype=bool)
    found[1:] = numbers[1:] != numbers[:-1]
    return found
