"""Forged certificates: mutations of valid ones, of which `check` lets pass only what is true in exact arithmetic."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import all_sets, as_rows, exact_radius
from xpipe.argmaxability import Verdicts, check, verify
from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED
from xpipe.errors import DataError


def forged_impossible(labels, multipliers, **changes):
    """A claim that set {0} of the identity, whose radius is 1e4, is impossible."""
    given = {
        "codes": np.array([UNARGMAXABLE], np.int8), "radius_lower": np.zeros(1), "radius_upper": np.full(1, 1e-12),
        "points": np.full((1, 3), np.nan), "multiplier_ptr": np.array([0, len(labels)]),
        "multiplier_labels": np.array(labels), "multipliers": np.array(multipliers, float), "eps": 1e-8, "box": 1e4,
    }  # fmt: skip
    return Verdicts(**(given | changes))


@pytest.mark.parametrize(
    "forged",
    [
        forged_impossible([-1, 2], [1, 1]),
        forged_impossible([7, 2], [1, 1]),
        forged_impossible([2**40, 2], [1, 1]),
        forged_impossible(np.array([2**64 - 1, 2], np.uint64), [1, 1]),
        forged_impossible([0, 0], [1, 1]),
        forged_impossible([0, 1], [1, -1]),
        forged_impossible([0, 1], [1, np.nan]),
        forged_impossible([0, 1], [np.inf, 1]),
        forged_impossible([0, 1], [0, 0]),
        forged_impossible([0, 1], [1, 1], box=0.0),
        forged_impossible([0, 1], [1, 1], box=-1e4),
        forged_impossible([0, 1], [1, 1], box=np.nan),
        forged_impossible([0, 1], [1, 1], box=1e-300),
        forged_impossible([0, 1], [1, 1], box="1"),
        forged_impossible([0, 1], [1, 1], eps=np.inf, radius_upper=np.full(1, np.inf)),
        forged_impossible([0, 1], [1, 1], eps=-1.0),
        forged_impossible([0, 1], [1, 1], eps=None),
        forged_impossible([0, 1], [1, 1], multiplier_ptr=np.array([2, 0])),
        forged_impossible([0, 1], [1, 1], multiplier_ptr=np.array([0, 9])),
        forged_impossible([0, 1], [1, 1], multiplier_ptr=np.array([-2, 2])),
        forged_impossible([0, 1], [1, 1], multiplier_tails=np.array([-1.0, -1.0])),
        forged_impossible([0, 1], [1, 1], multiplier_tails=np.array([np.nan, 0.0])),
        forged_impossible([0, 1], [1, 1], codes=np.array([9])),
        forged_impossible([0, 1], [1, 1], codes=np.array([-1])),
        forged_impossible([], [], codes=np.array([UNDECIDED]), radius_upper=np.zeros(1)),
        forged_impossible([], [], codes=np.array([UNDECIDED]), radius_lower=np.full(1, 5.0)),
        forged_impossible([], [], codes=np.array([UNDECIDED]), radius_lower=np.full(1, -5.0)),
        forged_impossible([], [], codes=np.array([UNDECIDED]), radius_lower=np.full(1, np.nan)),
    ],
)
def test_no_forged_proof_of_a_set_that_is_there(forged):
    assert not check(np.eye(3), as_rows([[0]], 3), forged).any()


@pytest.mark.parametrize(
    "changes",
    [
        {"codes": np.zeros(2, np.int8)},
        {"codes": np.zeros(1)},
        {"codes": np.array(["argmaxable"])},
        {"points": np.zeros((1, 2))},
        {"points": np.zeros(3)},
        {"points": None},
        {"radius_upper": [[1.0]]},
        {"radius_lower": np.zeros(1, complex)},
        {"multiplier_ptr": np.zeros(1, int)},
        {"multiplier_labels": np.zeros(1, int)},
        {"multiplier_labels": np.array([0.0, 1.0])},
        {"multipliers": np.array(["a", "b"])},
        {"multiplier_tails": np.zeros(1)},
        {"point_tails": np.zeros((2, 3))},
    ],
)
def test_columns_that_do_not_fit_are_refused(changes):
    with pytest.raises(DataError, match="not of these weights and label sets"):
        check(np.eye(3), as_rows([[0]], 3), dataclasses.replace(forged_impossible([0, 1], [1, 1]), **changes))


def mutated(rng: np.random.Generator, v: Verdicts) -> Verdicts:
    """One change, of a kind by chance, at rows by chance."""
    n = len(v)
    row, other = rng.integers(0, n, 2)
    columns = {
        field.name: value.copy() if isinstance(value := getattr(v, field.name), np.ndarray) else value
        for field in dataclasses.fields(v)
    }
    codes, points, multipliers, labels = (columns[c] for c in ("codes", "points", "multipliers", "multiplier_labels"))
    begin, end = columns["multiplier_ptr"][row : row + 2]
    place = rng.integers(begin, end) if end > begin else 0
    kind = rng.integers(0, 18)
    if kind == 0:
        labels[place] = -1 - rng.integers(0, 5)
    elif kind == 1:
        labels[place] += rng.integers(1, 9)
    elif kind == 2:
        labels[begin:end] = labels[begin] if end > begin else 0
    elif kind == 3:
        multipliers[place] *= -1
    elif kind == 4:
        multipliers[place] = rng.choice([np.nan, np.inf, 0.0, 1e300])
    elif kind == 5:
        multipliers[begin:end] *= rng.random(end - begin) + 0.5
    elif kind == 6:
        multipliers[begin:end] *= 8.0  # as valid as before
    elif kind == 7:
        columns["box"] = float(rng.choice([-1.0, 0.0, np.nan, np.inf, 1.0, 1e6]))
    elif kind == 8:
        columns["eps"] = float(rng.choice([-1.0, 0.0, np.nan, np.inf, 1.0, 1e-12]))
    elif kind == 9:
        points[row] *= -1
    elif kind == 10:
        points[row, 0] = rng.choice([np.nan, np.inf, 1e5, 0.0])
    elif kind == 11:
        for name in ("codes", "radius_lower", "radius_upper", "points"):
            columns[name][[row, other]] = columns[name][[other, row]]
    elif kind == 12:
        codes[row] = rng.integers(-1, 4)
    elif kind == 13:
        columns["radius_lower"][row] *= 1 + 10.0 ** -rng.integers(3, 12)
    elif kind == 14:
        columns["radius_upper"][row] *= 1 - 10.0 ** -rng.integers(3, 12)
    elif kind == 15:
        columns["multiplier_ptr"][row] += rng.integers(-3, 4)
    elif kind == 16:
        columns["point_tails"] = np.where(np.isnan(points), 0.0, rng.standard_normal(points.shape))
    else:
        columns["multiplier_tails"] = rng.standard_normal(len(multipliers)) * 1e-3
    return Verdicts(**columns)


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_mutation_passes_only_where_it_is_true(has_bias):
    rng = np.random.default_rng(11 + has_bias)
    W = rng.standard_normal((5, 2))
    W[3] = W[1]
    bias = rng.standard_normal(5) if has_bias else None
    Y = all_sets(5)
    verdicts = verify(W, Y, bias, radius="exact")
    assert check(W, Y, verdicts, bias).all()
    truths: dict[float, list[Fraction]] = {}
    refused = 0
    for _ in range(200):
        forged = mutated(rng, verdicts)
        holds = check(W, Y, forged, bias)
        refused += not holds.all()
        if not holds.any():
            continue
        assert forged.eps > 0
        if forged.box not in truths:
            found = [exact_radius(W, Y[row].indices, bias, forged.box) for row in range(32)]
            truths[forged.box] = [max(radius or Fraction(0), Fraction(0)) for radius in found]
        hair = 1 + Fraction(1, 2**200)  # of the oracle's norms
        for row in np.flatnonzero(holds):
            radius = truths[forged.box][row]
            assert Fraction(forged.radius_lower[row]) <= radius * hair
            assert forged.radius_upper[row] == np.inf or Fraction(forged.radius_upper[row]) * hair >= radius
            assert forged.codes[row] != ARGMAXABLE or radius * hair > Fraction(forged.eps)
            assert forged.codes[row] != UNARGMAXABLE or radius <= Fraction(forged.eps) * hair
            assert forged.codes[row] in (ARGMAXABLE, UNARGMAXABLE, UNDECIDED)
    assert refused > 120


def test_verdicts_of_other_sets_and_biases_do_not_pass():
    W = np.random.default_rng(0).standard_normal((5, 3))
    Y, bias = all_sets(5), np.full(5, 1e6)
    verdicts = verify(W, Y)
    assert not check(W, sp.csr_matrix(Y[::-1]), verdicts)[verdicts.argmaxable].any()
    assert not check(W, Y, verdicts, bias)[verdicts.argmaxable].any()
    with pytest.raises(DataError, match="label sets of 6 labels"):
        check(W, all_sets(6), verdicts)
