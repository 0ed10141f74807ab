"""Slow, obviously right twins: all regions of an arrangement, the full LP, exact rational bounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

NOTHING = 1e-9


def regions(W: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """Every sign pattern that some x gives to W x without a zero, with such an x: one hyperplane after the other.

    A region of the first rows is cut by the next hyperplane where the rows restricted to that plane have it too.
    """
    n, d = W.shape
    if n == 0:
        return {(): np.zeros(d)}
    if d == 0 or np.linalg.norm(W[-1]) < NOTHING:
        return {}
    last = W[-1] / np.linalg.norm(W[-1])
    plane = np.linalg.svd(last[None, :])[2][1:].T  # d x (d - 1), a basis of the hyperplane
    restricted = W[:-1] @ plane
    restricted[np.linalg.norm(restricted, axis=1) < NOTHING] = 0
    found = {}
    for signs, z in regions(restricted).items():
        x = plane @ z
        margins = np.abs(W[:-1] @ x)
        reach = np.abs(W[:-1] @ last)
        step = min((margins / np.maximum(reach, 1e-300)).min(initial=1.0), 1.0) / 2
        for sign in (1, -1):
            found[(*signs, sign)] = x + sign * step * last
    for signs, x in regions(W[:-1]).items():
        if (*signs, 1) not in found and (*signs, -1) not in found:
            found[(*signs, 1 if W[-1] @ x > 0 else -1)] = x
    return found


def argmaxable_sets(W: np.ndarray, bias: np.ndarray | None = None) -> set[tuple[int, ...]]:
    """Label sets, as tuples of labels, that some input gives. A bias is a weight for an input that is always 1."""
    if bias is not None:
        W = np.vstack([np.append(np.zeros(W.shape[1]), 1.0), np.column_stack([W, bias])])
        patterns = [signs[1:] for signs in regions(W) if signs[0] > 0]
    else:
        patterns = list(regions(W))
    return {tuple(np.flatnonzero(np.array(signs) > 0)) for signs in patterns}


def all_sets(n: int) -> sp.csr_matrix:
    """All 2^n label sets."""
    return sp.csr_matrix((np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float32))


def as_rows(sets, n: int) -> sp.csr_matrix:
    dense = np.zeros((len(sets), n), dtype=np.float32)
    for row, labels in enumerate(sets):
        dense[row, list(labels)] = 1
    return sp.csr_matrix(dense)


def full_lp(W, labels, bias=None, box=1e4) -> float:
    """The radius by the Chebyshev LP with all its rows; negative infinity where no radius is left."""
    n, d = W.shape
    signs = np.full(n, -1.0)
    signs[list(labels)] = 1.0
    A = np.hstack([-signs[:, None] * W, np.linalg.norm(W, axis=1)[:, None]])
    limits = [*[(-box, box)] * d, (None, None)]
    shifts = np.zeros(n) if bias is None else signs * bias
    answer = linprog(np.append(np.zeros(d), -1.0), A_ub=A, b_ub=shifts, bounds=limits, method="highs")
    return -answer.fun if answer.status == 0 else -np.inf


def exact_margin_square(row, bias, sign, x) -> tuple[Fraction, Fraction]:
    """(signed score, squared norm of the row) in rationals."""
    score = sum(Fraction(a) * Fraction(b) for a, b in zip(row.tolist(), x.tolist(), strict=True)) + Fraction(bias)
    return sign * score, sum(Fraction(a) ** 2 for a in row.tolist())


def rational_root(square: Fraction) -> Fraction:
    """The square root, off by less than 2^-300 of it."""
    bits = 300 + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    return Fraction(math.isqrt((square.numerator << 2 * bits) // square.denominator), 1 << bits)


def exact_radius(W, labels, bias=None, box=1e4) -> Fraction | None:
    """The optimum of the Chebyshev LP in rationals, norms to 2^-300; None where a row of zeros has the wrong sign.

    The simplex method on the dual, by Bland's rule: minimise box sum_j (p_j + q_j) + sum_i b_i m_i over m, p, q >= 0,
    where sum_i m_i w_i = p - q and sum_i m_i ||w_i|| = 1, rows and biases with the signs of the set.
    """
    d = np.shape(W)[1]
    columns, costs = [], []
    for i, row in enumerate(np.asarray(W, dtype=float).tolist()):
        sign = 1 if i in set(np.asarray(labels).tolist()) else -1
        shift = Fraction(0) if bias is None else sign * Fraction(float(bias[i]))
        square = sum(Fraction(a) ** 2 for a in row)
        if square:
            columns.append([sign * Fraction(a) for a in row] + [rational_root(square)])
            costs.append(shift)
        elif shift <= 0:
            return None
    n_rows = len(columns)
    if not n_rows:
        return Fraction(10) ** 400  # every input has these signs
    for j in range(d):
        for direction in (-1, 1):
            columns.append([Fraction(direction if i == j else 0) for i in range(d + 1)])
            costs.append(Fraction(box))
    norm = columns[0][-1]
    start = [value / norm for value in columns[0][:-1]]
    basis = [n_rows + 2 * j + (0 if start[j] >= 0 else 1) for j in range(d)] + [0]
    right = [abs(value) for value in start] + [1 / norm]
    signs = [-1 if start[j] >= 0 else 1 for j in range(d)]
    inverse = [
        [Fraction(signs[j] if i == j else 0) for i in range(d)] + [-signs[j] * columns[0][j] / norm] for j in range(d)
    ] + [[Fraction(0)] * d + [1 / norm]]
    while True:
        prices = [sum(costs[b] * line[c] for b, line in zip(basis, inverse, strict=True)) for c in range(d + 1)]
        entering = next(
            (
                c
                for c in range(len(columns))
                if costs[c] - sum(p * a for p, a in zip(prices, columns[c], strict=True)) < 0
            ),
            None,
        )
        if entering is None:
            return sum(costs[b] * value for b, value in zip(basis, right, strict=True))
        change = [sum(a * b for a, b in zip(line, columns[entering], strict=True)) for line in inverse]
        _, _, leaving = min((right[i] / change[i], basis[i], i) for i in range(d + 1) if change[i] > 0)
        pivot_on(leaving, change, inverse, right)
        basis[leaving] = entering


def pivot_on(leaving: int, change: list, inverse: list, right: list) -> None:
    """One step of the simplex method: the column of `change` takes the place `leaving` of the basis."""
    pivot = change[leaving]
    inverse[leaving] = [value / pivot for value in inverse[leaving]]
    right[leaving] /= pivot
    for i in range(len(inverse)):
        if i != leaving and change[i]:
            inverse[i] = [a - change[i] * b for a, b in zip(inverse[i], inverse[leaving], strict=True)]
            right[i] -= change[i] * right[leaving]


def exact_optimum(rows, shifts, sizes, box, nonnegative=False) -> Fraction | None:
    """The largest r with rows_i.x + shifts_i >= r sizes_i for all i and some x in the box, in rationals; None: no rows.

    rows, shifts, sizes: Fractions; sizes above 0. The simplex method on the dual by Bland's rule, as in `exact_radius`.
    """
    if not rows:
        return None
    d = len(rows[0])
    columns = [[*row, size] for row, size in zip(rows, sizes, strict=True)]
    costs = list(shifts)
    n_rows = len(columns)
    for j in range(d):
        for direction in (-1, 1):  # the largest v_j x_j is box v_j for v_j > 0; for v_j < 0 it is -box v_j, or 0
            columns.append([Fraction(direction if i == j else 0) for i in range(d + 1)])
            costs.append(Fraction(0) if nonnegative and direction == 1 else Fraction(box))
    size = columns[0][-1]
    start = [value / size for value in columns[0][:-1]]
    basis = [n_rows + 2 * j + (0 if start[j] >= 0 else 1) for j in range(d)] + [0]
    right = [abs(value) for value in start] + [1 / size]
    signs = [-1 if start[j] >= 0 else 1 for j in range(d)]
    inverse = [
        [Fraction(signs[j] if i == j else 0) for i in range(d)] + [-signs[j] * columns[0][j] / size] for j in range(d)
    ] + [[Fraction(0)] * d + [1 / size]]
    while True:
        prices = [sum(costs[b] * line[c] for b, line in zip(basis, inverse, strict=True)) for c in range(d + 1)]
        gains = (costs[c] - sum(p * a for p, a in zip(prices, columns[c], strict=True)) for c in range(len(columns)))
        entering = next((c for c, gain in enumerate(gains) if gain < 0), None)
        if entering is None:
            return sum(costs[b] * value for b, value in zip(basis, right, strict=True))
        change = [sum(a * b for a, b in zip(line, columns[entering], strict=True)) for line in inverse]
        _, _, leaving = min((right[i] / change[i], basis[i], i) for i in range(d + 1) if change[i] > 0)
        pivot_on(leaving, change, inverse, right)
        basis[leaving] = entering


def exact_margin(W, labels, bias=None, box=1e4, nonnegative=False, mode="topk") -> Fraction | None:
    """The margin of a set in rationals: one constraint for each pair of a label of the set and another; no threshold.

    None: the empty set and the set of all labels, whose margin is infinite. Mode sign: the radius, norms to 2^-300.
    """
    W = [[Fraction(a) for a in row] for row in np.asarray(W, dtype=float).tolist()]
    shifts = [Fraction(0)] * len(W) if bias is None else [Fraction(float(b)) for b in bias]
    own = set(np.asarray(labels, dtype=int).tolist())
    if mode == "sign":
        signs = [1 if i in own else -1 for i in range(len(W))]
        squares = [sum(a * a for a in row) for row in W]
        if any(not square and sign * b <= 0 for square, sign, b in zip(squares, signs, shifts, strict=True)):
            return Fraction(-1)
        real = [i for i, square in enumerate(squares) if square]
        return exact_optimum(
            [[signs[i] * a for a in W[i]] for i in real], [signs[i] * shifts[i] for i in real],
            [rational_root(squares[i]) for i in real], box, nonnegative,
        )  # fmt: skip
    pairs = [(i, j) for i in own for j in range(len(W)) if j not in own]
    return exact_optimum(
        [[a - b for a, b in zip(W[i], W[j], strict=True)] for i, j in pairs], [shifts[i] - shifts[j] for i, j in pairs],
        [Fraction(2)] * len(pairs), box, nonnegative,
    )  # fmt: skip
