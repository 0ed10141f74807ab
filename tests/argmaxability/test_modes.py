"""Modes and inputs against exact rational arithmetic, and against the full LP of another formulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.argmaxability.oracles import all_sets, as_rows, exact_margin
from xpipe.argmaxability import Verdicts, check, verify
from xpipe.argmaxability.output_layer import row_norms
from xpipe.errors import ConfigError, DataError

BOX = 1e4


def weights(n, d, kind):
    """Weights that often touch: whole numbers, equal rows, a row of zeros; or Gaussian ones."""
    rng = np.random.default_rng(100 * n + 10 * d + len(kind))
    if kind == "gaussian":
        return rng.standard_normal((n, d)), rng.standard_normal(n)
    W = rng.integers(-2, 3, (n, d)) + 0.0
    W[1], W[-1] = W[0], 0
    return W, rng.integers(-2, 3, n) + 0.0


def assert_equal_to_rationals(W, Y, verdicts, bias):
    """Every verdict, and both bounds of the radius, against the optimum in rationals."""
    sign = verdicts.mode == "sign"
    largest = 1.0 if sign else float(row_norms(W).max()) or 1.0
    seen = set()
    for row in range(Y.shape[0]):
        margin = exact_margin(
            W, Y[row].indices, bias, BOX, verdicts.inputs == "nonnegative", "sign" if sign else "topk"
        )
        lower, upper = verdicts.radius_lower[row], verdicts.radius_upper[row]
        if margin is None:
            assert verdicts.argmaxable[row]
            assert lower == np.inf
            continue
        radius = margin / Fraction(largest)
        seen.add(verdicts.status[row])
        assert verdicts.status[row] == ("argmaxable" if radius > Fraction(verdicts.eps) else "unargmaxable"), row
        assert lower <= float(radius) * (1 + 1e-12) or lower == 0
        assert upper >= max(float(radius), 0) * (1 - 1e-12)
    assert seen  # the test would be empty otherwise


@pytest.mark.parametrize("inputs", ["any", "nonnegative"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("n", "d", "kind"), [(5, 2, "whole"), (4, 3, "gaussian"), (5, 1, "whole")])
def test_all_subsets_are_those_of_rational_arithmetic(n, d, kind, with_bias, inputs):
    W, bias = weights(n, d, kind)
    shift = bias if with_bias else None
    for mode, Y in (("sign", all_sets(n)), ("topk", all_sets(n)), ("argmax", as_rows([[i] for i in range(n)], n))):
        verdicts = verify(W, None if mode == "argmax" else Y, shift, mode=mode, inputs=inputs, radius="exact")
        assert (verdicts.mode, verdicts.inputs) == (mode, inputs)
        assert check(W, Y, verdicts, shift).all()
        assert_equal_to_rationals(W, Y, verdicts, shift)
        possible = verdicts.argmaxable
        assert verdicts.exact[possible].all()


def test_the_largest_case_has_every_kind_of_set():
    """Eight rows in three dimensions: possible and impossible sets of every size, for both kinds of inputs."""
    W, bias = weights(8, 3, "whole")
    Y = all_sets(8)
    chosen = Y[np.random.default_rng(0).choice(256, 25, replace=False)]
    for inputs in ("any", "nonnegative"):
        verdicts = verify(W, chosen, bias, mode="topk", inputs=inputs)
        assert set(verdicts.status) == {"argmaxable", "unargmaxable"}
        assert check(W, chosen, verdicts, bias).all()
        assert_equal_to_rationals(W, chosen, verdicts, bias)


def full_lp(W, labels, bias, mode, nonnegative) -> float:
    """The radius by the LP with all rows, and the threshold as a free variable."""
    n, d = W.shape
    signs = np.full(n, -1.0)
    signs[labels] = 1.0
    sign = mode == "sign"
    sizes = row_norms(W) if sign else np.full(n, row_norms(W).max())
    threshold = np.zeros((n, 1)) if sign else signs[:, None]
    A = np.hstack([-signs[:, None] * W, threshold, sizes[:, None]])
    limits = [*[(0 if nonnegative else -BOX, BOX)] * d, (0, 0) if sign else (None, None), (None, None)]
    shifts = np.zeros(n) if bias is None else signs * bias
    answer = linprog(np.append(np.zeros(d + 1), -1.0), A_ub=A, b_ub=shifts, bounds=limits, method="highs")
    assert answer.status == 0
    return -answer.fun


@pytest.mark.parametrize("mode", ["sign", "topk", "argmax"])
@pytest.mark.parametrize("inputs", ["any", "nonnegative"])
def test_agreement_with_the_full_lp(mode, inputs):
    """A sample; `benchmarks/argmaxability.py --agree` compares hundreds of larger ones."""
    rng = np.random.default_rng(len(mode))
    n, d = 150, 12
    W = rng.standard_normal((n, d)) * np.exp(0.3 * rng.standard_normal(n))[:, None]
    x = np.abs(rng.standard_normal((8, d)))
    size = 1 if mode == "argmax" else 4
    top = [np.sort(np.argsort(-(W @ row))[:size]) for row in x[:4]]
    if mode == "sign":
        top = [np.flatnonzero(W @ row > 0) for row in x[:4]]
    Y = as_rows([*top, *(rng.choice(n, size, replace=False) for _ in range(4))], n)
    bias = 0.1 * rng.standard_normal(n) if mode == "topk" else None
    verdicts = verify(W, Y, bias, mode=mode, inputs=inputs, radius="exact")
    assert check(W, Y, verdicts, bias).all()
    radii = [full_lp(W, Y[row].indices, bias, mode, inputs == "nonnegative") for row in range(8)]
    assert verdicts.argmaxable.tolist() == [radius > 1e-8 for radius in radii]
    assert verdicts.argmaxable[:4].all()
    for row in np.flatnonzero(verdicts.argmaxable):
        assert verdicts.radius_lower[row] == pytest.approx(radii[row], rel=1e-5)
        assert verdicts.radius_upper[row] == pytest.approx(radii[row], rel=1e-5)


def test_what_a_mode_cannot_be_asked():
    W = np.eye(3)
    with pytest.raises(DataError, match="not exactly one label"):
        verify(W, as_rows([[0, 1]], 3), mode="argmax")
    with pytest.raises(ConfigError, match="no label sets"):
        verify(W, mode="topk")
    with pytest.raises(ConfigError, match="`mode` must be"):
        verify(W, as_rows([[0]], 3), mode="top")
    with pytest.raises(ConfigError, match="`inputs` must be"):
        verify(W, as_rows([[0]], 3), inputs="positive")
    with pytest.raises(DataError, match="not finite"):
        verify(np.array([[1.0], [np.nan]]), mode="argmax")
    with pytest.raises(DataError, match="bias must be 3"):
        verify(W, as_rows([[0]], 3), np.zeros(2), mode="topk")


def test_tables_name_their_question():
    """A file of another mode is read as what it is; the usual question has the format of old files."""
    W, Y = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), as_rows([[0], [2]], 3)
    for mode, inputs, version in (("sign", "any", b"2"), ("topk", "any", b"3"), ("sign", "nonnegative", b"3")):
        verdicts = verify(W, Y, mode=mode, inputs=inputs)
        table = verdicts.to_table(Y.indptr, Y.indices)
        assert table.schema.metadata[b"xpipe.verdicts"] == version
        back = Verdicts.from_table(table)
        assert (back.mode, back.inputs) == (mode, inputs)
        assert check(W, Y, back).all()
        with pytest.raises(DataError):
            Verdicts.from_table(
                table.replace_schema_metadata({**table.schema.metadata, b"xpipe.verdicts": b"3", b"mode": b"x"})
            )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_weights_are_taken_as_they_are(dtype):
    """The verdicts are those of the same numbers in float64, to the byte."""
    W = np.random.default_rng(3).standard_normal((40, 3)).astype(dtype)
    narrow, wide = verify(W, mode="argmax"), verify(W.astype(np.float64), mode="argmax")
    assert set(narrow.status) == {"argmaxable", "unargmaxable"}
    assert np.array_equal(narrow.points, wide.points, equal_nan=True)
    assert np.array_equal(narrow.multipliers, wide.multipliers)
    assert check(W, None, narrow).all()
