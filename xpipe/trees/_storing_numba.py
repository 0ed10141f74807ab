"""Kernel that checks the weights of a stored forest before any of its numbers is used as a place.

Holds no files and no messages: what is wrong has a number. Temporary arrays would be larger than the forest itself.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

RIGHT, OUT_OF_RANGE, NOT_ASCENDING, NO_CHILD, NOT_FINITE = range(5)


@jit
def falls(pointers):
    """Whether a pointer is below the one before it."""
    lower = 0
    for place in range(1, len(pointers)):
        lower += pointers[place] < pointers[place - 1]
    return lower > 0


@jit
def check_weights(weights, n_children, n_features):
    """What is wrong with the weights of units with so many children each. All pointers must be right already."""
    found = RIGHT
    for unit in range(len(n_children)):
        first, last = weights.feature_ptr[unit], weights.feature_ptr[unit + 1]
        for place in range(first, last):
            feature = weights.features[place]
            if feature < 0 or feature >= n_features:
                return OUT_OF_RANGE
            if place > first and feature <= weights.features[place - 1]:
                found = NOT_ASCENDING if found == RIGHT else min(found, NOT_ASCENDING)
        for entry in range(weights.entry_ptr[first], weights.entry_ptr[last]):
            if weights.lanes[entry] >= n_children[unit]:
                found = NO_CHILD if found == RIGHT else min(found, NO_CHILD)
            if not np.isfinite(weights.weights[entry]):
                found = NOT_FINITE if found == RIGHT else found
    for bias in weights.biases:
        if not np.isfinite(bias):
            found = NOT_FINITE if found == RIGHT else found
    return found
