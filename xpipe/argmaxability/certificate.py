"""What a point and multipliers prove about a label set, in float64 with rounding accounted for, or exactly.

Knows nothing of solvers: it takes weights, label sets and certificates, and trusts none of them. `wellformed` decides
which certificates can be read at all; `exact_bounds` handles what float64 is too coarse for.

A point x inside the box with y_i (w_i.x + b_i) > 0 for all i proves that the signs y are possible, and that the radius
is at least min_i y_i (w_i.x + b_i) / ||w_i||. Multipliers m >= 0 prove, for any x in the box, that
radius * sum_i m_i ||w_i|| <= sum_i m_i y_i (w_i.x + b_i) <= box * || sum_i m_i y_i w_i ||_1 + sum_i m_i y_i b_i.

Rounding: a sum of k products in float64, in any order, fused or not, has an error of at most gamma(k) times the sum of
their magnitudes, gamma(k) = k u / (1 - k u), u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpipe.argmaxability import exact_bounds
from xpipe.argmaxability.evidence import RowsEvidence
from xpipe.argmaxability.exact_bounds import TINY
from xpipe.argmaxability.limits import are_limits
from xpipe.argmaxability.modes import fits_mode, is_question, make_question, sets_asked
from xpipe.argmaxability.output_layer import check_weights, row_norms
from xpipe.argmaxability.rounding import gamma
from xpipe.argmaxability.sets import check_sets
from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED, Verdicts
from xpipe.argmaxability.wellformed import check_columns, wellformed_sets
from xpipe.ground.sparse_rows import entries_of_rows

SCORES = 1 << 22  # scores held at once
REPORTED = 3.0  # `verify` reports bounds with three times the error, so that any other evaluation confirms them


def point_bounds(
    W: np.ndarray,
    bias: np.ndarray | None,
    norms: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    points: np.ndarray,
    box: float,
    caution: float = 1.0,
    floor: float = -1.0,
) -> np.ndarray:
    """The radius that each point proves for its set (float64 [n_sets]); 0 where it proves none or is outside the box.

    caution: factor of the rounding error that is allowed for. floor: the lowest input in box units.
    """
    n_labels, d = W.shape
    lower = np.zeros(len(points))
    inside = np.flatnonzero(((points <= box) & (points >= floor * box)).all(axis=1))  # NaN stands for no point
    shift = np.zeros(n_labels) if bias is None else np.abs(bias)
    real = norms > 0
    divisor = np.where(real, norms, 1.0)
    at_once = max(1, SCORES // max(n_labels, 1))
    for start in range(0, len(inside), at_once):
        part = inside[start : start + at_once]
        x = points[part]
        scores = x @ W.T
        if bias is not None:
            scores += bias
        margins = np.negative(scores, out=scores)
        for place, number in enumerate(part):
            margins[place, indices[indptr[number] : indptr[number + 1]]] *= -1
        # |score| / ||w|| <= ||x|| + |b| / ||w||; the error is relative to that: d products, the bias, norm and quotient
        reach = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None] + shift / divisor
        proved = margins / divisor - (caution * gamma(2 * d + 16) * reach + TINY)
        certain = margins[:, ~real].min(axis=1, initial=np.inf) > 0  # the score of a row of zeros is its bias, exactly
        least = proved[:, real].min(axis=1, initial=np.inf)
        lower[part] = np.where(certain & (least > 0), least, 0.0)
    return lower


def multiplier_bound(
    rows: np.ndarray,
    shifts: np.ndarray,
    norms: np.ndarray,
    signs: np.ndarray,
    multipliers: np.ndarray,
    box: float,
    caution: float = 1.0,
    floor: float = -1.0,
) -> float:
    """The largest radius that multipliers allow a set; 0: its signs are impossible; inf: they prove nothing.

    rows [m, d], shifts (biases), norms, signs: of the labels that the multipliers are for. floor: the lowest input in
    box units.
    """
    m, d = rows.shape
    if not m or not np.isfinite(multipliers).all() or (multipliers < 0).any() or not multipliers.any():
        return np.inf
    # any positive factor may be taken out; a power of two is exact
    multipliers = np.ldexp(multipliers, -np.frexp(multipliers.max())[1])
    levels = int(m - 1).bit_length()
    terms = np.zeros((1 << levels, d))
    terms[:m] = (signs * multipliers)[:, None] * rows
    lost = caution * gamma(levels + 6) * np.abs(terms).sum() * (1 + gamma(m * d)) + TINY
    while len(terms) > 1:  # sums in pairs: the error then grows with the logarithm of the number of rows
        terms = terms[0::2] + terms[1::2]
    reach = box * (np.maximum(terms, 0.0 if floor == 0 else -terms).sum() * (1 + gamma(d + 4)) + lost)
    reach += signs * multipliers @ shifts + caution * gamma(m + 8) * (multipliers @ np.abs(shifts) + reach)
    weight = multipliers @ norms
    if weight == 0:  # all rows are zero: their scores are their biases
        return 0.0 if (signs * shifts)[multipliers > 0].max() <= 0 else np.inf
    if reach <= 0:
        return 0.0
    return float(reach / weight * (1 + caution * gamma(m + d + 16)))


def bound_radii(
    W: np.ndarray,
    bias: np.ndarray | None,
    norms: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    verdicts: Verdicts,
    caution: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) radius of every set that its point and multipliers prove in float64; tails are ignored.

    The verdicts must be well-formed, and of mode sign.
    """
    floor = verdicts.question.floor
    lower = point_bounds(W, bias, norms, indptr, indices, verdicts.points, verdicts.box, caution, floor)
    upper = np.full(len(verdicts), np.inf)
    for number in range(len(verdicts)):
        labels, multipliers = verdicts.multipliers_of(number)
        signs = np.where(np.isin(labels, indices[indptr[number] : indptr[number + 1]]), 1.0, -1.0)
        shifts = np.zeros(len(labels)) if bias is None else bias[labels]
        upper[number] = multiplier_bound(
            W[labels], shifts, norms[labels], signs, multipliers, verdicts.box, caution, floor
        )
    return lower, upper


def bound_radii_exactly(
    W: np.ndarray,
    bias: np.ndarray | None,
    indptr: np.ndarray,
    indices: np.ndarray,
    verdicts: Verdicts,
    numbers: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) radius of the sets `numbers` that points and multipliers prove with tails; 0 and inf for others.

    Slow: in the worst case one product of large integers per weight. The verdicts must be well-formed, of mode sign.
    """
    floor = verdicts.question.floor
    lower, upper = np.zeros(len(verdicts)), np.full(len(verdicts), np.inf)
    for number in numbers:
        positive = np.zeros(len(W), dtype=bool)
        positive[indices[indptr[number] : indptr[number + 1]]] = True
        tail = None if verdicts.point_tails is None else verdicts.point_tails[number]
        lower[number] = exact_bounds.point_bound(W, bias, positive, verdicts.points[number], tail, verdicts.box, floor)
        labels, multipliers = verdicts.multipliers_of(number)
        part = slice(verdicts.multiplier_ptr[number], verdicts.multiplier_ptr[number + 1])
        tails = None if verdicts.multiplier_tails is None else verdicts.multiplier_tails[part]
        shifts = np.zeros(len(labels)) if bias is None else bias[labels]
        signs = np.where(positive[labels], 1.0, -1.0)
        upper[number] = exact_bounds.multiplier_bound(W[labels], shifts, signs, multipliers, tails, verdicts.box, floor)
    return lower, upper


@dataclasses.dataclass(frozen=True)
class SignEvidence:
    """Weights whose scores are compared with 0: the twin of `evidence.RowsEvidence`."""

    W: np.ndarray
    bias: np.ndarray | None
    norms: np.ndarray

    @classmethod
    def of(cls, W: Any, bias: Any) -> SignEvidence:
        """Checked weights. Raises DataError."""
        checked, shift = check_weights(W, bias)
        return cls(checked, shift, row_norms(checked))

    @property
    def n_labels(self) -> int:
        return len(self.W)

    @property
    def d(self) -> int:
        """The number of inputs."""
        return int(self.W.shape[1])

    def bounds(
        self, indptr: np.ndarray, indices: np.ndarray, verdicts: Verdicts, caution: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """`bound_radii` of these weights."""
        return bound_radii(self.W, self.bias, self.norms, indptr, indices, verdicts, caution)

    def bounds_exactly(
        self, indptr: np.ndarray, indices: np.ndarray, verdicts: Verdicts, numbers: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """`bound_radii_exactly` of these weights."""
        return bound_radii_exactly(self.W, self.bias, indptr, indices, verdicts, numbers)


def judge(lower: np.ndarray, upper: np.ndarray, eps: float) -> np.ndarray:
    """Status codes (int8) that the bounds decide: a radius above eps, below eps, or neither."""
    return np.where(upper < eps, UNARGMAXABLE, np.where(lower > eps, ARGMAXABLE, UNDECIDED)).astype(np.int8)


def check(W: Any, Y: Any, verdicts: Verdicts, bias: Any = None) -> np.ndarray:
    """Check whether each verdict follows from its certificate, independently of any solver.

    Checks the status and both bounds of the radius. An undecided verdict holds when its bounds hold.

    Parameters
    ----------
    W : array_like of float, shape (n_labels, d)
        The weights.
    Y : scipy sparse matrix, shape (n_sets, n_labels), or None
        The label sets of the verdicts, row by row. None in mode argmax: every label by itself.
    verdicts : Verdicts
        From `verify`, or from a file that anybody wrote. What is checked is the question that they name: `mode` and
        `inputs`.
    bias : array_like of float, shape (n_labels,), optional
        The biases, where the layer has them.

    Returns
    -------
    ndarray of bool, shape (n_sets,)
        Whether each verdict is proved. False for every malformed verdict: label numbers out of range or repeated,
        multipliers that are negative or not finite, offsets that decrease, an unknown status, bounds that are negative
        or contradict each other. False for all verdicts where `verify` would not take their mode, inputs, eps and box.

    Raises
    ------
    DataError
        If the columns have other lengths, dimensions or types than these weights and label sets need.

    Examples
    --------
    >>> import dataclasses
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import check, verify
    >>> W, Y = [[1.0], [-1.0]], sp.csr_matrix([[1, 0], [1, 1]])
    >>> verdicts = verify(W, Y)
    >>> check(W, Y, verdicts).tolist()
    [True, True]
    >>> forged = dataclasses.replace(verdicts, codes=1 - verdicts.codes)
    >>> check(W, Y, forged).tolist()
    [False, False]
    """
    question = make_question(verdicts.mode, verdicts.inputs) if is_question(verdicts.mode, verdicts.inputs) else None
    evidence = RowsEvidence.of(W, bias) if question and not question.of_signs else SignEvidence.of(W, bias)
    indptr, indices = check_sets(sets_asked(Y, evidence.n_labels, str(verdicts.mode)), evidence.n_labels)
    verdicts = check_columns(verdicts, len(indptr) - 1, evidence.d)
    holds = np.zeros(len(verdicts), dtype=bool)
    if question is None or not are_limits(verdicts.eps, verdicts.box):
        return holds
    good = np.flatnonzero(wellformed_sets(verdicts, evidence.n_labels) & fits_mode(indptr, question.mode))
    indptr, places = entries_of_rows(indptr, good)
    indices = indices[places]
    claims = verdicts.take(good)
    lower, upper = evidence.bounds(indptr, indices, claims)
    open_ones = np.flatnonzero(~_follow(claims, lower, upper))
    more = evidence.bounds_exactly(indptr, indices, claims, open_ones.tolist())
    lower, upper = np.maximum(lower, more[0]), np.minimum(upper, more[1])
    holds[good] = _follow(claims, lower, upper)
    return holds


def _follow(claims: Verdicts, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Whether the bounds prove each claim."""
    holds = (claims.radius_lower <= lower) & (claims.radius_upper >= upper)
    return np.asarray(holds & ((claims.codes == UNDECIDED) | (judge(lower, upper, claims.eps) == claims.codes)))
