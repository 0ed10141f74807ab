"""What a point and multipliers prove about a label set, in float64 with rounding accounted for, or exactly.

Knows nothing of solvers: it takes weights, label sets and certificates, and trusts none of them. Which certificates are
well-formed at all is in `wellformed`; what float64 is too coarse for goes to `exact_bounds`.

A point x inside the box with y_i (w_i.x + b_i) > 0 for all i shows that the signs y can be had, and that the radius is
at least min_i y_i (w_i.x + b_i) / ||w_i||. Multipliers m >= 0 show, for any x in the box, that
radius * sum_i m_i ||w_i|| <= sum_i m_i y_i (w_i.x + b_i) <= box * || sum_i m_i y_i w_i ||_1 + sum_i m_i y_i b_i.

Rounding: a sum of k products in float64, in any order, fused or not, is off by at most gamma(k) times the sum of their
magnitudes, gamma(k) = k u / (1 - k u), u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import exact_bounds
from xpipe.argmaxability.head import are_limits, check_sets, check_weights
from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED, Verdicts
from xpipe.argmaxability.wellformed import check_columns, wellformed_rows

TINY = 1e-200  # more than all products lost to underflow: weights are within 1e-100..1e100
SCORES = 1 << 22  # scores held at once
REPORTED = 3.0  # verify reports bounds with three times the error, so that any other evaluation confirms them


def gamma(k: int) -> float:
    return k * 2.0**-53 / (1 - k * 2.0**-53)


def row_norms(W: np.ndarray) -> np.ndarray:
    """L2 norms, off by a factor of at most 1 + gamma(d + 2)."""
    return np.sqrt(np.einsum("ij,ij->i", W, W))


def point_bounds(
    W: np.ndarray,
    bias: np.ndarray | None,
    norms: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    points: np.ndarray,
    box: float,
    caution: float = 1.0,
) -> np.ndarray:
    """The radius each point proves for its set (float64 [n_sets]); 0 where it proves no signs or is not in the box."""
    n_labels, d = W.shape
    lower = np.zeros(len(points))
    inside = np.flatnonzero((np.abs(points) <= box).all(axis=1))  # NaN, no point, is not
    shift = np.zeros(n_labels) if bias is None else np.abs(bias)
    real = norms > 0
    divisor = np.where(real, norms, 1.0)
    step = max(1, SCORES // max(n_labels, 1))
    for start in range(0, len(inside), step):
        part = inside[start : start + step]
        x = points[part]
        scores = x @ W.T
        if bias is not None:
            scores += bias
        margins = np.negative(scores, out=scores)
        for place, row in enumerate(part):
            margins[place, indices[indptr[row] : indptr[row + 1]]] *= -1
        # |score| and its error are at most (||x|| + |b| / ||w||) ||w||: d products and the bias, the norm, the quotient
        reach = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None] + shift / divisor
        proved = margins / divisor - (caution * gamma(2 * d + 16) * reach + TINY)
        certain = margins[:, ~real].min(axis=1, initial=np.inf) > 0  # a row of zeros scores its bias, exactly
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
) -> float:
    """The largest radius that multipliers leave to a set; 0: its signs cannot be had; inf: they prove nothing.

    rows [m, d], shifts (biases), norms, signs: of the labels that the multipliers are for.
    """
    m, d = rows.shape
    if not m or not np.isfinite(multipliers).all() or (multipliers < 0).any() or not multipliers.any():
        return np.inf
    multipliers = np.ldexp(
        multipliers, -np.frexp(multipliers.max())[1]
    )  # any positive factor will do; this one is exact
    levels = int(m - 1).bit_length()
    terms = np.zeros((1 << levels, d))
    terms[:m] = (signs * multipliers)[:, None] * rows
    lost = caution * gamma(levels + 6) * np.abs(terms).sum() * (1 + gamma(m * d)) + TINY
    while len(terms) > 1:  # in pairs: the error then grows with the logarithm of the number of rows
        terms = terms[0::2] + terms[1::2]
    reach = box * (np.abs(terms).sum() * (1 + gamma(d + 4)) + lost)
    reach += signs * multipliers @ shifts + caution * gamma(m + 8) * (multipliers @ np.abs(shifts) + reach)
    weight = multipliers @ norms
    if weight == 0:  # rows of zeros, whose scores are their biases
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
    """(lower, upper) radius of every set, as its point and multipliers prove them in float64. Tails are not read.

    The verdicts are well-formed: label numbers in range.
    """
    lower = point_bounds(W, bias, norms, indptr, indices, verdicts.points, verdicts.box, caution)
    upper = np.full(len(verdicts), np.inf)
    for row in range(len(verdicts)):
        labels, multipliers = verdicts.multipliers_of(row)
        signs = np.where(np.isin(labels, indices[indptr[row] : indptr[row + 1]]), 1.0, -1.0)
        shifts = np.zeros(len(labels)) if bias is None else bias[labels]
        upper[row] = multiplier_bound(W[labels], shifts, norms[labels], signs, multipliers, verdicts.box, caution)
    return lower, upper


def bound_radii_exactly(
    W: np.ndarray,
    bias: np.ndarray | None,
    indptr: np.ndarray,
    indices: np.ndarray,
    verdicts: Verdicts,
    rows: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) radius of some sets, as their points and multipliers prove them with tails; 0 and inf for others.

    Slow: a worst case is a whole-number product for each weight. The verdicts are well-formed.
    """
    lower, upper = np.zeros(len(verdicts)), np.full(len(verdicts), np.inf)
    for row in rows:
        positive = np.zeros(len(W), dtype=bool)
        positive[indices[indptr[row] : indptr[row + 1]]] = True
        tail = None if verdicts.point_tails is None else verdicts.point_tails[row]
        lower[row] = exact_bounds.point_bound(W, bias, positive, verdicts.points[row], tail, verdicts.box)
        labels, multipliers = verdicts.multipliers_of(row)
        part = slice(verdicts.multiplier_ptr[row], verdicts.multiplier_ptr[row + 1])
        tails = None if verdicts.multiplier_tails is None else verdicts.multiplier_tails[part]
        shifts = np.zeros(len(labels)) if bias is None else bias[labels]
        signs = np.where(positive[labels], 1.0, -1.0)
        upper[row] = exact_bounds.multiplier_bound(W[labels], shifts, signs, multipliers, tails, verdicts.box)
    return lower, upper


def judge(lower: np.ndarray, upper: np.ndarray, eps: float) -> np.ndarray:
    """Codes of what the bounds decide: a radius above eps, below it, or neither."""
    return np.where(upper < eps, UNARGMAXABLE, np.where(lower > eps, ARGMAXABLE, UNDECIDED)).astype(np.int8)


def check(W: np.ndarray, Y: sp.csr_matrix, verdicts: Verdicts, bias: np.ndarray | None = None) -> np.ndarray:
    """Whether each verdict follows from its certificate (bool [n_sets]): its status and both bounds of its radius.

    W: n_labels x d; Y: the label sets the verdicts are of, row by row; bias: that of the head.
    An undecided verdict holds when its bounds do. False for every verdict that is malformed: numbers of labels out of
    range or twice, multipliers that are negative or not finite, offsets that go down, an unknown status, bounds that
    are negative or exclude each other; and for all where eps and box are not what `verify` takes (finite, above 0, eps
    at most 1). Raises DataError where there is nothing to look at: columns of other lengths, dimensions or types, or
    not of these weights and label sets.
    """
    W, bias = check_weights(W, bias)
    indptr, indices = check_sets(Y, len(W))
    verdicts = check_columns(verdicts, len(indptr) - 1, W.shape[1])
    holds = np.zeros(len(verdicts), dtype=bool)
    if not are_limits(verdicts.eps, verdicts.box):
        return holds
    good = np.flatnonzero(wellformed_rows(verdicts, len(W)))
    sets = np.diff(indptr)[good]
    places = np.repeat(indptr[:-1][good], sets) + np.arange(sets.sum()) - np.repeat(np.cumsum(sets) - sets, sets)
    indptr, indices = np.concatenate([[0], np.cumsum(sets)]), indices[places]
    claims = verdicts.take(good)
    lower, upper = bound_radii(W, bias, row_norms(W), indptr, indices, claims)
    open_ones = np.flatnonzero(~_follow(claims, lower, upper))
    more = bound_radii_exactly(W, bias, indptr, indices, claims, open_ones.tolist())
    lower, upper = np.maximum(lower, more[0]), np.minimum(upper, more[1])
    holds[good] = _follow(claims, lower, upper)
    return holds


def _follow(claims: Verdicts, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Whether the bounds prove what is claimed."""
    holds = (claims.radius_lower <= lower) & (claims.radius_upper >= upper)
    return holds & ((claims.codes == UNDECIDED) | (judge(lower, upper, claims.eps) == claims.codes))
