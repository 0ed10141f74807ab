"""What a point and multipliers prove about a set in modes topk and argmax, in float64 or exactly.

Knows nothing of solvers. The statements are those of `modes`: a point proves a gap between the scores of the set and of
all others, multipliers are two mixtures of rows. Rounding is accounted for as in `certificate`.
"""

from __future__ import annotations

import math

import numpy as np

from xpipe.argmaxability.exact_bounds import (
    ROOT_BITS,
    TINY,
    U,
    aligned,
    float_above,
    float_below,
    whole_numbers,
    with_tails,
)
from xpipe.argmaxability.rounding import DOUBLE, SINGLE, gamma
from xpipe.argmaxability.stored_rows import StoredRows

SCORES = 1 << 22  # scores held at once
FAR, TINIEST, MOST_SUMMED = 1e37, 1e-37, 1 << 20  # of float32: largest scores, what underflow loses, products in a sum


def norm_bounds(largest: float, d: int) -> tuple[float, float]:
    """(below, above) the largest norm of a row, whose computed value is given."""
    error = 2 * gamma(d + 16)
    return largest * (1 - error), largest * (1 + error)


def point_bounds(
    rows: StoredRows,
    bias: np.ndarray | None,
    largest: float,
    indptr: np.ndarray,
    indices: np.ndarray,
    points: np.ndarray,
    box: float,
    floor: float,
    caution: float = 1.0,
    unit: float = DOUBLE,
) -> np.ndarray:
    """The radius that each point proves for its set (float64 [n_sets]); 0 where it proves none or is outside the box.

    The arguments are those of `bound_point_radii`.
    """
    return bound_point_radii(rows, bias, largest, indptr, indices, points, box, floor, caution, unit)[0]


def bound_point_radii(
    rows: StoredRows,
    bias: np.ndarray | None,
    largest: float,
    indptr: np.ndarray,
    indices: np.ndarray,
    points: np.ndarray,
    box: float,
    floor: float,
    caution: float,
    unit: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(at least, at most) the radius that exact arithmetic gives each point for its set; 0 where it proves none.

    largest: the largest norm of a row, as computed. floor: the lowest input in box units. caution: factor of the
    rounding error that is allowed for. unit: of the products. SINGLE takes half the time of DOUBLE and less memory; it
    proves less, and nothing (0, inf) where float32 does not hold the rows exactly or scores may overflow.
    """
    n, d = rows.shape
    lower, most = np.zeros(len(points)), np.zeros(len(points))
    inside = np.flatnonzero(((points <= box) & (points >= floor * box)).all(axis=1))  # NaN stands for no point
    _, above = norm_bounds(largest, d)
    if unit == SINGLE and (not rows.narrow or box * d * above > FAR or d > MOST_SUMMED):
        most[inside] = np.inf
        return lower, most
    at_once = max(1, SCORES // min(n, rows.rows_per_block))
    for start in range(0, len(inside), at_once):
        part = inside[start : start + at_once]
        lowest, highest, error = _extremes(rows, bias, above, indptr, indices, points[part], part, caution, unit)
        half = (lowest - highest) * 0.5
        proved = half / above * (1 - caution * gamma(8))
        lower[part] = np.where(half > 0, proved, 0.0)
        most[part] = np.maximum((half + 2 * error) / above * (1 + 1e-6), 0.0)
    return lower, most


def _extremes(
    rows: StoredRows,
    bias: np.ndarray | None,
    above: float,
    indptr: np.ndarray,
    indices: np.ndarray,
    x: np.ndarray,
    numbers: np.ndarray,
    caution: float,
    unit: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(at most the lowest score of each set, at least the highest score of all others, error of both) at the points."""
    d = rows.d
    length = np.sqrt(np.einsum("ij,ij->i", x, x)) * (1 + gamma(d + 8))
    lowest, highest = np.full(len(x), np.inf), np.full(len(x), -np.inf)
    dtype = np.float32 if unit == SINGLE else np.float64
    factors = x.astype(dtype)
    # |score| <= ||x|| R + |b|; the error is relative to that: the numbers of x, d products and the bias
    products = caution * gamma(d + 8 if unit == SINGLE else 2 * d + 16, unit) * length * above
    products += TINY if unit == DOUBLE else d * TINIEST
    largest_error = 0.0  # of a bias
    for first, block in rows.blocks(dtype):
        scores = factors @ block.T
        errors = np.zeros(0)  # of the biases
        if bias is not None:
            shift = bias[first : first + len(block)]
            scores = scores.astype(np.float64, copy=False) + shift
            errors = caution * gamma(2 * d + 16) * np.abs(shift)
            largest_error = max(largest_error, float(errors.max()))
        for place, number in enumerate(numbers):
            own = indices[indptr[number] : indptr[number + 1]]
            own = own[(own >= first) & (own < first + len(block))] - first
            if len(own):
                mine = scores[place, own].astype(np.float64) - (errors[own] if len(errors) else 0.0)
                lowest[place] = min(lowest[place], mine.min())
                scores[place, own] = -np.inf
        if len(errors):
            scores += errors
        np.maximum(highest, scores.max(axis=1), out=highest)
    return lowest - products, highest + products, products + largest_error


def mixture_difference(
    rows: np.ndarray, positive: np.ndarray, multipliers: np.ndarray, caution: float = 1.0
) -> tuple[np.ndarray, np.ndarray] | None:
    """(v, error of each of its numbers): the difference of both mixtures; None where a side has no multipliers.

    rows [m, d] and positive (bool): of the labels that the multipliers are for.
    """
    m, d = rows.shape
    usable = m and np.isfinite(multipliers).all() and (multipliers >= 0).all()
    if not usable or not multipliers[positive].any() or not multipliers[~positive].any():
        return None
    centre = rows[int(np.argmax(np.where(positive, multipliers, -1.0)))]  # both mixtures may be moved together
    moved = rows - centre
    v, error = np.zeros(d), np.zeros(d)
    for side, sign in ((positive, 1.0), (~positive, -1.0)):
        shares = np.ldexp(multipliers[side], -np.frexp(multipliers[side].max())[1])  # a power of two is exact
        total, levels = shares.sum(), int(len(shares) - 1).bit_length()
        terms = np.zeros((1 << levels, d))
        terms[: len(shares)] = shares[:, None] * moved[side]
        size = np.abs(terms).sum(axis=0) * (1 + gamma(len(terms) + 8)) / total
        while len(terms) > 1:  # sums in pairs: the error then grows with the logarithm of the number of rows
            terms = terms[0::2] + terms[1::2]
        v += sign * (terms[0] / total)
        # the products, the sum in pairs and the difference to the centre; the total; the quotient
        error += caution * (gamma(levels + 8) + 2 * gamma(len(shares) + 4)) * size + TINY
    return v, error + caution * gamma(4) * np.abs(v)


def multiplier_bound(
    rows: np.ndarray,
    shifts: np.ndarray,
    positive: np.ndarray,
    multipliers: np.ndarray,
    largest: float,
    box: float,
    floor: float,
    caution: float = 1.0,
) -> float:
    """The largest radius that multipliers allow a set; 0: it is impossible; inf: they prove nothing."""
    found = mixture_difference(rows, positive, multipliers, caution)
    if found is None:
        return np.inf
    v, error = found
    m, d = rows.shape
    reach = box * (np.maximum(v, 0.0 if floor == 0 else -v) + error).sum() * (1 + gamma(d + 4))
    for side, sign in ((positive, 1.0), (~positive, -1.0)):
        shares = np.ldexp(multipliers[side], -np.frexp(multipliers[side].max())[1])
        total = shares.sum()
        reach += sign * (shares @ shifts[side]) / total
        reach += caution * gamma(3 * m + 16) * (shares @ np.abs(shifts[side]) / total + abs(reach)) + TINY
    if reach <= 0:
        return 0.0
    below, _ = norm_bounds(largest, d)
    return float(reach * 0.5 / below * (1 + caution * gamma(16)))


def unit_margin_bound(rows: np.ndarray, positive: np.ndarray, multipliers: np.ndarray) -> float:
    """The largest margin at |x| = 1 that multipliers allow a set without bias; inf: they prove nothing."""
    found = mixture_difference(rows, positive, multipliers)
    if found is None:
        return np.inf
    v, error = found
    return float(np.linalg.norm(np.abs(v) + error) * 0.5 * (1 + gamma(2 * rows.shape[1] + 16)))


def point_bound_exactly(
    rows: StoredRows,
    bias: np.ndarray | None,
    largest: float,
    positive: np.ndarray,
    point: np.ndarray,
    tail: np.ndarray | None,
    box: float,
    floor: float,
) -> float:
    """`point_bounds` of one set in exact arithmetic. positive: labels of the set (bool)."""
    if not np.isfinite(point).all():
        return 0.0
    (x, limit), scale = aligned(with_tails(point, tail), whole_numbers(np.array([box])))
    if max(x) > limit[0] or min(x) < int(floor) * limit[0]:
        return 0.0
    ends: dict[bool, tuple[int, int] | None] = {True: None, False: None}
    for label in _outermost(rows, bias, positive, point, tail):
        score = _exact_score(rows.take(slice(label, label + 1))[0], None if bias is None else bias[label], x, scale)
        side = bool(positive[label])
        if ends[side] is None or _less(score, ends[side]) == side:
            ends[side] = score
    low, high = ends[True], ends[False]
    if low is None or high is None:
        return math.inf
    (a, b), exponent = aligned((np.array([low[0]], object), low[1]), (np.array([high[0]], object), high[1]))
    gap = int(a[0] - b[0])
    if gap <= 0:
        return 0.0
    (norm,), norm_exponent = whole_numbers(np.array([norm_bounds(largest, rows.d)[1]]))
    bits = max(0, ROOT_BITS + int(norm).bit_length() - gap.bit_length())
    return float_below((gap << bits) // int(norm), exponent - norm_exponent - bits - 1)


def _less(a: tuple[int, int], b: tuple[int, int] | None) -> bool:
    """Whether a < b, both (number, exponent)."""
    assert b is not None
    (x, y), _ = aligned((np.array([a[0]], object), a[1]), (np.array([b[0]], object), b[1]))
    return bool(x[0] < y[0])


def _exact_score(row: np.ndarray, shift: float | None, x: np.ndarray, scale: int) -> tuple[int, int]:
    """w.x + b as (number, exponent)."""
    numbers, row_scale = whole_numbers(row)
    own = (np.array([int(numbers @ x)], dtype=object), row_scale + scale)
    if shift is None:
        return int(own[0][0]), own[1]
    parts, exponent = aligned(own, whole_numbers(np.array([shift])))
    return int(parts[0][0] + parts[1][0]), exponent


def _outermost(
    rows: StoredRows, bias: np.ndarray | None, positive: np.ndarray, point: np.ndarray, tail: np.ndarray | None
) -> np.ndarray:
    """Labels that may be the lowest of the set or the highest of the others, as far as float64 can tell."""
    tail = np.zeros_like(point) if tail is None else tail
    scores, errors = np.empty(len(rows)), np.empty(len(rows))
    for first, block in rows.blocks():
        part = slice(first, first + len(block))
        shift = np.zeros(len(block)) if bias is None else bias[part]
        scores[part] = block @ (point + tail) + shift
        reach = np.abs(block) @ (np.abs(point) + np.abs(tail)) + np.abs(shift)
        errors[part] = (4 * rows.d + 64) * U * reach + TINY
    ceiling = (scores + errors)[positive].min(initial=np.inf)
    bottom = (scores - errors)[~positive].max(initial=-np.inf)
    return np.flatnonzero(np.where(positive, scores - errors <= ceiling, scores + errors >= bottom))


def multiplier_bound_exactly(
    rows: np.ndarray,
    shifts: np.ndarray,
    positive: np.ndarray,
    multipliers: np.ndarray,
    tails: np.ndarray | None,
    largest: float,
    box: float,
    floor: float,
) -> float:
    """`multiplier_bound` in exact arithmetic; the multipliers may have tails."""
    if not len(rows) or not np.isfinite(multipliers).all():
        return math.inf
    weights, _ = with_tails(multipliers, tails)
    if min(weights) < 0:
        return math.inf
    totals = {side: int(sum(weights[positive == side])) for side in (True, False)}
    if not totals[True] or not totals[False]:
        return math.inf
    # shares times both totals: whole numbers, whatever the totals are
    signed = np.array(
        [int(w) * totals[not p] * (1 if p else -1) for w, p in zip(weights, positive, strict=True)], object
    )
    numbers, row_scale = whole_numbers(rows)
    limit, box_scale = whole_numbers(np.array([box]))
    v = signed @ numbers
    reach = np.array([limit[0] * sum(max(int(a), 0 if floor == 0 else -int(a)) for a in v)], dtype=object)
    biases, bias_scale = whole_numbers(shifts)
    own = np.array([signed @ biases], dtype=object)
    parts, exponent = aligned((reach, row_scale + box_scale), (own, bias_scale))
    total = int(parts[0][0] + parts[1][0])
    if total <= 0:
        return 0.0
    (norm,), norm_exponent = whole_numbers(np.array([norm_bounds(largest, rows.shape[1])[0]]))
    divisor = int(norm) * totals[True] * totals[False]
    bits = max(0, ROOT_BITS + divisor.bit_length() - total.bit_length())
    quotient = -((-total << bits) // divisor)  # rounded up
    return float_above(quotient, exponent - norm_exponent - bits - 1)
