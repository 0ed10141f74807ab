"""The number at a place of the sorted order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from xpipe.ground._selection_numba import select_number

NUMBERS = st.integers(-3, 3).map(float) | st.floats(allow_nan=False)  # many are equal


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(data=st.data())
def test_every_place(kind, data):
    with np.errstate(over="ignore"):
        numbers = np.array(data.draw(st.lists(NUMBERS, min_size=1, max_size=40))).astype(kind)
    place = data.draw(st.integers(0, len(numbers) - 1))
    assert select_number(numbers.copy(), place) == oracles.select_number(numbers.tolist(), place)


@pytest.mark.parametrize("n_numbers", [1, 2, 1000, 1001])
def test_orders_that_are_there_already(n_numbers):
    for numbers in (np.arange(n_numbers), np.arange(n_numbers)[::-1], np.zeros(n_numbers)):
        for place in (0, n_numbers // 2, n_numbers - 1):
            own = numbers.astype(np.float64)
            assert select_number(own, place) == oracles.select_number(numbers.tolist(), place)
