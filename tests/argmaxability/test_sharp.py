"""What float64 leaves open: tiny radii and tolerances, scaled columns, slackless DFT heads; against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.argmaxability.oracles import all_sets, as_rows, exact_radius
from xpipe.argmaxability import check, dft_certificate, dft_matrix, exact_bounds, verify
from xpipe.argmaxability.pairs import Pairs
from xpipe.argmaxability.verdicts import read_verdicts, write_verdicts

HAIR = Fraction(1, 10**6)  # of eps: a radius that near to it may stay undecided


def weights(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    W = rng.standard_normal((n, d))
    if kind == "columns":
        return W * 10.0 ** rng.choice([-12, 0, 12], d)
    if kind == "whole columns":
        return rng.integers(-2, 3, (n, d)) * 10.0 ** rng.choice([-12, 0, 12], d)
    if kind == "whole":
        return rng.integers(-2, 3, (n, d)).astype(float)
    if kind == "opposites":  # parallel but for rounding: radii of 1e-17 of the box
        W[n // 2 :] = -3.7 * W[: n - n // 2]
    return W


@pytest.mark.parametrize("eps", [1e-8, 1e-11, 1e-14, 1e-20])
@pytest.mark.parametrize("kind", ["columns", "whole columns", "whole", "opposites", "plain"])
def test_nothing_is_wrong_and_nothing_undecided(kind, eps):
    rng = np.random.default_rng([len(kind), int(-np.log10(eps))])
    for n, d, has_bias, radius in ((4, 1, False, "bounds"), (6, 2, True, "exact"), (7, 3, False, "exact")):
        W = weights(kind, n, d, rng)
        bias = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 7) if has_bias else None
        Y = all_sets(n)[rng.permutation(2**n)[:16]]
        verdicts = verify(W, Y, bias, eps=eps, radius=radius)
        assert check(W, Y, verdicts, bias).all()
        for row in range(16):
            truth = exact_radius(W, Y[row].indices, bias)
            truth = max(truth or Fraction(0), Fraction(0))
            if abs(truth - Fraction(eps)) <= HAIR * Fraction(eps):
                continue
            assert verdicts.status[row] == ("argmaxable" if truth > eps else "unargmaxable")
            assert radius == "bounds" or not verdicts.argmaxable[row] or verdicts.exact[row]


def test_two_equal_labels_exclude_each_other_at_any_tolerance():
    for W in ([[1.0], [1.0]], [[3.0, 1.0], [3.0, 1.0]], [[1e-30], [2e-30]]):
        for eps in (1e-8, 1e-11, 1e-15, 1e-40):
            verdicts = verify(np.array(W), as_rows([[0]], 2), eps=eps)
            assert verdicts.status.tolist() == ["unargmaxable"]
            assert check(np.array(W), as_rows([[0]], 2), verdicts).all()


@pytest.mark.parametrize(("n", "k", "rows"), [(2000, 8, range(40)), (2000, 25, (1, 10, 20, 21))])
def test_slackless_dft_heads_are_decided(n, k, rows):
    rng = np.random.default_rng(0)
    sets = [rng.choice(n, k, replace=False) for _ in range(40)]
    W, Y = dft_matrix(n, k), as_rows([np.sort(sets[row]) for row in rows], n)
    verdicts = verify(W, Y)
    assert (verdicts.status != "undecided").all()
    assert check(W, Y, verdicts).all()
    for row in range(Y.shape[0]):  # what is proved to be there is not excluded
        known = 10 ** dft_certificate(Y[row].indices, n, k).log10_radius
        assert known <= verdicts.radius_upper[row] * (1 + 1e-6) + 1e-11


def test_tails_travel_with_the_verdicts(tmp_path):
    rng = np.random.default_rng(3)
    W = weights("opposites", 6, 2, rng)
    Y = all_sets(6)
    verdicts = verify(W, Y, eps=1e-14, radius="exact")
    assert verdicts.multiplier_tails is not None
    path = str(tmp_path / "v.parquet")
    write_verdicts(path, verdicts, Y.indptr, Y.indices)
    assert check(W, Y, read_verdicts(path)).all()
    assert check(W, Y[::-1], verdicts.take(np.arange(64)[::-1])).all()
    bare = verdicts.__class__(**{**vars(verdicts), "multiplier_tails": None, "point_tails": None})
    assert not check(W, Y, bare).all()  # float64 alone does not prove it


def test_a_radius_that_is_not_exact_says_so():
    W = np.random.default_rng(0).standard_normal((30, 4))
    Y = as_rows([np.flatnonzero(W @ np.random.default_rng(seed).standard_normal(4) > 0) for seed in range(12)], 30)
    exact, bounds = verify(W, Y, radius="exact"), verify(W, Y)
    assert exact.exact.all()
    gaps = bounds.radius_upper - bounds.radius_lower
    assert (bounds.exact == (gaps <= 1e-6 * bounds.radius_upper)).all()
    assert not bounds.exact.all()


def test_layers_whose_weights_are_all_zero_end():
    verdicts = verify(np.zeros((2, 2)), as_rows([[0], [1], []], 2), np.array([1.0, -1.0]), radius="exact")
    assert verdicts.argmaxable.tolist() == [True, False, False]
    assert check(np.zeros((2, 2)), as_rows([[0], [1], []], 2), verdicts, np.array([1.0, -1.0])).all()


def test_exact_bounds_round_to_the_safe_side():
    rng = np.random.default_rng(0)
    for _ in range(200):
        number, exponent = int(rng.integers(1, 2**60)) << int(rng.integers(0, 80)), int(rng.integers(-300, 100))
        value = Fraction(number) * Fraction(2) ** exponent
        below, above = exact_bounds.float_below(number, exponent), exact_bounds.float_above(number, exponent)
        assert Fraction(below) <= value <= Fraction(above)
        assert above <= np.nextafter(below, np.inf)


def test_pairs_keep_twice_the_digits():
    rng = np.random.default_rng(0)
    a, b = (Pairs.tidy(rng.standard_normal(50), 1e-17 * rng.standard_normal(50)) for _ in range(2))
    exact = [
        [Fraction(high) + Fraction(low) for high, low in zip(p.high, p.low, strict=True)] for p in (a, b, a * b, a / b)
    ]
    for x, y, times, over in zip(*exact, strict=True):
        assert abs(times - x * y) <= abs(x * y) / 2**98
        assert abs(over - x / y) <= abs(x / y) / 2**98
