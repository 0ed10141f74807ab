"""splitmix64, the one random generator of the kernels: a counter that grows by GOLDEN, and a function that mixes it.

Holds no distribution and no seeding (`seeding`). One draw: `state += GOLDEN`, then `bits = mix(state)`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)


@jit
def mix(state):
    """64 random bits (uint64) of a generator's state (uint64): the output function of splitmix64."""
    z = (state ^ (state >> SHIFT_30)) * MIX_1
    z = (z ^ (z >> SHIFT_27)) * MIX_2
    return z ^ (z >> SHIFT_31)


@jit
def hash_numbers(numbers, hashes):
    """Hash uint64 numbers: each hash is the first draw of a generator whose state is the number."""
    for place in range(len(numbers)):
        hashes[place] = mix(numbers[place] + GOLDEN)
