"""Groups of samples: who shares labels with whom. Each rule gives (Y1, Y2): membership and group_labels.

Y1 (samples x groups) and Y2 (groups x labels) are CSR of ones. Holds no embedding and no assignment.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, canonical, check_shapes, to_matrix, to_triple
from xpipe.grouping.clustering import balanced_partition


def random_groups(Y: sp.csr_matrix, size: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Groups of `size` random samples, every sample in exactly one; the last group takes the rest.

    Y: samples x labels. Raises ConfigError for a size below 1.
    """
    if size < 1:
        raise ConfigError(f"group size must be at least 1, got {size}")
    n_samples = Y.shape[0]
    order = permutation(n_samples, seed, "group")
    ids = np.empty(n_samples, dtype=np.int64)
    ids[order] = np.arange(n_samples) // size
    return given_groups(ids, Y)


def kmeans_groups(
    X: sp.csr_matrix, Y: sp.csr_matrix, depth: int, seed: int = 0, noise: float = 0.0, *, threads: int | None = None
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """2**depth groups of samples that look alike, every sample in exactly one; sizes differ by at most one sample.

    X: samples x features, whose rows count as unit vectors; Y: samples x labels. Balanced hierarchical spherical
    2-means, see `clustering.balanced_partition`. `noise` perturbs the features that are clustered (and only those): 0
    gives homogeneous groups, more than 10 random ones. The number of `threads` changes nothing. Raises ConfigError for
    more groups than samples or noise out of range, DataError where X and Y do not fit each other.
    """
    check_shapes(X, Y=Y)
    return given_groups(balanced_partition(X, depth=depth, seed=seed, noise=noise, threads=threads).leaf_of_row(), Y)


def given_groups(groups: np.ndarray | sp.spmatrix, Y: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Groups that are known: one id a sample (-1: in no group), or a membership matrix Y1 (samples x groups).

    A group carries every label that one of its samples has, whatever its weight. Raises DataError where the groups
    are not those of the samples, or ids are not whole numbers from -1 on.
    """
    if sp.issparse(groups):
        membership = binarised(canonical(groups, "membership (Y1)"))
    else:
        membership = membership_of_ids(np.asarray(groups))
    if membership.shape[0] != Y.shape[0]:
        raise DataError(
            "groups and labels do not fit each other",
            why=f"groups are given for {membership.shape[0]:,} samples, labels for {Y.shape[0]:,}",
            fix="give one group id, or one row of the membership matrix, for each row of the labels",
        )
    return membership, spread_labels(sp.csr_matrix(membership.T), canonical(Y, "labels"))


def membership_of_ids(ids: np.ndarray) -> sp.csr_matrix:
    """Y1 of one group id a sample; -1 means no group."""
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and len(ids)):
        raise DataError(
            f"group ids must be one whole number a sample, not an array of {ids.dtype} with shape {ids.shape}",
            fix="ids.astype(np.int64)",
        )
    if len(ids) and (ids.min() < -1 or ids.max() >= 2**31 - 1):
        wrong = int(np.argmax((ids < -1) | (ids >= 2**31 - 1)))
        raise DataError(
            f"group ids must be from 0 to {2**31 - 2:,}, or -1 for no group; got {int(ids[wrong])}",
            where=f"sample {wrong}",
            fix="number the groups from 0 on",
        )
    inside = ids >= 0
    indptr = np.concatenate([[0], np.cumsum(inside)]).astype(np.int64)
    n_groups = int(ids.max()) + 1 if inside.any() else 0
    ones = np.ones(int(indptr[-1]), dtype=np.float32)
    return to_matrix(Triple(indptr, ids[inside].astype(np.int32), ones), n_groups)


def spread_labels(membership: sp.csr_matrix, group_labels: sp.csr_matrix) -> sp.csr_matrix:
    """Every label of a sample's groups: Y1 @ Y2, binarised (the paper's Baseline)."""
    return binarised(sp.csr_matrix(_pattern(membership) @ _pattern(group_labels)))


def likeness(X: sp.csr_matrix, membership: sp.csr_matrix) -> float:
    """How alike two members of a group are: their mean correlation. About 0 for random groups, 1 for copies."""
    members = sp.csr_matrix(_pattern(membership).T, dtype=np.float64)
    sizes = np.diff(members.indptr)
    pairs = float((sizes * (sizes - 1.0)).sum())
    rows = sp.csr_matrix(X, dtype=np.float64)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    own = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() - 2 * (rows @ mean) + mean @ mean
    if pairs == 0 or own.sum() <= 0:
        return 0.0
    sums = sp.csr_matrix(members @ rows)
    squares = np.asarray(sums.multiply(sums).sum(axis=1)).ravel() - 2 * sizes * (sums @ mean) + sizes**2 * (mean @ mean)
    return float((squares.sum() - (members @ own).sum()) / pairs / own.mean())


def _pattern(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Ones where a matrix is not zero: weights in a product could cancel or vanish. Shares the indices."""
    return sp.csr_matrix(((matrix.data != 0).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def binarised(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The pattern of a matrix as ones, sorted, without the entries that are zero."""
    matrix = sp.csr_matrix(matrix, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    triple = to_triple(matrix)
    return to_matrix(triple._replace(values=np.ones(len(triple.values), dtype=np.float32)), matrix.shape[1])
