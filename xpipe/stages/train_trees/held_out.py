"""The rows that the calibration holds out, at a worker: scored level by level, a chunk of units at a time.

Holds no search (`trees.level_search`) and no map. The forest without a fold is never in one place: a task reads the
units of one chunk, and what all chunks of the levels above have scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished
from xpipe.ground.sparse import Triple, read_only
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.train_trees.messages import Chunk, ChunkToScore, ForestPlan, Trained, Training
from xpipe.stages.train_trees.planning import read_plans
from xpipe.stages.train_trees.stored_units import read_units, units_between
from xpipe.trees import TreePlan, hold_out
from xpipe.trees.level_search import ScoredUnit, best_labels, first_beams, follow, score_unit
from xpipe.trees.options import BEAM
from xpipe.trees.planning import Unit as PlannedUnit

if TYPE_CHECKING:
    from xpipe.trees._beam_numba import Beam

from xpipe.ground.calibration_map import TOP


def chunks_to_score(plan: ForestPlan, chunks: Sequence[Chunk], folds: int, level: int) -> list[ChunkToScore]:
    """The chunks with units of a level, once for each fold."""
    spans, first = [], 0
    for units in plan.units:
        starts = list(accumulate(units, initial=first))
        spans.append((starts[level], starts[level + 1]))
        first = starts[-1]
    sizes = {first: rows for first, _, rows, _ in plan.chunks}
    return [
        ChunkToScore(f"{chunk.name}-{fold}", sizes[chunk.first], chunk, fold, level)
        for fold in range(folds)
        for chunk in chunks
        if any(chunk.first < stop and start < chunk.last for start, stop in spans)
    ]


def score_chunk(folder: str, unit: ChunkToScore, shared: Trained) -> Finished[None]:
    """Score the rows of a fold in the units of a chunk at one level. Writes a matrix per unit."""
    from xpipe.trees._gather_numba import SparseRows

    data, options = shared.training.data(folder), shared.training.options()
    triple, scales = _rows_of(folder, shared.training, unit.fold)
    rows, beams = SparseRows(*map(read_only, (*triple, scales))), _beams_at(folder, shared, unit.fold, unit.level)
    own = _units_at(read_plans(folder), unit.chunk, unit.level)
    learnt = read_units(folder, [unit.chunk.name], 1 + unit.fold, only=own)
    arrays = {
        str(place): score_unit(rows, data.n_features, beams[plan.tree], planned, weights, options.loss)
        for (place, (plan, planned)), weights in zip(own.items(), learnt, strict=True)
    }
    return Finished((write_arrays(folder, _scores_path(unit.chunk, unit.fold, unit.level), arrays),), None)


def predicted(folder: str, shared: Trained, fold: int) -> sp.csr_matrix:
    """The scores of the best labels of a fold's rows, once all levels are scored."""
    plans = read_plans(folder)
    last = plans[0].depth - 1
    beams = _beams_at(folder, shared, fold, last)
    scored = _scored(folder, shared, plans, fold, last)
    return best_labels(plans, beams, scored, TOP, shared.training.data(folder).n_labels, BEAM)


def _scores_path(chunk: Chunk, fold: int, level: int) -> str:
    """Where the scores of a chunk's units at a level are."""
    return f"held_out/{fold}-{level}-{chunk.name}.npz"


@lru_cache(maxsize=2)
def _rows_of(folder: str, training: Training, fold: int) -> tuple[Triple, np.ndarray]:
    """(the rows of a fold, their factors)."""
    data = training.data(folder)
    rows = hold_out(data, training.options())[fold]
    return data.take(rows), data.scales[rows]


def _units_at(plans: Sequence[TreePlan], chunk: Chunk, level: int) -> dict[int, tuple[TreePlan, PlannedUnit]]:
    """The units of a chunk at a level, by their places in the chunk."""
    found = enumerate(units_between(plans, chunk.first, chunk.last))
    return {place: (plan, own) for place, (plan, own) in found if own.level == level}


def _scored(folder: str, shared: Trained, plans: Sequence[TreePlan], fold: int, level: int) -> Iterator[ScoredUnit]:
    """What all chunks have scored at a level."""
    for chunk in shared.chunks:
        own = _units_at(plans, chunk, level)
        arrays = read_arrays(folder, _scores_path(chunk, fold, level)) if own else {}
        for place, (plan, planned) in own.items():
            yield ScoredUnit(plan.tree, planned, arrays[str(place)])


@lru_cache(maxsize=2)
def _beams_at(folder: str, shared: Trained, fold: int, level: int) -> list[Beam]:
    """The beams of a fold's rows at a level, once all levels above it are scored."""
    plans = read_plans(folder)
    if level == 0:
        return first_beams(len(plans), _rows_of(folder, shared.training, fold)[0].n_rows)
    above = _beams_at(folder, shared, fold, level - 1)
    return follow(plans, level - 1, above, _scored(folder, shared, plans, fold, level - 1), BEAM)
