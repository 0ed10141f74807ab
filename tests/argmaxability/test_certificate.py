"""Certificates: what they prove is true in exact arithmetic, and broken ones prove nothing."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.argmaxability.oracles import all_sets, as_rows, exact_margin_square
from xpipe.argmaxability import check, verify
from xpipe.argmaxability.certificate import gamma, judge, multiplier_bound, point_bounds, row_norms
from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED
from xpipe.errors import DataError

BOX = 1e4


@pytest.fixture(scope="module")
def verified():
    """(W, Y, verdicts) with sets of both kinds, each with a point or multipliers."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((12, 3))
    Y = sp.csr_matrix(
        np.vstack([rng.standard_normal((20, 3)) @ W.T > 0, rng.random((20, 12)) < 0.5]).astype(np.float32)
    )
    verdicts = verify(W, Y, radius="exact")
    assert verdicts.argmaxable.any()
    assert (verdicts.codes == UNARGMAXABLE).any()
    assert check(W, Y, verdicts).all()
    return W, Y, verdicts


@pytest.mark.parametrize("change", ["sign", "one entry", "far", "none", "nan entry", "another set's"])
def test_a_broken_point_fails(verified, change):
    W, Y, verdicts = verified
    good = np.flatnonzero(verdicts.argmaxable)
    points = verdicts.points.copy()
    if change == "sign":
        points[good] *= -1
    elif change == "one entry":
        points[good, 0] += 1.0
    elif change == "far":
        points[good] *= 1 + 1e-12  # the largest entry was at the edge of the box
    elif change == "none":
        points[good] = np.nan
    elif change == "nan entry":
        points[good, 1] = np.nan
    else:
        points[good] = points[np.roll(good, 1)]
        same = (np.diff(Y[good].toarray(), axis=0, prepend=Y[good[-1:]].toarray()) == 0).all(axis=1)
        good = good[~same]
    holds = check(W, Y, dataclasses.replace(verdicts, points=points))
    assert not holds[good].any()
    assert holds[verdicts.codes == UNARGMAXABLE].all()


@pytest.mark.parametrize(
    "change", ["one more", "negative", "nan", "infinite", "zero", "one label less", "another label"]
)
def test_broken_multipliers_fail(verified, change):
    W, Y, verdicts = verified
    bad = np.flatnonzero(verdicts.codes == UNARGMAXABLE)
    multipliers, labels = verdicts.multipliers.copy(), verdicts.multiplier_labels.copy()
    first = verdicts.multiplier_ptr[:-1][bad]
    if change == "one more":
        multipliers[first] *= 1 + 1e-9
    elif change == "negative":
        multipliers *= -1
    elif change == "nan":
        multipliers[first] = np.nan
    elif change == "infinite":
        multipliers[first] = np.inf
    elif change == "zero":
        multipliers[:] = 0
    elif change == "one label less":
        multipliers[first] = 0
    else:
        labels[first] = (labels[first] + 1) % 12
    holds = check(W, Y, dataclasses.replace(verdicts, multipliers=multipliers, multiplier_labels=labels))
    assert not holds[bad].any()


@pytest.mark.parametrize(("name", "factor"), [("radius_lower", 1 + 1e-9), ("radius_upper", 1 - 1e-9)])
def test_bounds_that_claim_more_than_is_proved_fail(verified, name, factor):
    W, Y, verdicts = verified
    claimed = dataclasses.replace(verdicts, **{name: getattr(verdicts, name) * factor})
    assert not check(W, Y, claimed)[verdicts.argmaxable].any()
    modest = dataclasses.replace(verdicts, **{name: getattr(verdicts, name) / factor})
    assert check(W, Y, modest).all()


def test_a_status_must_follow_from_the_bounds(verified):
    W, Y, verdicts = verified
    swapped = dataclasses.replace(verdicts, codes=1 - verdicts.codes)
    assert not check(W, Y, swapped).any()
    unsure = dataclasses.replace(verdicts, codes=np.full_like(verdicts.codes, UNDECIDED))
    assert check(W, Y, unsure).all()  # claims less than is proved


def test_other_weights_sets_or_bias_fail(verified):
    W, Y, verdicts = verified
    changed = W.copy()
    changed[0] *= -1
    assert not check(changed, Y, verdicts).all()
    other = Y.toarray()
    other[:, 0] = 1 - other[:, 0]
    assert not check(W, sp.csr_matrix(other), verdicts)[verdicts.argmaxable].any()
    assert not check(W, Y, verdicts, bias=np.full(12, 1e5))[verdicts.argmaxable].any()
    with pytest.raises(DataError, match="not of these weights"):
        check(W, Y[:3], verdicts)
    with pytest.raises(DataError, match="not of these weights"):
        check(W[:, :2], Y, verdicts)


def test_another_order_of_summation_confirms_what_verify_reports():
    """Columns in another order, rows in another order, sets one by one: other roundings, the same answer."""
    rng = np.random.default_rng(1)
    W = rng.standard_normal((300, 40)).astype(np.float32)
    Y = sp.csr_matrix((rng.standard_normal((25, 40)) @ W.T > 0).astype(np.float32))
    verdicts = verify(W, Y, radius="exact")
    columns = rng.permutation(40)
    turned = dataclasses.replace(verdicts, points=np.ascontiguousarray(verdicts.points[:, columns]))
    assert check(np.ascontiguousarray(W[:, columns]), Y, turned).all()
    for row in range(Y.shape[0]):
        assert check(W, Y[row], verdicts.take([row])).all()


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans(), st.integers(-6, 6))
@settings(max_examples=150, deadline=None)
def test_bounds_hold_in_exact_arithmetic(n, d, seed, has_bias, scale):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d)) * 10.0**scale
    bias = rng.standard_normal(n) * 10.0**scale if has_bias else None
    x = rng.standard_normal(d) * 10.0 ** rng.integers(-3, 4)
    x = np.clip(x, -BOX, BOX)
    shifts = np.zeros(n) if bias is None else bias
    labels = np.flatnonzero(W @ x + shifts > 0)  # the signs x gives, or so it seems
    signs = np.where(np.isin(np.arange(n), labels), 1, -1)
    lower = point_bounds(W, bias, row_norms(W), np.array([0, len(labels)]), labels, x[None], BOX)[0]
    for i in range(n):
        margin, square = exact_margin_square(W[i], float(shifts[i]), int(signs[i]), x)
        assert margin >= 0 or lower == 0
        assert Fraction(lower) ** 2 * square <= margin**2
    multipliers = rng.random(n) * (rng.random(n) < 0.8)
    if not multipliers.any():
        return
    upper = multiplier_bound(W, shifts, row_norms(W), signs.astype(float), multipliers, BOX)
    weights = [Fraction(m) for m in multipliers.tolist()]
    sums = [
        sum(w * int(s) * Fraction(a) for w, s, a in zip(weights, signs, column, strict=True)) for column in W.T.tolist()
    ]
    reach = Fraction(BOX) * sum(map(abs, sums)) + sum(
        w * int(s) * Fraction(b) for w, s, b in zip(weights, signs, shifts.tolist(), strict=True)
    )
    norms = [sum(Fraction(a) ** 2 for a in row) for row in W.tolist()]
    # sum of m ||w|| is at least (sum of m times a lower rational bound of each norm)
    weight = sum(
        w * Fraction(float(square) ** 0.5) * (1 - Fraction(1, 2**40)) for w, square in zip(weights, norms, strict=True)
    )
    assert Fraction(upper) * weight * (1 + Fraction(1, 2**30)) >= reach


def test_the_error_bound_covers_a_sum_that_cancels():
    """Scores near 0 whose computed sign is wrong must not be certain."""
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(300):
        row = rng.standard_normal(60)
        x = rng.standard_normal(60) * 100
        x[-1] = -float(
            sum(Fraction(a) * Fraction(b) for a, b in zip(row[:-1], x[:-1], strict=True)) / Fraction(row[-1])
        )
        margin, _ = exact_margin_square(row, 0.0, 1, x)
        computed = float(row @ x)
        wrong += (computed > 0) != (margin > 0)
        for labels, truth in (([0], margin > 0), ([], margin < 0)):
            lower = point_bounds(
                row[None], None, row_norms(row[None]), np.array([0, len(labels)]), np.array(labels, int), x[None], 1e9
            )[0]
            assert lower == 0 or truth
    assert wrong > 10  # the test would be empty otherwise


def test_the_error_bound_covers_multipliers_that_cancel():
    """Weighted rows whose computed sum is nearer to 0 than the true one."""
    rng = np.random.default_rng(5)
    smaller = 0
    for _ in range(300):
        rows = rng.standard_normal((20, 1))
        multipliers = rng.random(20)
        signs = np.sign(rows[:, 0])
        signs[-1] *= -1  # one against all others
        others = sum(Fraction(m) * Fraction(abs(w)) for m, w in zip(multipliers[:-1], rows[:-1, 0], strict=True))
        multipliers[-1] = float(others / Fraction(abs(rows[-1, 0])))
        upper = multiplier_bound(rows, np.zeros(20), row_norms(rows), signs, multipliers, BOX)
        weighted = [Fraction(m) * Fraction(abs(w)) for m, w in zip(multipliers, rows[:, 0], strict=True)]
        reach = abs(others - weighted[-1])
        assert Fraction(upper) * sum(weighted) >= Fraction(BOX) * reach
        assert upper < 1e-8
        smaller += abs(float((signs * multipliers) @ rows[:, 0])) < reach
    assert smaller > 10  # the test would be empty otherwise


def test_a_point_says_nothing_about_a_row_of_zeros():
    W, x = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0]])
    for bias, expected in ((None, 0), ([0.0, 0.0], 0), ([0.0, 1.0], 0), ([0.0, -1.0], 2)):
        shifts = None if bias is None else np.array(bias)
        lower = point_bounds(W, shifts, row_norms(W), np.array([0, 1]), np.array([0]), x, BOX)[0]
        assert lower == pytest.approx(expected)


def test_gamma_and_judge():
    assert gamma(1) == pytest.approx(2.0**-53)
    codes = judge(np.array([0.0, 1e-7, 0.0, 0.0]), np.array([1e-9, 2.0, 1e-7, 1e-8]), 1e-8)
    assert codes.tolist() == [UNARGMAXABLE, ARGMAXABLE, UNDECIDED, UNDECIDED]


def test_rows_of_zeros():
    W = np.array([[1.0, 0.0], [0.0, 0.0]])
    Y = as_rows([[0], [0, 1]], 2)
    without = verify(W, Y)
    assert (without.status == "unargmaxable").all()
    for bias, answers in (([0.0, 2.0], [False, True]), ([0.0, -2.0], [True, False]), ([0.0, 0.0], [False, False])):
        verdicts = verify(W, Y, np.array(bias))
        assert verdicts.argmaxable.tolist() == answers
        assert check(W, Y, verdicts, np.array(bias)).all()
        assert not check(W, Y, dataclasses.replace(verdicts, codes=1 - verdicts.codes), np.array(bias)).any()


def test_all_sets_carry_what_proves_them():
    W = np.random.default_rng(7).standard_normal((8, 3))
    verdicts = verify(W, all_sets(8))
    has_point = ~np.isnan(verdicts.points).any(axis=1)
    assert (has_point | (verdicts.codes == UNARGMAXABLE)).all()
    assert ((np.diff(verdicts.multiplier_ptr) > 0) | verdicts.argmaxable).all()
    assert (np.abs(verdicts.points[has_point]) <= BOX).all()
