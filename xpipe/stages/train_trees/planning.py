"""The plan of the trees at a worker: split labels, node by node; join nodes to trees, and cut their units to tasks.

Holds no algorithm (that is `xpipe.trees.planning`) and no training. To halve 300,000 labels takes minutes, so many
labels are dealt to tasks node by node: a node needs nothing but its own labels.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished, Unit
from xpipe.formats.parquet import read_label_embedding
from xpipe.formats.parts import read_part
from xpipe.ground import files
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import to_matrix
from xpipe.ground.sparse_rows import concatenate, take_rows
from xpipe.grouping.clustering import Node, bounds_of
from xpipe.stages.arrays import read_array, read_arrays, write_array, write_arrays
from xpipe.stages.matrices import part_path
from xpipe.stages.train_trees.messages import ForestPlan, NodeToSplit, Planning
from xpipe.trees import TreeOptions, TreePlan, hold_out
from xpipe.trees import unit_costs as costs_of
from xpipe.trees.planning import chosen_vectors, halving_of, plan_trees, split_labels, tree_of
from xpipe.trees.row_parts import parts_of_units

CHUNKS = 64  # tasks of about equal cost; fixed, so that the number of workers changes no file
MANY_LABELS = 1 << 12  # from here on their nodes are dealt to tasks
DEALT_AT = (1, 2, 3, 6)  # levels of the binary tree at which nodes become tasks of their own
PLAN = "plan/trees.npz"
VECTORS = "vectors"


def cuts_of(n_labels: int, options: TreeOptions) -> tuple[int, ...]:
    """The levels between which nodes are split by tasks of their own; none where labels are few."""
    if n_labels < MANY_LABELS:
        return ()
    depth = halving_of(n_labels, options).depth
    return (0, *(level for level in DEALT_AT if level < depth), depth)


def nodes_to_split(cuts: tuple[int, ...], wave: int, n_labels: int, options: TreeOptions) -> list[NodeToSplit]:
    """The nodes that are split between cut `wave` and the next one, of all trees. The size of a unit is its labels."""
    level, last = cuts[wave], cuts[wave + 1]
    sizes = np.diff(bounds_of(n_labels, level, halving_of(n_labels, options).arity)[level]).tolist()
    return [
        NodeToSplit(f"split-{tree}-{level}-{number:05d}", size, tree, level, number, last)
        for tree in range(options.n_trees)
        for number, size in enumerate(sizes)
    ]


def split_node(folder: str, unit: NodeToSplit, shared: Planning) -> Finished[None]:
    """Split the labels of a node. Writes their order: places among the labels with positives."""
    options = shared.training.options()
    halving, node = halving_of(shared.starts[-1], options), Node(unit.level, unit.number)
    labels = _labels_of_node(folder, unit, shared)
    vectors = _vectors_of(folder, labels, shared)
    beside = options.n_trees * halving.arity**unit.level  # nodes of this wave: where they are few, cores are free
    threads = max(1, usable_cores() // beside)
    order = split_labels(vectors, unit.tree, halving, node, unit.last - unit.level, options.seed, threads)
    return Finished((write_array(folder, _order_path(unit.tree, unit.level, unit.number), labels[order]),), None)


def _order_path(tree: int, level: int, number: int) -> str:
    """Where the order of the labels of a node is, once it is split."""
    return f"plan/order-{tree}-{level}-{number:05d}.npy"


def _labels_of_node(folder: str, unit: NodeToSplit, shared: Planning) -> np.ndarray:
    """The places of a node's labels, ascending: a part of what the node above it, split before, has written."""
    if unit.level == 0:
        return np.arange(shared.starts[-1])
    before = shared.cuts[shared.cuts.index(unit.level) - 1]
    arity = halving_of(shared.starts[-1], shared.training.options()).arity
    parent = unit.number // arity ** (unit.level - before)
    bounds = bounds_of(shared.starts[-1], unit.level, arity)
    order = read_array(folder, _order_path(unit.tree, before, parent))
    start, (first, last) = bounds[before][parent], bounds[unit.level][unit.number : unit.number + 2]
    return order[first - start : last - start]


def _vectors_of(folder: str, labels: np.ndarray, shared: Planning) -> sp.csr_matrix:
    """The vectors of some labels, by their ascending places among those with positives."""
    data = shared.training.data(folder)
    if shared.embedded:
        embedding = read_label_embedding(shared.training.dataset)
        assert embedding is not None  # dataset.json says so
        return chosen_vectors(embedding, data.n_labels, data.labels)[labels]
    places, found = np.searchsorted(labels, shared.starts), []
    for index, (first, last) in enumerate(pairwise(places.tolist())):
        if last > first:
            part = read_part(files.join(folder, part_path(VECTORS, "train", index)))[1]
            found.append(take_rows(part, labels[first:last] - shared.starts[index]))
    return to_matrix(concatenate(found), data.n_features)


def plan_forest(folder: str, unit: Unit, shared: Planning) -> Finished[ForestPlan]:
    """Plan the trees, and cut their units into chunks of about equal cost."""
    data, options = shared.training.data(folder), shared.training.options()
    plans = _joined_plans(folder, data.labels, shared) if shared.cuts else plan_trees(
        _vectors_of(folder, np.arange(len(data.labels)), shared), data.labels, options, threads=1
    )  # fmt: skip
    costs = np.concatenate([np.zeros(0, np.int64), *(costs_of(data, plan) for plan in plans)])
    parts = [len(own) for plan in plans for own in parts_of_units(data.label_rows, plan)]
    per_row = 1 + data.X.n_entries // max(data.X.n_rows, 1)
    arrays = {f"order-{plan.tree}": plan.order for plan in plans}
    arrays |= {f"bounds-{plan.tree}-{level}": plan.bounds[level] for plan in plans for level in range(plan.depth)}
    folds = hold_out(data, options) if plans else ()
    found = ForestPlan(
        chunks=tuple(_chunks_of_units(costs // per_row, parts)),
        trees=len(plans),
        levels=plans[0].depth if plans else 0,
        units=tuple(tuple(int(plan.units_of(level).sum()) for level in range(plan.depth)) for plan in plans),
        labels=len(data.labels),
        held_out=sum(map(len, folds)),
        folds=len(folds),
    )
    return Finished((write_arrays(folder, PLAN, arrays),), found)


def _joined_plans(folder: str, labels: np.ndarray, shared: Planning) -> tuple[TreePlan, ...]:
    """The trees whose nodes have been split by tasks of their own."""
    options, level = shared.training.options(), shared.cuts[-2]
    halving = halving_of(len(labels), options)
    return tuple(
        tree_of(
            tree,
            labels,
            np.concatenate(
                [read_array(folder, _order_path(tree, level, number)) for number in range(halving.arity**level)]
            ),
            halving,
        )
        for tree in range(options.n_trees)
    )


def _chunks_of_units(costs: np.ndarray, parts: list[int]) -> list[tuple[int, int, int, int]]:
    """Chunks of consecutive units: (first, one after the last, cost, parts). A unit in parts is a chunk of its own."""
    chunks, first = [], 0
    for unit in (*np.flatnonzero(np.array(parts) > 1).tolist(), len(costs)):
        between = cut_by_cost(costs[first:unit], costs.sum() / CHUNKS)
        chunks += [(first + start, first + stop, cost, 1) for start, stop, cost in between]
        if unit < len(costs):
            chunks.append((unit, unit + 1, int(costs[unit]), parts[unit]))
        first = unit + 1
    return chunks


def cut_by_cost(costs: np.ndarray, enough: float) -> list[tuple[int, int, int]]:
    """Chunks of consecutive units: (first, one after the last, cost). A chunk ends when it costs enough."""
    chunks, first, total = [], 0, 0
    for number, cost in enumerate(costs.tolist()):
        total += cost
        if total >= enough or number == len(costs) - 1:
            chunks.append((first, number + 1, total))
            first, total = number + 1, 0
    return chunks


def read_plans(folder: str) -> tuple[TreePlan, ...]:
    """The plans that `plan_forest` wrote."""
    arrays = read_arrays(folder, PLAN)
    n_trees = sum(name.startswith("order-") for name in arrays)
    depth = [sum(name.startswith(f"bounds-{tree}-") for name in arrays) for tree in range(n_trees)]
    return tuple(
        TreePlan(tree, arrays[f"order-{tree}"], tuple(arrays[f"bounds-{tree}-{level}"] for level in range(depth[tree])))
        for tree in range(n_trees)
    )
