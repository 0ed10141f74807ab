"""Kernels that copy a node's rows with their features renumbered, and keep the large weights of a trained block.

Holds no solver.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit


class SparseRows(NamedTuple):
    """CSR rows of a matrix, and the factor that each row counts with."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # int32
    values: np.ndarray  # float32
    scales: np.ndarray  # float32, one per row


class NodeRows(NamedTuple):
    """The rows of one node, times their factors, with features renumbered from 0."""

    indptr: np.ndarray  # int64
    columns: np.ndarray  # uint32
    values: np.ndarray  # float32
    squares: np.ndarray  # float32, one per row: squared length, the bias feature included


@jit
def count_features(indptr, indices, rows, seen):
    """Mark in `seen` the features that the rows have; returns (entries of the rows, features marked)."""
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
def gather_rows(X, rows, seen, bias, numbers, features, node):
    """Copy the given rows of X, times their factors, with the features in `seen` numbered 0, 1, ... in their order.

    Fills `features` (number -> feature) and the arrays of `node`. numbers: scratch, one per feature.
    """
    count = 0
    for feature in range(len(seen)):
        if seen[feature]:
            features[count] = feature
            numbers[feature] = count
            count += 1
    at = 0
    node.indptr[0] = 0
    for place in range(len(rows)):
        row = rows[place]
        total = np.float64(bias) * np.float64(bias)
        for entry in range(X.indptr[row], X.indptr[row + 1]):
            value = X.values[entry] * X.scales[row]
            node.columns[at] = numbers[X.indices[entry]]
            node.values[at] = value
            total += np.float64(value) * np.float64(value)
            at += 1
        node.indptr[place + 1] = at
        node.squares[place] = total


@jit
def count_large(block, n_lanes, threshold, counts):
    """For each feature of the block, count the weights whose size is at least the threshold."""
    for feature in range(len(counts)):
        count = 0
        for lane in range(n_lanes):
            if abs(block[feature, lane]) >= threshold:
                count += 1
        counts[feature] = count


@jit
def keep_large(block, n_lanes, threshold, lanes, weights):
    """Copy the weights that `count_large` counts, feature after feature, and the lane of each."""
    at = 0
    for feature in range(len(block) - 1):
        for lane in range(n_lanes):
            weight = block[feature, lane]
            if abs(weight) >= threshold:
                lanes[at] = lane
                weights[at] = weight
                at += 1
