"""What a point and multipliers prove about one label set, in exact arithmetic: slow, for what float64 leaves open.

Knows nothing of solvers, and rounds only its result, to the safe side. Every float64 is a whole number times a power of
two, so Python's integers are all it needs. Norms enter by their squares, or by square roots that are rounded down. The
statements proved are those of `certificate`. A point and multipliers may have tails: float64 numbers to be added to
them, exactly.
"""

from __future__ import annotations

import math

import numpy as np

from xpipe.argmaxability.output_layer import row_norms

ROOT_BITS = 128  # bits of a norm, and of a quotient before it is rounded to float64
U = 2.0**-53
TINY = 1e-200  # above the sum of all products lost to underflow: weights are within 1e-100..1e100


def whole_numbers(values: np.ndarray) -> tuple[np.ndarray, int]:
    """(whole numbers as Python integers, e) with values == numbers * 2^e exactly."""
    fractions, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    numbers = np.ldexp(fractions, 53).astype(np.int64)
    used = exponents[numbers != 0]
    least = int(used.min()) if len(used) else 0
    shifts = np.where(numbers != 0, exponents - least, 0)
    return numbers.astype(object) << shifts.astype(object), least - 53


def aligned(*parts: tuple[np.ndarray, int]) -> tuple[list[np.ndarray], int]:
    """(the numbers of all parts for one common exponent, that exponent)."""
    least = min(exponent for _, exponent in parts)
    return [numbers << (exponent - least) for numbers, exponent in parts], least


def with_tails(values: np.ndarray, tails: np.ndarray | None) -> tuple[np.ndarray, int]:
    """`whole_numbers` of values + tails."""
    if tails is None:
        return whole_numbers(values)
    (numbers, more), exponent = aligned(whole_numbers(values), whole_numbers(tails))
    return numbers + more, exponent


def float_below(number: int, exponent: int) -> float:
    """The largest float64 not above number * 2^exponent, for number >= 0; 0 for results far below 1e-308."""
    spare = max(number.bit_length() - 53, 0)
    spare = max(spare, -1074 - exponent)  # nothing below the smallest float64
    return math.ldexp(number >> spare, exponent + spare)


def float_above(number: int, exponent: int) -> float:
    """The smallest float64 not below number * 2^exponent."""
    below = float_below(number, exponent)
    spare = max(number.bit_length() - 53, -1074 - exponent, 0)
    return below if (number >> spare) << spare == number else math.nextafter(below, math.inf)


def point_bound(
    W: np.ndarray,
    bias: np.ndarray | None,
    positive: np.ndarray,
    point: np.ndarray,
    tail: np.ndarray | None,
    box: float,
    floor: float = -1.0,
) -> float:
    """The radius that a point proves for a set; 0 where it proves none. positive: labels of the set (bool).

    floor: the lowest input in box units, -1 or 0.
    """
    if not np.isfinite(point).all():
        return 0.0
    (x, limit), scale = aligned(with_tails(point, tail), whole_numbers(np.array([box])))
    if max(x) > limit[0] or min(x) < int(floor) * limit[0]:
        return 0.0
    lower = math.inf
    for label in _lowest(W, bias, positive, point, tail):
        row, row_scale = whole_numbers(W[label])
        score, score_scale = int(row @ x), row_scale + scale
        if bias is not None:
            own = (np.array([score], dtype=object), score_scale)
            parts, score_scale = aligned(own, whole_numbers(bias[label : label + 1]))
            score = int(parts[0][0] + parts[1][0])
        margin, square = score if positive[label] else -score, int(row @ row)
        if margin <= 0:
            return 0.0
        if square:  # margin 2^s over the root of square 2^2r is their quotient times 2^(s - r)
            bits = max(0, ROOT_BITS + square.bit_length() // 2 - margin.bit_length())
            quotient = math.isqrt((margin * margin << 2 * bits) // square)
            lower = min(lower, float_below(quotient, score_scale - row_scale - bits))
    return lower


def _lowest(
    W: np.ndarray, bias: np.ndarray | None, positive: np.ndarray, point: np.ndarray, tail: np.ndarray | None
) -> np.ndarray:
    """Labels that may have the least margin, as far as float64 can tell, and those whose weights are all zero."""
    tail = np.zeros_like(point) if tail is None else tail
    size, shifts = np.abs(W), np.zeros(len(W)) if bias is None else bias
    norms = row_norms(W)
    real = norms > 0
    divisor = np.where(real, norms, 1.0)
    margins = np.where(positive, 1.0, -1.0) * (W @ (point + tail) + shifts) / divisor
    reach = (size @ (np.abs(point) + np.abs(tail)) + np.abs(shifts)) / divisor
    error = (4 * W.shape[1] + 64) * U * reach + TINY
    ceiling = (margins + error)[real].min(initial=np.inf)
    return np.flatnonzero(~real | (margins - error <= ceiling))


def multiplier_bound(
    rows: np.ndarray,
    shifts: np.ndarray,
    signs: np.ndarray,
    multipliers: np.ndarray,
    tails: np.ndarray | None,
    box: float,
    floor: float = -1.0,
) -> float:
    """The largest radius that multipliers allow a set; 0: its signs are impossible; inf: they prove nothing.

    rows [m, d], shifts (biases), signs: of the labels that the multipliers are for. floor: the lowest input in box
    units, -1 or 0.
    """
    if not len(rows) or not np.isfinite(multipliers).all():
        return math.inf
    weights, scale = with_tails(multipliers, tails)
    if min(weights) < 0 or not any(weights):
        return math.inf
    numbers, row_scale = whole_numbers(rows)
    signed = weights * np.where(signs > 0, 1, -1).astype(object)
    limit, box_scale = whole_numbers(np.array([box]))
    sums = signed @ numbers
    reach = np.array([limit[0] * sum(max(a, 0 if floor == 0 else -a) for a in sums)], dtype=object)
    biases, bias_scale = whole_numbers(shifts)
    own = np.array([signed @ biases], dtype=object)
    parts, reach_scale = aligned((reach, row_scale + scale + box_scale), (own, bias_scale + scale))
    total = int(parts[0][0] + parts[1][0])
    if total <= 0:
        return 0.0
    norms = [math.isqrt(int(row @ row) << 2 * ROOT_BITS) for row in numbers]  # times 2^ROOT_BITS, rounded down
    weight = sum(int(m) * norm for m, norm in zip(weights, norms, strict=True))
    if not weight:
        return math.inf
    bits = max(0, ROOT_BITS + weight.bit_length() - total.bit_length())
    quotient = -((-total << bits) // weight)  # rounded up
    return float_above(quotient, reach_scale - (row_scale + scale - ROOT_BITS) - bits)
