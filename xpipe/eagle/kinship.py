"""What leaves the groups of samples out of their own scores, see `discriminative`.

Holds no rounds (`rounds`) and no labels.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _rounds_numba
from xpipe.eagle._rounds_numba import LARGE_GROUP, Kinship
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import MOST_OWN, Whitened
from xpipe.eagle.parts import in_parts, part_of
from xpipe.eagle.problem import columns_of
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import read_only

MOST_KINSHIP = 1 << 26  # entries (256 MiB) of what leaves groups out of their own scores
MOST_MEMBERS = 1024  # of a group that is left out: the work grows with the third power
LEFT_OUT_AT_ONCE = 1 << 20  # entries of groups that are inverted together


def kinship_of_groups(rows: Whitened, Y1: sp.csr_matrix, most_members: int | None, threads: int) -> Kinship:
    """What leaves the groups of a membership out of their own scores."""
    return kinship_of(rows, columns_of(Y1), most_members, threads)


def kinship_of(rows: Whitened, members: Lists, most_members: int | None, threads: int) -> Kinship:
    """What leaves groups of up to `most_members` out of their own scores."""
    sizes = np.diff(members.starts)
    areas = kinship_areas(sizes, most_members)
    starts = np.where(areas >= 0, np.cumsum(np.maximum(areas, 0)) - areas, -1)
    kinship = Kinship(starts, np.empty(int(np.maximum(areas, 0).sum()), np.float32))
    groups, same_members = np.arange(len(sizes)), Lists(*map(read_only, members))

    def work(part: slice) -> None:
        dense = np.zeros(rows.n_features, np.float32)
        _rounds_numba.measure_kinship(part_of(groups, part), same_members, rows, dense, kinship)
        for group in groups[part][(starts[part] >= 0) & (sizes[part] >= LARGE_GROUP)].tolist():
            along = rows.coordinates[members.items[members.starts[group] : members.starts[group + 1]]]
            kinship.values[starts[group] : starts[group] + sizes[group] ** 2] -= (along @ along.T).ravel()
        for size in np.unique(sizes[part][(starts[part] >= 0) & (sizes[part] > 0)]).tolist():
            same = starts[part][(sizes[part] == size) & (starts[part] >= 0)]
            for some in np.array_split(same, -(-len(same) * size**2 // LEFT_OUT_AT_ONCE)):
                places = some[:, None] + np.arange(size**2)
                kinship.values[places] = _leave_out(kinship.values[places].reshape(-1, size, size)).reshape(
                    len(some), -1
                )

    with one_thread_each():  # several BLAS threads would add in another order
        in_parts(work, threads)
    return kinship


def kinship_areas(sizes: np.ndarray, most_members: int | None = None) -> np.ndarray:
    """How many numbers leave each group out of its own scores, by the sizes of groups; -1: the group is too large."""
    most_members = largest_kinship(sizes) if most_members is None else most_members
    return np.where(sizes <= most_members, sizes**2, -1)


def _leave_out(shares: np.ndarray) -> np.ndarray:
    """(I - H)^-1 of each H [groups, size, size]; what a direction adds to itself is bounded."""
    values, vectors = np.linalg.eigh(shares.astype(np.float64))
    inverse: np.ndarray = (vectors / (1 - np.clip(values, 0, MOST_OWN))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return inverse.astype(np.float32)


def largest_kinship(sizes: np.ndarray) -> int:
    """The size of the largest groups that are left out of their own scores, when smaller groups come first."""
    by_size = np.sort(sizes[sizes > 0]).astype(np.int64)
    fits = (np.cumsum(by_size**2) <= MOST_KINSHIP) & (by_size <= MOST_MEMBERS)
    if fits.all():
        return int(by_size.max(initial=0))
    return int(by_size[~fits][0]) - 1
