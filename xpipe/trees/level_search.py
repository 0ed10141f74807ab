"""Beam search level by level where the units of a level are in several places: each place scores some units.

Holds no files and no kernels. `prediction` has the whole forest in memory; both give the same bytes. Scores of a level
are needed together only to choose the nodes that are followed, and are few beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import read_only
from xpipe.ground.sparse_rows import row_pointers
from xpipe.trees.options import Loss
from xpipe.trees.planning import TreePlan, Unit
from xpipe.trees.prediction import (
    beam_at_root,
    empty_beam,
    leaves_of,
    make_label_scratch,
    make_scratch,
    most,
    to_csr,
)
from xpipe.trees.row_parts import UnitWeights

if TYPE_CHECKING:
    from xpipe.trees._beam_numba import Beam
    from xpipe.trees._gather_numba import SparseRows


class ScoredUnit(NamedTuple):
    """A unit of a tree, and the scores of its children, float32: a line for each row that has its node in its beam."""

    tree: int
    unit: Unit
    scores: np.ndarray


def first_beams(n_trees: int, n_rows: int) -> list[Beam]:
    """What every row begins with: the root of each tree."""
    return [beam_at_root(n_rows) for _ in range(n_trees)]


def score_unit(
    rows: SparseRows, n_features: int, beam: Beam, unit: Unit, learnt: UnitWeights, loss: Loss
) -> np.ndarray:
    """The scores of a unit's children, a line for each row whose beam has the unit's node; rows ascend.

    beam: of all rows, in the unit's tree and at its level.
    """
    from xpipe.trees._beam_numba import Beam, Level, Weights, score_level

    reaching, slots = _pairs(beam, unit.node)
    n_rows, n_children = len(beam.counts), unit.last_child - unit.first_child
    here = np.zeros(n_rows, dtype=np.int64)
    here[reaching] = 1
    paths = np.zeros((n_rows, 1), dtype=np.float32)
    paths[reaching, 0] = beam.scores[reaching, slots]
    only = np.array([0, n_children], dtype=np.int64)
    weights = Weights(
        np.array([0, len(learnt.features)], dtype=np.int64), learnt.features, learnt.feature_ptr, learnt.lanes,
        learnt.weights, only, learnt.biases,
    )  # fmt: skip
    weights = Weights(*map(read_only, weights))  # as `prediction` has them: kernels are compiled once
    candidates = np.empty((n_rows, n_children), dtype=np.float32)
    scratch = make_scratch(weights, n_features, int(np.diff(rows.indptr).max(initial=0)))
    level = Level(np.array([0, 1], dtype=np.int64), only)
    own = Beam(np.zeros((n_rows, 1), dtype=np.int32), paths, here)
    score_level(rows, 0, weights, level, loss == "logistic", own, n_children, scratch, candidates)
    found: np.ndarray = candidates[reaching]
    return found


def follow(
    plans: Sequence[TreePlan], level: int, beams: Sequence[Beam], scored: Iterable[ScoredUnit], width: int
) -> list[Beam]:
    """The beams of the next level. scored: all units of this level; width: nodes that are followed."""
    from xpipe.trees._beam_numba import Level, choose_nodes

    found = []
    for plan, beam, candidates in zip(plans, beams, _candidates(plans, level, beams, scored), strict=True):
        child_ptr, next_beam = plan.child_ptr(level), empty_beam(len(beam.counts), width)
        choose_nodes(Level(row_pointers(plan.units_of(level)), child_ptr), most(child_ptr), candidates, beam, next_beam)
        found.append(next_beam)
    return found


def best_labels(
    plans: Sequence[TreePlan], beams: Sequence[Beam], scored: Iterable[ScoredUnit], k: int, n_labels: int, width: int
) -> sp.csr_matrix:
    """CSR matrix of the k best labels of each row, as `predict_rows` gives it. scored: all units of the last level."""
    from xpipe.trees._best_numba import Best, Reached, choose_labels

    labels, leaves = leaves_of(plans)
    n_trees, n_rows, k = len(plans), len(beams[0].counts), min(k, len(labels))
    reached = Reached(
        nodes=np.zeros((n_trees, n_rows, width), dtype=np.int32),
        counts=np.stack([beam.counts for beam in beams]),
        scores=np.empty((n_trees, n_rows, width * int(leaves.strides.max())), dtype=np.float32),
    )
    last = plans[0].depth - 1
    for tree, candidates in enumerate(_candidates(plans, last, beams, scored)):
        reached.nodes[tree, :, : beams[tree].nodes.shape[1]] = beams[tree].nodes
        reached.scores[tree, :, : candidates.shape[1]] = candidates
    found = Best(
        np.empty((n_rows, k), dtype=np.float32), np.empty((n_rows, k), dtype=np.int32), np.zeros(n_rows, dtype=np.int64)
    )
    choose_labels(leaves, reached, make_label_scratch(leaves, labels, k), found)
    return to_csr(found, labels, n_labels)


def _pairs(beam: Beam, node: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, slots): the rows whose beams have a node, ascending, and where. A beam has no node twice."""
    inside = np.arange(beam.nodes.shape[1]) < beam.counts[:, None]
    rows, slots = np.nonzero((beam.nodes == node) & inside)
    return rows, slots


def _candidates(
    plans: Sequence[TreePlan], level: int, beams: Sequence[Beam], scored: Iterable[ScoredUnit]
) -> list[np.ndarray]:
    """For each tree, the scores of all children of the nodes in the beams, as `score_level` lays them out."""
    strides = [most(plan.child_ptr(level)) for plan in plans]
    found = [
        np.zeros((len(beam.counts), beam.nodes.shape[1] * stride), dtype=np.float32)
        for beam, stride in zip(beams, strides, strict=True)
    ]
    for tree, unit, scores in scored:
        rows, slots = _pairs(beams[tree], unit.node)
        columns = slots[:, None] * strides[tree] + np.arange(unit.first_child, unit.last_child)
        found[tree][rows[:, None], columns] = scores
    return found
