"""Kernels that copy a node's rows with their features renumbered, and keep the large weights of what was trained.

Holds no solver. A feature that two rows or more of the node have is *shared*, and has a row of weights in the solver's
block. A feature that one row alone has needs none: its weights are the duals of that row times its value. In leaves of
wide data most features are of this kind.
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
    """The rows of one node, times their factors: shared features, numbered from 0, and what the others add up to."""

    indptr: np.ndarray  # int64
    columns: np.ndarray  # uint32: numbers of shared features
    values: np.ndarray  # float32
    alone: np.ndarray  # float32, one per row: squared length of the features that no other row has
    squares: np.ndarray  # float32, one per row: squared length of all features, the bias feature included


class NodeFeatures(NamedTuple):
    """The features of a node, ascending. Feature f is shared number places[f], or that of row -1 - places[f] alone."""

    features: np.ndarray  # int32
    places: np.ndarray  # int64
    values: np.ndarray  # float32: the value that the only row has; 0 for shared features


@jit
def count_rows(indptr, indices, rows, counts):
    """Count for each feature how many of the rows have it, up to 2 (uint8); returns the entries of the rows."""
    entries = 0
    for row in rows:
        entries += indptr[row + 1] - indptr[row]
        for entry in range(indptr[row], indptr[row + 1]):
            counts[indices[entry]] = min(counts[indices[entry]] + 1, 2)
    return entries


@jit
def number_features(counts, numbers, found):
    """Number the features: places in `found` (numbers, uint32), and fills its features and places.

    The places of features that are not shared are filled by `gather_rows`.
    """
    place = 0
    shared = 0
    for feature in range(len(counts)):
        if counts[feature] == 0:
            continue
        found.features[place] = feature
        found.values[place] = np.float32(0.0)
        if counts[feature] == 1:
            numbers[feature] = place
        else:
            numbers[feature] = shared
            found.places[place] = shared
            shared += 1
        place += 1


@jit
def gather_rows(X, rows, first, at, counts, numbers, bias, node, found):
    """Copy the given rows of X, times their factors, to the node's rows `first` and following.

    at: where their entries begin; returns where they end. counts, numbers: of `count_rows` and `number_features`.
    """
    for place in range(len(rows)):
        row = rows[place]
        total = np.float64(bias) * np.float64(bias)
        alone = 0.0
        node.indptr[first + place] = at
        for entry in range(X.indptr[row], X.indptr[row + 1]):
            feature = X.indices[entry]
            value = X.values[entry] * X.scales[row]
            square = np.float64(value) * np.float64(value)
            total += square
            if counts[feature] == 1:
                alone += square
                found.places[numbers[feature]] = -1 - (first + place)
                found.values[numbers[feature]] = value
            else:
                node.columns[at] = numbers[feature]
                node.values[at] = value
                at += 1
        node.indptr[first + place + 1] = at
        node.alone[first + place] = alone
        node.squares[first + place] = total
    return at


@jit
def count_large(block, betas, found, n_lanes, threshold, counts):
    """counts[f] = how many weights of feature f have at least the size of the threshold; returns how many all have."""
    total = 0
    for place in range(len(counts)):
        least, row = found.places[place], 0
        source = betas[-1 - least, :n_lanes] if least < 0 else block[least, :n_lanes]
        value = found.values[place] if least < 0 else np.float32(1)
        for lane in range(len(source)):
            row += abs(source[lane] * value) >= threshold  # no branch: many lanes at once
        counts[place] = row
        total += row
    return total


@jit
def keep_large(block, betas, found, n_lanes, threshold, counts, lanes, weights):
    """Write the weights that `count_large` has counted, feature after feature. There is room for one more."""
    at = 0
    for place in range(len(counts)):
        if counts[place] == 0:
            continue
        least = found.places[place]
        source = betas[-1 - least, :n_lanes] if least < 0 else block[least, :n_lanes]
        value = found.values[place] if least < 0 else np.float32(1)
        for lane in range(len(source)):
            weight = source[lane] * value
            lanes[at], weights[at] = lane, weight  # the next one takes its place, unless it is large
            at += abs(weight) >= threshold


@jit
def add_weights(features, feature_ptr, lanes, weights, total):
    """total[feature, lane] += the weights of a unit."""
    for place in range(len(features)):
        target = total[features[place]]
        for entry in range(feature_ptr[place], feature_ptr[place + 1]):
            target[lanes[entry]] += weights[entry]
