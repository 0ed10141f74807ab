"""splitmix64: the published stream, and hashes of many numbers."""

from __future__ import annotations

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, hash_numbers, mix

STREAM_OF_0 = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # published, for seed 0


def test_the_generator_is_splitmix64():
    state = np.uint64(0)
    for value in STREAM_OF_0:
        with np.errstate(over="ignore"):
            state += GOLDEN
        assert int(mix(state)) == value


def test_a_hash_is_the_first_draw_of_a_number():
    numbers = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    hashes = np.empty_like(numbers)
    hash_numbers(numbers, hashes)
    assert int(hashes[0]) == STREAM_OF_0[0]
    with np.errstate(over="ignore"):
        assert hashes.tolist() == [int(mix(number + GOLDEN)) for number in numbers]
