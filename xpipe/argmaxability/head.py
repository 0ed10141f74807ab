"""Weights and label sets, checked; and what every label set of a head shares.

Holds no solving and no judging.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.sparse import canonical

SMALLEST, LARGEST = 1e-100, 1e100  # of a row's largest weight, and of the box: squares must not vanish nor overflow
FEW = 5  # numbers named in a message


@dataclasses.dataclass(frozen=True)
class Head:
    """An output layer z = W x + bias, and its rows scaled to length 1."""

    W: np.ndarray  # float64 [n_labels, d]
    bias: np.ndarray | None  # float64 [n_labels]
    norms: np.ndarray  # float64 [n_labels]
    real: np.ndarray  # int64, the labels whose row is not all zeros
    place: np.ndarray  # int64 [n_labels], the place of a label in `real`; -1 for a row of zeros
    directions: np.ndarray  # float64 [len(real), d], rows of length 1
    shifts: np.ndarray  # float64 [len(real)], bias over norm

    @property
    def n_labels(self) -> int:
        return len(self.W)

    @property
    def d(self) -> int:
        return self.W.shape[1]


def state_head(W: Any, bias: Any = None) -> Head:
    """A head from its weights (n_labels x d) and bias (n_labels, or None). Raises DataError where they are wrong."""
    W, bias = check_weights(W, bias)
    norms = np.sqrt(np.einsum("ij,ij->i", W, W))
    real = np.flatnonzero(norms > 0)
    place = np.full(len(W), -1, dtype=np.int64)
    place[real] = np.arange(len(real))
    directions = np.ascontiguousarray(W[real] / norms[real, None])
    shifts = np.zeros(len(real)) if bias is None else bias[real] / norms[real]
    return Head(W, bias, norms, real, place, directions, shifts)


def check_weights(W: Any, bias: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """(weights, bias) in float64. Raises DataError unless they are finite numbers of fitting shapes."""
    W = np.asarray(W)
    if W.ndim != 2 or W.dtype.kind not in "fiu":
        raise DataError(
            f"weights must be a matrix of real numbers, not {W.dtype} with shape {W.shape}",
            fix="one row a label, one column an input: torch's Linear.weight as it is",
        )
    n_labels, d = W.shape
    if not n_labels or not d:
        raise DataError(f"weights with shape {W.shape}", fix="a head has at least one label and one input")
    W = np.ascontiguousarray(W, dtype=np.float64)
    _refuse_rows(~np.isfinite(W).all(axis=1), "weights that are not finite", "was the training diverging?")
    largest = np.abs(W).max(axis=1)
    _refuse_rows(
        (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST)),
        f"largest weights outside {SMALLEST:g}..{LARGEST:g}",
        "scale the row and its bias: signs and radii stay the same",
    )
    if bias is None:
        return W, None
    bias = np.asarray(bias)
    if bias.shape != (n_labels,) or bias.dtype.kind not in "fiu":
        raise DataError(
            f"the bias must be {n_labels:,} real numbers, one a label, not {bias.dtype} with shape {bias.shape}"
        )
    bias = bias.astype(np.float64)
    _refuse_rows(~np.isfinite(bias), "a bias that is not finite", "was the training diverging?")
    with np.errstate(divide="ignore"):
        far = np.abs(bias) > LARGEST * np.where(largest > 0, np.maximum(largest, SMALLEST), 1.0)
    _refuse_rows(far, f"a bias above {LARGEST:g} times their weights", "leave these labels out")
    return W, bias


def _refuse_rows(bad: np.ndarray, what: str, fix: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        named = ", ".join(map(str, rows[:FEW])) + (", ..." if len(rows) > FEW else "")
        raise DataError(f"{len(rows):,} labels have {what}", where=f"weights, rows {named}", fix=fix)


def check_sets(Y: Any, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, indices) of label sets, int64. Raises DataError unless Y is a sparse matrix with a column a label."""
    Y = canonical(Y, "label sets")
    if Y.shape[1] != n_labels:
        raise DataError(
            f"label sets of {Y.shape[1]:,} labels, but weights of {n_labels:,}",
            why="column i of the label sets and row i of the weights must be the same label",
            fix="check that both come from the same dataset, and that the weights are not transposed",
        )
    if len(Y.data) and Y.data.min() < 0:
        raise DataError("label sets have negative entries", fix="1 for the labels of a set, nothing for the others")
    if len(Y.data) and not Y.data.all():
        Y.eliminate_zeros()
    return Y.indptr.astype(np.int64), Y.indices.astype(np.int64)


def distinct_sets(Y: Any, n_labels: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """(each label set once, in the order of first appearance; which of them each row of Y is, int64)."""
    indptr, indices = check_sets(Y, n_labels)
    seen: dict[bytes, int] = {}
    member = np.empty(len(indptr) - 1, dtype=np.int64)
    first: list[int] = []
    for row in range(len(member)):
        key = indices[indptr[row] : indptr[row + 1]].tobytes()
        number = seen.setdefault(key, len(seen))
        if number == len(first):
            first.append(row)
        member[row] = number
    lengths = np.diff(indptr)[first]
    pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(indptr[first] - pointer[:-1], lengths) + np.arange(pointer[-1])
    kept = indices[places]
    return sp.csr_matrix((np.ones(len(kept), np.float32), kept, pointer), shape=(len(first), n_labels)), member


def check_limits(eps: float, box: float) -> None:
    """Raise ConfigError unless both are positive numbers that make sense together."""
    for name, value in (("eps", eps), ("box", box)):
        if not _is_positive(value):
            raise ConfigError(f"`{name}` must be a finite number above 0, got {value}")
    if eps > 1:
        raise ConfigError(f"`eps` must be at most 1, got {eps}", why="a radius of 1 is settled in any case")
    if not SMALLEST <= box <= LARGEST:
        raise ConfigError(f"`box` must be within {SMALLEST:g}..{LARGEST:g}, got {box}", fix="leave it out: 1e4")


def _is_positive(value: object) -> bool:
    """Whether it is a finite number above 0: no text, no array, no NaN."""
    return isinstance(value, int | float | np.integer | np.floating) and bool(0 < value < np.inf)


def are_limits(eps: object, box: object) -> bool:
    """Whether `verify` takes both."""
    try:
        check_limits(eps, box)  # type: ignore[arg-type]
    except ConfigError:
        return False
    return True
