"""Groups of samples: who shares labels with whom. Each rule gives (Y1, Y2): membership and group_labels.

Y1 (samples x groups) and Y2 (groups x labels) are CSR of ones. Holds no embedding and no assignment.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, canonical, check_shapes, to_matrix
from xpipe.ground.sparse_rows import binarised, row_pointers
from xpipe.grouping.clustering import balanced_partition

__all__ = [
    "binarised",
    "given_groups",
    "kmeans_groups",
    "likeness",
    "membership_of_ids",
    "random_groups",
    "spread_labels",
]


def random_groups(Y: sp.csr_matrix, size: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Groups of random samples, every sample in exactly one group.

    Parameters
    ----------
    Y : scipy.sparse.csr_matrix of shape (n_samples, n_labels)
        Labels; entries that are not 0 count.
    size : int
        Samples per group; the last group takes the rest.
    seed : int
        Decides which samples are together.

    Returns
    -------
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership, ones.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group, ones: every label that one of its samples has.

    Raises
    ------
    ConfigError
        The size is below 1.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.grouping import random_groups
    >>> Y1, Y2 = random_groups(sp.eye(10, format="csr"), size=4, seed=0)
    >>> Y1.indices.tolist()
    [1, 0, 2, 1, 1, 0, 0, 2, 1, 0]
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
    """2**depth groups of samples with similar features, every sample in exactly one group.

    The groups are the leaves of balanced hierarchical spherical 2-means (`balanced_partition`). Their sizes differ by
    at most one sample.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Features; rows count as unit vectors.
    Y : scipy.sparse.csr_matrix of shape (n_samples, n_labels)
        Labels; entries that are not 0 count.
    depth : int
        How often the samples are halved.
    seed : int
        Decides all randomness.
    noise : float
        Perturbs the features that are clustered, and only those: 0 gives homogeneous groups, more than 10 random ones.
    threads : int, optional
        By default one per usable core. It changes nothing in the result.

    Returns
    -------
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, 2**depth)
        Membership, ones.
    Y2 : scipy.sparse.csr_matrix of shape (2**depth, n_labels)
        The labels of each group, ones.

    Raises
    ------
    ConfigError
        There are more groups than samples, or the noise is out of range.
    DataError
        X and Y do not fit each other.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import kmeans_groups
    >>> X = sp.csr_matrix(np.repeat(np.eye(2, dtype=np.float32), 3, axis=0))
    >>> Y1, Y2 = kmeans_groups(X, X, depth=1)
    >>> len(set(Y1.indices[:3].tolist())), len(set(Y1.indices[3:].tolist()))
    (1, 1)
    """
    check_shapes(X, Y=Y)
    return given_groups(balanced_partition(X, depth=depth, seed=seed, noise=noise, threads=threads).leaf_of_row(), Y)


def given_groups(groups: np.ndarray | sp.spmatrix, Y: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Groups that are known already.

    Parameters
    ----------
    groups : numpy.ndarray of shape (n_samples,), or scipy sparse matrix of shape (n_samples, n_groups)
        One group id per sample, -1 for a sample in no group; or the membership Y1, whose entries that are not 0 count.
    Y : scipy.sparse.csr_matrix of shape (n_samples, n_labels)
        Labels; entries that are not 0 count, whatever their values.

    Returns
    -------
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership, ones.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group, ones: every label that one of its samples has.

    Raises
    ------
    DataError
        The groups are not those of these samples, or the ids are not whole numbers from -1 on.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import given_groups
    >>> Y1, Y2 = given_groups(np.array([0, 1, 0, -1]), sp.eye(4, format="csr"))
    >>> Y2.toarray().astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 0, 0]]
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


def membership_of_ids(ids: np.ndarray, n_groups: int | None = None) -> sp.csr_matrix:
    """Membership (Y1) of one group id per sample.

    Parameters
    ----------
    ids : numpy.ndarray of shape (n_samples,)
        Whole numbers: group ids from 0 on, or -1 for a sample in no group.
    n_groups : int, optional
        The number of groups, by default one more than the largest id.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Ones, at most one per row.

    Raises
    ------
    DataError
        The ids are not whole numbers from -1 to the number of groups - 1, or not one per sample.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.grouping import membership_of_ids
    >>> membership_of_ids(np.array([1, -1, 0])).toarray().astype(int).tolist()
    [[0, 1], [0, 0], [1, 0]]
    """
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and len(ids)):
        raise DataError(
            f"group ids must be one whole number per sample, not an array of {ids.dtype} with shape {ids.shape}",
            fix="ids.astype(np.int64)",
        )
    end = 2**31 - 1 if n_groups is None else n_groups
    if len(ids) and (ids.min() < -1 or ids.max() >= end):
        wrong = int(np.argmax((ids < -1) | (ids >= end)))
        raise DataError(
            f"group ids must be from 0 to {end - 1:,}, or -1 for no group; got {int(ids[wrong])}",
            where=f"sample {wrong}",
            fix="number the groups from 0 on",
        )
    inside = ids >= 0
    found = int(ids.max()) + 1 if inside.any() else 0
    indices = ids[inside].astype(np.int32)
    members = Triple(row_pointers(inside), indices, np.ones(len(indices), dtype=np.float32))
    return to_matrix(members, found if n_groups is None else n_groups)


def spread_labels(membership: sp.csr_matrix, group_labels: sp.csr_matrix) -> sp.csr_matrix:
    """Every label of every group that a sample is in: Y1 @ Y2 as ones (the paper's Baseline).

    Parameters
    ----------
    membership : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Y1; entries that are not 0 count.
    group_labels : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        Y2; entries that are not 0 count.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_labels)
        Ones.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import membership_of_ids, spread_labels
    >>> Y2 = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 1]], dtype=np.float32))
    >>> spread_labels(membership_of_ids(np.array([0, 1, 0])), Y2).toarray().astype(int).tolist()
    [[1, 1, 0], [0, 0, 1], [1, 1, 0]]
    """
    return binarised(sp.csr_matrix(_pattern(membership) @ _pattern(group_labels)))


def likeness(X: sp.csr_matrix, membership: sp.csr_matrix) -> float:
    """The mean correlation between the features of two members of a group.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Features.
    membership : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Y1; entries that are not 0 count.

    Returns
    -------
    float
        About 0 for random groups, 1 for groups of copies; 0 where no two samples share a group.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import likeness, membership_of_ids
    >>> X = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    >>> round(likeness(X, membership_of_ids(np.array([0, 0, 1, 1]))), 6)
    1.0
    """
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
    """1 where a stored entry is not 0, else 0: values in a product could cancel or vanish. Shares the indices."""
    return sp.csr_matrix(((matrix.data != 0).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
