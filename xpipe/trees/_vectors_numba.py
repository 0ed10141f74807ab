"""Kernel that adds up the rows of each label and keeps the largest sums.

Holds no clustering.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground._selection_numba import select_number
from xpipe.ground.accelerate import jit


class VectorScratch(NamedTuple):
    """Work space of one thread. `sums` is zeros and `is_touched` is False before and after every use."""

    sums: np.ndarray  # float32 [n_features]
    is_touched: np.ndarray  # bool [n_features]
    touched: np.ndarray  # int32 [n_features]


@jit
def keep_largest(sums, features, most):
    """Sort the features; of more than `most`, only those with the largest sums (of equal ones the smaller feature).

    Returns the features that stay, ascending.
    """
    if len(features) <= most:
        return np.sort(features)
    sizes = np.empty(len(features), np.float32)
    for place in range(len(features)):
        sizes[place] = abs(sums[features[place]])
    limit = select_number(sizes.copy(), len(sizes) - most)
    above = 0
    near = 0
    for place in range(len(features)):
        above += 1 if sizes[place] > limit else 0
        near += 1 if sizes[place] >= limit else 0
    candidates = np.empty(near, np.int32)
    at = 0
    for place in range(len(features)):
        if sizes[place] >= limit:
            candidates[at] = features[place]
            at += 1
    candidates = np.sort(candidates)
    kept = np.empty(most, np.int32)
    equal = most - above
    at = 0
    for feature in candidates:
        if abs(sums[feature]) == limit:
            if equal == 0:
                continue
            equal -= 1
        kept[at] = feature
        at += 1
    return kept


@jit
def sum_labels(X, label_ptr, label_places, most, scratch, starts, counts, indices, values):
    """Add up the rows of each label, times their factors, in their order.

    X: SparseRows. label_places[label_ptr[i] : label_ptr[i + 1]]: the rows of label i in X. Label i gets counts[i]
    entries from starts[i] on, features ascending; there is room for `most`.
    """
    sums, is_touched, touched = scratch.sums, scratch.is_touched, scratch.touched
    for label in range(len(counts)):
        count = 0
        for at in range(label_ptr[label], label_ptr[label + 1]):
            row = label_places[at]
            scale = X.scales[row]
            for entry in range(X.indptr[row], X.indptr[row + 1]):
                feature = X.indices[entry]
                sums[feature] += scale * X.values[entry]
                if not is_touched[feature]:
                    is_touched[feature] = True
                    touched[count] = feature
                    count += 1
        kept = keep_largest(sums, touched[:count], most)
        for place in range(len(kept)):
            indices[starts[label] + place] = kept[place]
            values[starts[label] + place] = sums[kept[place]]
        counts[label] = len(kept)
        for place in range(count):
            sums[touched[place]] = np.float32(0.0)
            is_touched[touched[place]] = False
