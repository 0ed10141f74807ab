"""DFT layers: their fixed matrix, which label sets it makes argmaxable, and explicit proofs of that.

Holds no LP: the signs of a trigonometric polynomial in product form are known exactly, however small its values are.
For layers with learned slack columns beside the matrix, `verify` gives the true radius.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.argmaxability.options import BOX
from xpipe.argmaxability.sets import check_sets
from xpipe.errors import ConfigError, DataError
from xpipe.ground.sparse_rows import entry_rows

CLOSE = 1e-4  # relative to the size of an entry: cosines in float32 differ by less, learned columns by more


def dft_matrix(n: int, k: int) -> np.ndarray:
    """Make the fixed weights of a DFT layer, which make every set of at most k labels argmaxable.

    Row i is [1 / sqrt(n), sqrt(2 / n) cos(t), sqrt(2 / n) sin(t), ..., sqrt(2 / n) cos(k t), sqrt(2 / n) sin(k t)] at
    t = 2 pi i / n.

    Parameters
    ----------
    n : int
        The number of labels.
    k : int
        The largest label set that must be argmaxable.

    Returns
    -------
    ndarray of float64, shape (n, 2k + 1)
        Columns are orthonormal; all rows have the same norm.

    Raises
    ------
    ConfigError
        Unless 0 <= k and 2k + 1 <= n.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.argmaxability import dft_matrix
    >>> W = dft_matrix(8, 2)
    >>> W.shape, bool(np.allclose(W.T @ W, np.eye(5)))
    ((8, 5), True)
    """
    check_size(n, k)
    turns = np.outer(np.arange(n), np.arange(1, k + 1)) % n  # whole turns are removed before rounding
    angles = turns * (2 * np.pi / n)
    W = np.empty((n, 2 * k + 1))
    W[:, 0] = 1 / np.sqrt(n)
    W[:, 1::2] = np.sqrt(2 / n) * np.cos(angles)
    W[:, 2::2] = np.sqrt(2 / n) * np.sin(angles)
    return W


def find_dft_k(W: np.ndarray) -> int | None:
    """Find the DFT matrix that weights begin with.

    Parameters
    ----------
    W : ndarray of float, shape (n, d)
        The weights of an output layer. Columns after the DFT matrix are slack: with inputs of 0 there, every set with
        at most 2k sign changes stays argmaxable.

    Returns
    -------
    int or None
        The largest k for which the first 2k + 1 columns are `dft_matrix(n, k)`, to the precision of float32; None
        where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.argmaxability import dft_matrix, find_dft_k
    >>> find_dft_k(np.hstack([dft_matrix(8, 2), np.ones((8, 3))])), find_dft_k(np.ones((8, 3)))
    (2, None)
    """
    n, d = W.shape
    most = (min(n, d) - 1) // 2
    if most < 0 or np.abs(W[:, 0] - 1 / np.sqrt(n)).max() > CLOSE * np.sqrt(2 / n):  # before a matrix is made
        return None
    same = np.abs(W[:, : 2 * most + 1] - dft_matrix(n, most)).max(axis=0) <= CLOSE * np.sqrt(2 / n)
    first_other = 2 * most + 1 if same.all() else int(same.argmin())
    return (first_other - 1) // 2 if first_other else None


def check_size(n: int, k: int) -> None:
    """Raises ConfigError unless 0 <= k and 2k + 1 <= n."""
    if k < 0 or 2 * k + 1 > n:
        raise ConfigError(
            f"`k` must be between 0 and (n - 1) / 2, got k={k} for n={n} labels",
            why="the matrix has 2k + 1 independent columns",
        )


def sign_changes(Y: Any) -> np.ndarray:
    """Count how often membership changes along the labels 0..n-1, for each label set.

    Parameters
    ----------
    Y : scipy sparse matrix, shape (n_sets, n_labels)
        One label set per row.

    Returns
    -------
    ndarray of int64, shape (n_sets,)

    Raises
    ------
    DataError
        If Y is not a sparse matrix of label sets.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import sign_changes
    >>> sign_changes(sp.csr_matrix([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]])).tolist()
    [1, 3, 0]
    """
    n_labels = Y.shape[1]
    indptr, indices = check_sets(Y, n_labels)
    n_sets = len(indptr) - 1
    owner = entry_rows(indptr)
    follows = np.zeros(len(indices), dtype=bool)  # whether the preceding label is in the set too
    follows[1:] = (np.diff(indices) == 1) & (np.diff(owner) == 0)
    runs = np.bincount(owner[~follows], minlength=n_sets)
    at_ends = np.bincount(owner, weights=(indices == 0).astype(float) + (indices == n_labels - 1), minlength=n_sets)
    return 2 * runs - at_ends.astype(np.int64)


def dft_argmaxable(Y: Any, k: int) -> np.ndarray:
    """Decide which label sets `dft_matrix(n_labels, k)` makes argmaxable: those with at most 2k sign changes.

    Parameters
    ----------
    Y : scipy sparse matrix, shape (n_sets, n_labels)
        One label set per row.
    k : int
        As in `dft_matrix`.

    Returns
    -------
    ndarray of bool, shape (n_sets,)

    Raises
    ------
    ConfigError
        Unless 0 <= k and 2k + 1 <= n_labels.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import dft_argmaxable
    >>> dft_argmaxable(sp.csr_matrix([[1, 1, 0, 0], [0, 1, 0, 1]]), k=1).tolist()
    [True, False]
    """
    check_size(Y.shape[1], k)
    return sign_changes(Y) <= 2 * k


@dataclasses.dataclass(frozen=True)
class DftCertificate:
    """The polynomial sign * prod_j sin((t - s_j) / 2), positive at exactly the labels of a set.

    Root s_j = 2 pi (roots[j] + 1/2) / n lies midway between labels roots[j] and roots[j] + 1.

    Attributes
    ----------
    n_labels, k : int
        Of the DFT matrix.
    sign : int
        The sign at label 0, 1 or -1.
    roots : ndarray of int64
        Ascending; an even number of them, at most 2k.
    point : ndarray of float64, shape (2k + 1,)
        The input that the polynomial stands for, scaled so that its largest entry has size 1. Rounding may spoil the
        smallest scores of this input, never the roots.
    log10_radius : float
        A lower bound of log10 of the radius, for inputs within the box.

    Examples
    --------
    >>> from xpipe.argmaxability import dft_certificate
    >>> proof = dft_certificate([2, 3], n=8, k=1)
    >>> proof.roots.tolist(), proof.positive().tolist()
    ([1, 3], [2, 3])
    """

    n_labels: int
    k: int
    sign: int
    roots: np.ndarray
    point: np.ndarray
    log10_radius: float

    def positive(self) -> np.ndarray:
        """The labels where the polynomial is positive, found by counting roots, without rounding."""
        later = len(self.roots) - np.searchsorted(self.roots, np.arange(self.n_labels))
        return np.flatnonzero(self.sign * np.where(later % 2, -1, 1) > 0)


def dft_certificate(labels: Any, n: int, k: int, box: float = BOX) -> DftCertificate | None:
    """Prove that a label set is argmaxable with `dft_matrix(n, k)`.

    Parameters
    ----------
    labels : array_like of int
        The labels of the set, numbers below n.
    n, k : int
        As in `dft_matrix`.
    box : float, default 1e4
        Inputs are taken from [-box, box]^(2k + 1).

    Returns
    -------
    DftCertificate or None
        None where the set is not argmaxable. The radius is the one of this polynomial, a lower bound of the largest
        one. Its logarithm can be far below what float64, and so any LP solver, can represent.

    Raises
    ------
    ConfigError
        Unless 0 <= k and 2k + 1 <= n.
    DataError
        If a label is outside 0..n - 1.

    Examples
    --------
    >>> from xpipe.argmaxability import dft_certificate
    >>> dft_certificate([0, 2], n=8, k=1) is None  # four sign changes around the circle
    True
    >>> dft_certificate([0, 2], n=8, k=2).positive().tolist()
    [0, 2]
    """
    check_size(n, k)
    member = np.zeros(n, dtype=bool)
    labels = np.asarray(labels, dtype=np.int64)
    if len(labels) and (labels.min() < 0 or labels.max() >= n):
        raise DataError(f"a label is outside 0..{n - 1}")
    member[labels] = True
    roots = np.flatnonzero(member != np.roll(member, -1))  # around the circle, so always an even number
    if len(roots) > 2 * k:
        return None
    sine = np.log(np.sin(np.pi * (np.arange(n) + 0.5) / n))  # for the distance m + 1/2 between a label and a root
    logs = np.zeros(n)
    for root in roots:
        logs += np.roll(sine, root + 1)  # |sin| at -(m + 1/2) is that at n - m - 1/2
    values = np.where(member, 1.0, -1.0) * np.exp(logs - logs.max())
    spectrum = np.fft.rfft(values)[: k + 1]
    point = np.empty(2 * k + 1)
    point[0] = spectrum[0].real / np.sqrt(n)
    point[1::2] = np.sqrt(2 / n) * spectrum[1:].real
    point[2::2] = -np.sqrt(2 / n) * spectrum[1:].imag
    largest = np.abs(point).max()
    # box / largest scales the point to the box; every row of the matrix has the norm sqrt((2k + 1) / n)
    log_radius = np.log(box / largest) + logs.min() - logs.max() - 0.5 * np.log((2 * k + 1) / n)
    rounding = 1e-12 * (len(roots) + n)  # far above the error of the logarithms and the transform
    return DftCertificate(
        n, k, 1 if member[0] else -1, roots, point / largest, float((log_radius - rounding) / np.log(10))
    )
