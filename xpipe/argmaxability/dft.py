"""DFT heads: their fixed matrix, which label sets it makes argmaxable, and explicit proofs of that.

Holds no LP: signs of a trigonometric polynomial in product form are known exactly, however small its values are. With
learned slack columns beside the matrix, `verify` gives the true radius.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.argmaxability.head import check_sets
from xpipe.errors import ConfigError, DataError

CLOSE = 1e-4  # of the size of an entry: cosines computed in float32 differ by less, learned columns by more


def dft_matrix(n: int, k: int) -> np.ndarray:
    """The fixed weights of a DFT head, n x (2k + 1), float64, with orthonormal columns and rows of one norm.

    Row i is [1 / sqrt(n), sqrt(2 / n) cos(t), sqrt(2 / n) sin(t), ..., sqrt(2 / n) cos(k t), sqrt(2 / n) sin(k t)] at
    t = 2 pi i / n. Every set of at most k labels is argmaxable. Raises ConfigError unless 0 <= k and 2k + 1 <= n.
    """
    check_size(n, k)
    turns = np.outer(np.arange(n), np.arange(1, k + 1)) % n  # whole turns taken off before rounding can see them
    angles = turns * (2 * np.pi / n)
    W = np.empty((n, 2 * k + 1))
    W[:, 0] = 1 / np.sqrt(n)
    W[:, 1::2] = np.sqrt(2 / n) * np.cos(angles)
    W[:, 2::2] = np.sqrt(2 / n) * np.sin(angles)
    return W


def find_dft_k(W: np.ndarray) -> int | None:
    """The largest k whose dft_matrix(n, k) the first 2k + 1 columns of W are, float32 or not; None where there is none.

    Columns after them are slack: with inputs of 0 there, every set with at most 2k sign changes stays argmaxable.
    """
    n, d = W.shape
    most = (min(n, d) - 1) // 2
    if most < 0:
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
    """How often membership changes along labels 0..n-1, for each label set of a CSR matrix (int64)."""
    n_labels = Y.shape[1]
    indptr, indices = check_sets(Y, n_labels)
    n_sets = len(indptr) - 1
    owner = np.repeat(np.arange(n_sets), np.diff(indptr))
    follows = np.zeros(len(indices), dtype=bool)  # the label before is in the set too
    follows[1:] = (np.diff(indices) == 1) & (np.diff(owner) == 0)
    runs = np.bincount(owner[~follows], minlength=n_sets)
    at_ends = np.bincount(owner, weights=(indices == 0).astype(float) + (indices == n_labels - 1), minlength=n_sets)
    return 2 * runs - at_ends.astype(np.int64)


def dft_argmaxable(Y: Any, k: int) -> np.ndarray:
    """Whether each label set is argmaxable with dft_matrix(n, k) (bool): if it has at most 2k sign changes."""
    check_size(Y.shape[1], k)
    return sign_changes(Y) <= 2 * k


@dataclasses.dataclass(frozen=True)
class DftCertificate:
    """The polynomial sign * prod_j sin((t - s_j) / 2), positive at exactly the labels of a set.

    Root s_j = 2 pi (roots[j] + 1/2) / n lies midway between labels roots[j] and roots[j] + 1.
    """

    n_labels: int
    k: int
    sign: int  # of label 0
    roots: np.ndarray  # int64, ascending, an even number, at most 2k
    point: np.ndarray  # float64 [2k + 1], the input, largest entry of size 1; its small scores drown in rounding
    log10_radius: float  # at least this, for inputs within the box

    def positive(self) -> np.ndarray:
        """The labels where the polynomial is positive, by counting roots: no rounding."""
        later = len(self.roots) - np.searchsorted(self.roots, np.arange(self.n_labels))
        return np.flatnonzero(self.sign * np.where(later % 2, -1, 1) > 0)


def dft_certificate(labels: Any, n: int, k: int, box: float = 1e4) -> DftCertificate | None:
    """Proof that a set of labels (numbers below n) is argmaxable with dft_matrix(n, k); None where it is not.

    The radius is what this polynomial gives, a lower bound of the largest one; its logarithm reaches far below what
    float64, and any LP, can represent.
    """
    check_size(n, k)
    member = np.zeros(n, dtype=bool)
    labels = np.asarray(labels, dtype=np.int64)
    if len(labels) and (labels.min() < 0 or labels.max() >= n):
        raise DataError(f"a label is outside 0..{n - 1}")
    member[labels] = True
    roots = np.flatnonzero(member != np.roll(member, -1))  # round the circle: always an even number
    if len(roots) > 2 * k:
        return None
    sine = np.log(np.sin(np.pi * (np.arange(n) + 0.5) / n))  # of the distance m + 1/2 between a label and a root
    logs = np.zeros(n)
    for root in roots:
        logs += np.roll(sine, root + 1)  # |sin| of -(m + 1/2) is that of n - m - 1/2
    values = np.where(member, 1.0, -1.0) * np.exp(logs - logs.max())
    spectrum = np.fft.rfft(values)[: k + 1]
    point = np.empty(2 * k + 1)
    point[0] = spectrum[0].real / np.sqrt(n)
    point[1::2] = np.sqrt(2 / n) * spectrum[1:].real
    point[2::2] = -np.sqrt(2 / n) * spectrum[1:].imag
    largest = np.abs(point).max()
    # box / largest scales the point to the box; every row of the matrix has the norm sqrt((2k + 1) / n)
    log_radius = np.log(box / largest) + logs.min() - logs.max() - 0.5 * np.log((2 * k + 1) / n)
    rounding = 1e-12 * (len(roots) + n)  # far more than the logarithms and the transform lose
    return DftCertificate(
        n, k, 1 if member[0] else -1, roots, point / largest, float((log_radius - rounding) / np.log(10))
    )
