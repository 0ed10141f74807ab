"""An output layer z = W x + bias: its checked weights, and what all label sets share.

Holds no reading of files (`weights`, `layer_files`), no label sets (`sets`), no search.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.errors import DataError

# Bounds on the largest weight of a row, and on the box: squares must neither underflow nor overflow.
SMALLEST, LARGEST = 1e-100, 1e100
FEW = 5  # row numbers named in an error message


@dataclasses.dataclass(frozen=True)
class OutputLayer:
    """An output layer z = W x + bias with its rows scaled to length 1.

    Made by `prepare_layer`. A label whose weights are all zero has a constant score; the other labels are called real.

    Attributes
    ----------
    W : ndarray of float64, shape (n_labels, d)
        The weights.
    bias : ndarray of float64, shape (n_labels,), or None
        The biases, None where the layer has none.
    norms : ndarray of float64, shape (n_labels,)
        L2 norm of each row of W.
    real : ndarray of int64, shape (n_real,)
        Labels whose row is not all zeros.
    place : ndarray of int64, shape (n_labels,)
        Position of each label in `real`; -1 for a row of zeros.
    directions : ndarray of float64, shape (n_real, d)
        Rows of the real labels, scaled to length 1.
    shifts : ndarray of float64, shape (n_real,)
        Bias divided by norm, for each real label.

    Examples
    --------
    >>> from xpipe.argmaxability import prepare_layer
    >>> layer = prepare_layer([[3.0, 4.0], [0.0, 0.0]])
    >>> layer.n_labels, layer.d
    (2, 2)
    >>> layer.directions.tolist(), layer.place.tolist()
    ([[0.6, 0.8]], [0, -1])
    """

    W: np.ndarray
    bias: np.ndarray | None
    norms: np.ndarray
    real: np.ndarray
    place: np.ndarray
    directions: np.ndarray
    shifts: np.ndarray

    @property
    def n_labels(self) -> int:
        return len(self.W)

    @property
    def d(self) -> int:
        """The number of inputs."""
        return int(self.W.shape[1])

    def directions_of(self, labels: np.ndarray) -> np.ndarray:
        """Rows of some labels, given by their position in `real`, scaled to length 1."""
        return np.asarray(self.directions[labels])

    def scores(self, points: np.ndarray) -> np.ndarray:
        """Scores of the real labels at some points, without bias, divided by their norms."""
        return np.asarray(points @ self.directions.T)


def prepare_layer(W: Any, bias: Any = None) -> OutputLayer:
    """Check the weights of an output layer and compute what all label sets share.

    Parameters
    ----------
    W : array_like of real numbers, shape (n_labels, d)
        One row per label, one column per input: `torch.nn.Linear.weight` as it is.
    bias : array_like of real numbers, shape (n_labels,), optional
        The biases; None where the layer has none.

    Returns
    -------
    OutputLayer

    Raises
    ------
    DataError
        If W or bias has a wrong shape or type, or numbers that are not finite or out of range.

    Examples
    --------
    >>> from xpipe.argmaxability import prepare_layer
    >>> layer = prepare_layer([[2.0, 0.0], [0.0, -1.0]], bias=[1.0, 0.0])
    >>> layer.norms.tolist(), layer.shifts.tolist()
    ([2.0, 1.0], [0.5, 0.0])
    """
    W, bias = check_weights(W, bias)
    norms = row_norms(W)
    real = np.flatnonzero(norms > 0)
    place = np.full(len(W), -1, dtype=np.int64)
    place[real] = np.arange(len(real))
    directions = np.ascontiguousarray(W[real] / norms[real, None])
    shifts = np.zeros(len(real)) if bias is None else bias[real] / norms[real]
    return OutputLayer(W, bias, norms, real, place, directions, shifts)


def row_norms(W: np.ndarray) -> np.ndarray:
    """L2 norms of the rows; their relative error is that of a sum of d products and a square root."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", W, W)))


def check_weights(W: Any, bias: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """(weights, bias) in float64. Raises DataError unless they are finite numbers of matching shapes."""
    W = np.asarray(W)
    if W.ndim != 2 or W.dtype.kind not in "fiu":
        raise DataError(
            f"weights must be a matrix of real numbers, not {W.dtype} with shape {W.shape}",
            fix="one row per label, one column per input: torch's Linear.weight as it is",
        )
    if not W.size:
        raise DataError(f"weights with shape {W.shape}", fix="a layer has at least one label and one input")
    W = np.ascontiguousarray(W, dtype=np.float64)
    _refuse_rows(~np.isfinite(W).all(axis=1), "weights that are not finite", "did the training diverge?")
    largest = np.abs(W).max(axis=1)
    _refuse_rows(
        (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST)),
        f"largest weights outside {SMALLEST:g}..{LARGEST:g}",
        "scale the row and its bias: signs and radii stay the same",
    )
    return W, None if bias is None else _check_bias(bias, largest)


def _check_bias(bias: Any, largest: np.ndarray) -> np.ndarray:
    """The bias in float64; largest: the largest weight of each row, in absolute value."""
    given = np.asarray(bias)
    if given.shape != largest.shape or given.dtype.kind not in "fiu":
        raise DataError(
            f"the bias must be {len(largest):,} real numbers, one per label, not {given.dtype} with shape {given.shape}"
        )
    checked: np.ndarray = given.astype(np.float64)
    _refuse_rows(~np.isfinite(checked), "a bias that is not finite", "did the training diverge?")
    with np.errstate(divide="ignore"):
        far = np.abs(checked) > LARGEST * np.where(largest > 0, np.maximum(largest, SMALLEST), 1.0)
    _refuse_rows(far, f"a bias above {LARGEST:g} times their weights", "leave these labels out")
    return checked


def _refuse_rows(bad: np.ndarray, what: str, fix: str) -> None:
    """Raise DataError that names the first bad rows, if there are any."""
    rows = np.flatnonzero(bad)
    if len(rows):
        named = ", ".join(map(str, rows[:FEW])) + (", ..." if len(rows) > FEW else "")
        raise DataError(f"{len(rows):,} labels have {what}", where=f"weights, rows {named}", fix=fix)
