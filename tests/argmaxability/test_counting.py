"""Cover's count, exactly and as a share."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.argmaxability.oracles import argmaxable_sets
from xpipe.argmaxability import count_argmaxable, log10_share
from xpipe.errors import ConfigError


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 1), (5, 2), (6, 3), (7, 4), (4, 6)])
def test_the_count_is_that_of_enumeration(n, d):
    W = np.random.default_rng(n * d).standard_normal((n, d))
    assert count_argmaxable(n, d) == len(argmaxable_sets(W))


def test_the_formula():
    for n, d in ((40, 7), (300, 150), (10, 30)):
        assert count_argmaxable(n, d) == 2 * sum(math.comb(n - 1, i) for i in range(d))
    assert count_argmaxable(100, 100) == 2**100


@pytest.mark.parametrize(("n", "d"), [(10, 9), (30, 4), (200, 100), (60, 59), (3000, 20), (500, 400)])
def test_the_share(n, d):
    share = Fraction(count_argmaxable(n, d), 2**n)
    if share > Fraction(1, 2):
        expected = math.log1p(-float(1 - share)) / math.log(10)
    else:
        expected = math.log10(share.numerator) - math.log10(share.denominator)
    assert log10_share(n, d) == pytest.approx(expected, rel=1e-12)
    assert log10_share(n, d) < 0 or (n, d) == (500, 400)


def test_all_sets_and_no_head():
    assert log10_share(7, 7) == log10_share(7, 9) == 0.0
    for n, d in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError, match="at least one"):
            count_argmaxable(n, d)
        with pytest.raises(ConfigError, match="at least one"):
            log10_share(n, d)
