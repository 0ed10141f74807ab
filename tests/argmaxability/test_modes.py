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
@pytest.mark.parametrize(("n", "d", "kind"), [(6, 2, "whole"), (5, 3, "gaussian"), (6, 1, "whole")])
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
    chosen = Y[np.random.default_rng(0).choice(256, 60, replace=False)]
    for inputs in ("any", "nonnegative"):
        verdicts = verify(W, chosen, bias, mode="topk", inputs=inputs)
        assert set(verdicts.status) == {"argmaxable", "unargmaxable"}
        assert check(W, chosen, verdicts, bias).all()
        assert_equal_to_rationals(W, chosen, verdicts, bias)
