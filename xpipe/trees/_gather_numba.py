"""A node's own data and back: its rows with their features renumbered, and its weights without the small ones.

Holds no solver.
"""

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit


@jit
def count_features(indptr, indices, rows, seen):
    """Mark in `seen` the features the rows have; gives (entries, features marked)."""
    entries = 0
    features = 0
    for row in rows:
        entries += indptr[row + 1] - indptr[row]
        for entry in range(indptr[row], indptr[row + 1]):
            feature = indices[entry]
            features += 1 - seen[feature]
            seen[feature] = 1
    return entries, features


@jit
def gather_rows(indptr, indices, values, scales, rows, seen, bias, numbers, features, own_ptr, columns, own_values,
                squares):  # fmt: skip
    """Copy rows, times their scales, with the marked features numbered 0, 1, ... in their order.

    Fills features (number -> feature), the rows own_ptr, columns, own_values, and their squared lengths with the bias.
    numbers: scratch, one a feature.
    """
    count = 0
    for feature in range(len(seen)):
        if seen[feature]:
            features[count] = feature
            numbers[feature] = count
            count += 1
    at = 0
    own_ptr[0] = 0
    for place in range(len(rows)):
        row = rows[place]
        total = np.float64(bias) * np.float64(bias)
        for entry in range(indptr[row], indptr[row + 1]):
            value = values[entry] * scales[row]
            columns[at] = numbers[indices[entry]]
            own_values[at] = value
            total += np.float64(value) * np.float64(value)
            at += 1
        own_ptr[place + 1] = at
        squares[place] = total


@jit
def count_large(block, n_lanes, threshold, counts):
    """Weights of each feature of the block not below the threshold in size."""
    for feature in range(len(counts)):
        count = 0
        for lane in range(n_lanes):
            if abs(block[feature, lane]) >= threshold:
                count += 1
        counts[feature] = count


@jit
def keep_large(block, n_lanes, threshold, lanes, weights):
    """The weights that `count_large` counts, feature after feature."""
    at = 0
    for feature in range(len(block) - 1):
        for lane in range(n_lanes):
            weight = block[feature, lane]
            if abs(weight) >= threshold:
                lanes[at] = lane
                weights[at] = weight
                at += 1
