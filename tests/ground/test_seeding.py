"""Randomness: golden values, so that no version of numpy and no platform changes a dataset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpipe.ground.seeding import bit_generator, permutation


def test_golden_permutations():
    assert permutation(10, 0, "group").tolist() == [1, 5, 6, 9, 4, 0, 3, 8, 7, 2]
    assert permutation(10, 1, "group").tolist() == [7, 0, 8, 2, 9, 1, 4, 5, 3, 6]
    assert permutation(10, 0, "emit", "heads").tolist() == [2, 1, 3, 8, 6, 5, 4, 7, 0, 9]


def test_golden_stream():
    words = [13738692138793024314, 15211789841169079611, 15144581334054983027]
    assert [int(word) for word in bit_generator(7, "rows", 3).random_raw(3)] == words


@given(st.integers(0, 200), st.integers(0, 2**63 - 1))
def test_a_permutation_has_every_number_once(n, seed):
    order = permutation(n, seed, "any")
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))
    np.testing.assert_array_equal(order, permutation(n, seed, "any"))


@pytest.mark.parametrize("other", [(1, "group"), (0, "emit"), (0, "group", 0), (0, "group", "x")])
def test_seed_and_purpose_change_the_order(other):
    assert permutation(100, 0, "group").tolist() != permutation(100, *other).tolist()
