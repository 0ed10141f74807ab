"""Sums of pieces on a device are exact to the type, have one order, and ask the device for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.array_module import DeviceArray
from tests.array_module import array_module as xp
from xpipe.eagle._pieces_cupy import Absorbing, passes_of, reduce_pieces, spread_known, sum_columns


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None)
def test_pieces_are_reduced(lengths, width, seed):
    draw, total = np.random.default_rng(seed), sum(lengths)
    values = draw.standard_normal((total, width) if width > 1 else total)
    piece, place, starts = spread_known(xp, xp.asarray(np.array(lengths)), total)
    assert piece.get().tolist() == np.repeat(np.arange(len(lengths)), lengths).tolist()
    assert place.get().tolist() == [number for length in lengths for number in range(length)]
    if not total:
        return
    filled = [number for number, length in enumerate(lengths) if length]
    firsts = starts.get()[filled]
    times = Absorbing(xp, max(lengths)).times(place, xp.asarray(np.array(lengths))[piece])
    parts = np.split(values, np.cumsum(lengths)[:-1])
    for combine, plain in ((xp.add, np.sum), (xp.maximum, np.max)):
        found = reduce_pieces(xp, combine, xp.asarray(values), times, passes_of(max(lengths))).get()[firsts]
        np.testing.assert_allclose(found, [plain(parts[number], axis=0) for number in filled], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 100])
def test_pieces_beside_a_piece_change_no_bit(length):
    draw = np.random.default_rng(0)
    values, others = draw.standard_normal(length).astype(np.float32), draw.standard_normal(200).astype(np.float32)

    def total(lengths, numbers):
        sizes = xp.asarray(np.array(lengths))
        piece, place, starts = spread_known(xp, sizes, sum(lengths))
        times = Absorbing(xp, max(lengths)).times(place, sizes[piece])
        return reduce_pieces(xp, xp.add, xp.asarray(numbers), times, passes_of(max(lengths))), starts.get()

    alone, _ = total([length], values)
    beside, starts = total([150, length, 50], np.concatenate([others[:150], values, others[150:]]))
    assert alone.get()[0].tobytes() == beside.get()[starts[1]].tobytes()


@pytest.mark.parametrize("width", [0, 1, 2, 5, 8, 31])
def test_sum_columns(width):
    values = np.random.default_rng(0).standard_normal((6, width))
    np.testing.assert_allclose(sum_columns(xp, xp.asarray(values)).get(), values.sum(axis=1), atol=1e-12)
    assert isinstance(sum_columns(xp, xp.asarray(values)), DeviceArray)
