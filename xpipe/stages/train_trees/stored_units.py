"""Trained units in the folder of the stage: one file per chunk of units and fold of rows left out.

Holds no training and no model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from xpipe.engine.messages import FileEntry
from xpipe.ground import files
from xpipe.ground.npy_header import check_npz
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.train_trees.messages import Learnt
from xpipe.trees import TreePlan, UnitWeights
from xpipe.trees.forest import SIZED, UnitSizes
from xpipe.trees.planning import Unit as PlannedUnit


def units_between(plans: Sequence[TreePlan], first: int, last: int) -> list[tuple[TreePlan, PlannedUnit]]:
    """Units first to last - 1 of all trees, each with its plan."""
    return [(plan, own) for plan in plans for own in plan.units()][first:last]


def learnt_by(found: Sequence[tuple[UnitWeights, ...]]) -> Learnt:
    """How much some units have learnt from all rows."""
    sizes = [sum(len(getattr(unit[0], name)) for unit in found) for name in SIZED]
    return Learnt(len(found), *sizes)


def write_units(folder: str, name: str, found: list[tuple[UnitWeights, ...]]) -> tuple[FileEntry, ...]:
    """Write the weights of a chunk of units: a file with those of all rows, then one without each fold of rows."""
    entries = []
    for fold in range(len(found[0])):
        arrays = {
            f"{number}-{field}": array
            for number, weights in enumerate(found)
            for field, array in weights[fold]._asdict().items()
        }
        entries.append(write_arrays(folder, units_path(name, fold), arrays))
    return tuple(entries)


def units_path(chunk: str, fold: int) -> str:
    """Where the weights of a chunk of units are. fold: 0 for those of all rows."""
    return f"units/{chunk}-{fold}.npz"


def read_units(
    folder: str, chunks: Sequence[str], fold: int, only: Collection[int] | None = None
) -> Iterator[UnitWeights]:
    """The units of some chunks as they were trained without a fold. only: their places in the chunk; None: all."""
    for chunk in chunks:
        arrays = read_arrays(folder, units_path(chunk, fold))
        for number in range(len(arrays) // len(UnitWeights._fields)):
            if only is None or number in only:
                yield UnitWeights(*(arrays.pop(f"{number}-{name}") for name in UnitWeights._fields))


def sizes_of_units(folder: str, chunks: Sequence[str], fold: int) -> UnitSizes:
    """What these units have learnt, by the headers of their files."""
    sizes: list[list[int]] = []
    for chunk in chunks:
        headers = check_npz(files.join(folder, units_path(chunk, fold)))
        for number in range(len(headers) // len(UnitWeights._fields)):
            sizes.append([headers[f"{number}-{name}"].shape[0] for name in SIZED])
    return UnitSizes(*np.array(sizes, dtype=np.int64).reshape(-1, len(SIZED)).T.tolist())
