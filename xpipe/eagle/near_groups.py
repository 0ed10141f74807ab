"""The groups near each group: where a label could be expected, and its absence tells most.

Holds no labels. A group is the mean of its rows about the mean of all, along the leading directions; near is a high
cosine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.spectrum import Spectrum, columns_of_features, rows_times
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.seeding import permutation

NEAR = 16  # groups near each group; on EURLEX57K in k-means groups, 4 are too few, and all groups are no better
DIRECTIONS = 128  # leading directions that groups are compared along
MOST_COMPARED = 1 << 13  # groups among which near ones are looked for: the work stays linear in the groups
ROWS_AT_ONCE = 1 << 14
GROUPS_AT_ONCE = 1 << 10


def near_groups(
    take_rows: Callable[[np.ndarray], sp.csr_matrix], Y1: sp.csr_matrix, spectrum: Spectrum, seed: int, threads: int = 1
) -> np.ndarray:
    """The numbers of the groups nearest to each group, int32 [n_groups, NEAR or fewer]; the nearest come first.

    take_rows gives the rows of samples. Each group must have samples. A group is not near itself.
    """
    centres = _centres(take_rows, Y1, spectrum, threads)
    n_groups = len(centres)
    compared = np.arange(n_groups)
    if n_groups > MOST_COMPARED:
        compared = np.sort(permutation(n_groups, seed, "groups near others")[:MOST_COMPARED])
    count = min(NEAR, len(compared) - 1)
    near = np.empty((n_groups, count), dtype=np.int32)
    with one_thread_each():  # several BLAS threads would add in another order
        for first in range(0, n_groups, GROUPS_AT_ONCE):
            inside = np.arange(first, min(first + GROUPS_AT_ONCE, n_groups))
            cosines = centres[inside] @ centres[compared].T
            cosines[compared[None, :] == inside[:, None]] = -np.inf
            near[inside] = compared[np.argsort(-cosines, axis=1, kind="stable")[:, :count]]
    return near


def _centres(
    take_rows: Callable[[np.ndarray], sp.csr_matrix], Y1: sp.csr_matrix, spectrum: Spectrum, threads: int
) -> np.ndarray:
    """The mean row of each group about the mean of all rows, along the leading directions, with length 1; float32."""
    directions = np.ascontiguousarray(spectrum.vectors[:, :DIRECTIONS])
    sums = np.zeros((Y1.shape[1], directions.shape[1]))
    for first in range(0, Y1.shape[0], ROWS_AT_ONCE):
        samples = np.arange(first, min(first + ROWS_AT_ONCE, Y1.shape[0]))
        sums += Y1[samples].T @ rows_times(
            columns_of_features(take_rows(samples), spectrum.features), directions, threads
        ).astype(np.float64)
    sizes = np.asarray(Y1.getnnz(axis=0))[:, None]
    with one_thread_each():
        of_mean = spectrum.mean[spectrum.features].astype(np.float64) @ directions
    centres = sums / np.maximum(sizes, 1) - of_mean
    lengths = np.sqrt((centres**2).sum(axis=1, keepdims=True))
    directed: np.ndarray = (centres / np.maximum(lengths, 1e-300)).astype(np.float32)
    return directed


def beside(near: np.ndarray, Y2: sp.csr_matrix) -> sp.csr_matrix:
    """Groups x labels: the groups that lack a label and are near a group that has it, as ones.

    near: numbers of groups; below 0: none.
    """
    n_groups = Y2.shape[0]
    groups, places = np.nonzero(near >= 0)
    of_group = sp.csr_matrix((np.ones(len(groups), np.float32), (near[groups, places], groups)), (n_groups, n_groups))
    reached = sp.csr_matrix(of_group @ Y2)
    reached.data[:] = 1
    lacking = sp.csr_matrix(reached - reached.multiply(Y2))
    lacking.eliminate_zeros()
    lacking.sort_indices()
    return lacking
