"""Kernels of `clustering`: balanced spherical k-means of the rows of a node, for a range of nodes of one level.

Holds no validation and no threads. The work of a node touches the entries of its rows only, never all features: sums
are cleared through these entries, and the length of a sum comes from the products of its rows with it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit
from xpipe.grouping._balance_numba import assign_balanced

NOISE_BYTES = 32  # random bytes per row: the upper half of each chooses a coordinate of its block, the lower a value
NOISE_BLOCK = 16
NOISE_LEVELS = (2.0 * np.arange(16) - 15.0) / np.sqrt(85.0 * NOISE_BYTES)  # their mean square is 1 / NOISE_BYTES
SHIFT_11 = np.uint64(11)
UNIT = 2.0**-53


class Vectors(NamedTuple):
    """The vectors that are clustered: CSR rows times `scales`, plus `noise` times the values of their random bytes."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # int32
    values: np.ndarray  # float32
    scales: np.ndarray  # float64
    noise_bytes: np.ndarray  # uint8 [n_rows, NOISE_BYTES]; no rows where there is no noise
    noise: float


@jit
def fill_scales(indptr, values, scales):
    """1 / length of each row; 0 for a row without length."""
    for row in range(len(scales)):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[entry]) * np.float64(values[entry])
        scales[row] = 1.0 / np.sqrt(total) if total > 0.0 else 0.0


@jit
def add_row(vectors, row, weight, child, sums, noise_sums):
    """Add a unit row and its noise, times `weight`, to the sum of a child."""
    factor = weight * vectors.scales[row]
    for entry in range(vectors.indptr[row], vectors.indptr[row + 1]):
        sums[vectors.indices[entry], child] += factor * vectors.values[entry]
    if vectors.noise > 0.0:
        for block in range(NOISE_BYTES):
            byte = vectors.noise_bytes[row, block]
            noise_sums[NOISE_BLOCK * block + (byte >> 4), child] += weight * vectors.noise * NOISE_LEVELS[byte & 15]


@jit
def multiply_row(vectors, row, first, last, sums, noise_sums, products):
    """Products of a unit row and its noise with the sums of the children first..last-1."""
    if last - first == 2:  # the same additions in the same order as below, twice as fast
        one = 0.0
        two = 0.0
        for entry in range(vectors.indptr[row], vectors.indptr[row + 1]):
            feature = vectors.indices[entry]
            one += vectors.values[entry] * sums[feature, first]
            two += vectors.values[entry] * sums[feature, first + 1]
        products[first] = one
        products[first + 1] = two
    else:
        for child in range(first, last):
            products[child] = 0.0
        for entry in range(vectors.indptr[row], vectors.indptr[row + 1]):
            for child in range(first, last):
                products[child] += vectors.values[entry] * sums[vectors.indices[entry], child]
    for child in range(first, last):
        product = vectors.scales[row] * products[child]
        if vectors.noise > 0.0:
            total = 0.0
            for block in range(NOISE_BYTES):
                byte = vectors.noise_bytes[row, block]
                total += NOISE_LEVELS[byte & 15] * noise_sums[NOISE_BLOCK * block + (byte >> 4), child]
            product += vectors.noise * total
        products[child] = product


@jit
def clear_sums(vectors, rows, sums, noise_sums):
    """Set the sums of all features of the rows back to 0."""
    for row in rows:
        for entry in range(vectors.indptr[row], vectors.indptr[row + 1]):
            sums[vectors.indices[entry], :] = 0.0
        if vectors.noise > 0.0:
            for block in range(NOISE_BYTES):
                noise_sums[NOISE_BLOCK * block + (vectors.noise_bytes[row, block] >> 4), :] = 0.0


@jit
def draw_position(weights, bits):
    """A random position, with a chance in proportion to its weight; where all weights are 0, any position."""
    total = 0.0
    for weight in weights:
        total += weight
    if total <= 0.0:
        return np.int64(bits % np.uint64(len(weights)))
    target = np.float64(bits >> SHIFT_11) * UNIT * total
    reached = 0.0
    last = 0
    for position in range(len(weights)):
        if weights[position] > 0.0:
            reached += weights[position]
            last = position
            if reached > target:
                break
    return last


class Split(NamedTuple):
    """A node that is being split: what its rows have come to so far. `sums` are those of its children."""

    scores: np.ndarray  # float64 [n_rows, arity]
    assigned: np.ndarray  # int32: the child of each row
    nearest: np.ndarray  # float64: the highest cosine of each row with a seed
    weights: np.ndarray  # float64: the chance of each row to become the next seed, but for a factor
    lengths: np.ndarray  # float64
    sums: np.ndarray  # float64 [n_features, arity]; 0 before and after
    noise_sums: np.ndarray


@jit
def weigh_rows(vectors, rows, nearest, weights, lengths):
    """Before there is a seed: lengths of the rows, and the same chance for all that have one."""
    nearest[:] = -1.0
    for position in range(len(rows)):
        square = 0.0
        if vectors.noise > 0.0:
            for block in range(NOISE_BYTES):
                square += NOISE_LEVELS[vectors.noise_bytes[rows[position], block] & 15] ** 2
        unit = 1.0 if vectors.scales[rows[position]] > 0.0 else 0.0
        lengths[position] = np.sqrt(unit + vectors.noise * vectors.noise * square)
        weights[position] = 1.0 if lengths[position] > 0.0 else 0.0


@jit
def choose_seed(vectors, rows, child, bits, split):
    """k-means++ on the sphere: a row becomes the next seed with a chance of 1 - its cosine with the nearest seed.

    Adds it to the sums, and returns its position. Rows of zeros do not become seeds.
    """
    position = draw_position(split.weights, bits)
    split.nearest[position] = np.inf  # a row is a seed once
    add_row(vectors, rows[position], 1.0, child, split.sums, split.noise_sums)
    return position


@jit
def score_seed(vectors, rows, child, length, split, first, last):
    """Products of the rows at first..last-1 with the only row of a child, which has this length."""
    scores, nearest, lengths = split.scores, split.nearest, split.lengths
    for other in range(first, last):
        multiply_row(vectors, rows[other], child, child + 1, split.sums, split.noise_sums, scores[other])
        if length > 0.0:
            scores[other, child] /= length
        if lengths[other] > 0.0:
            nearest[other] = max(nearest[other], scores[other, child] / lengths[other])
            distance = 1.0 - nearest[other]
            split.weights[other] = distance if distance > 1e-12 else 0.0


@jit
def assign_seeds(vectors, rows, starts, split):
    """The first parts, by the products with the seeds, and their sums."""
    assign_balanced(split.scores, starts, split.assigned)
    for position in range(len(rows)):
        add_row(vectors, rows[position], 1.0, split.assigned[position], split.sums, split.noise_sums)


@jit
def score_rows(vectors, rows, split, first, last):
    """Products of the rows at first..last-1 with the sums of all children."""
    arity = split.scores.shape[1]
    for position in range(first, last):
        multiply_row(vectors, rows[position], 0, arity, split.sums, split.noise_sums, split.scores[position])


@jit
def move_rows(vectors, rows, starts, split):
    """Assign the rows anew by their products with the sums. Returns how many have changed their child."""
    scores, assigned = split.scores, split.assigned
    n_rows, arity = scores.shape
    squares = np.zeros(arity)
    for position in range(n_rows):
        squares[assigned[position]] += scores[position, assigned[position]]
    for child in range(arity):  # the products of a child's rows with its sum add up to the square of its length
        scale = 1.0 / np.sqrt(squares[child]) if squares[child] > 1e-24 else 0.0
        for position in range(n_rows):
            scores[position, child] *= scale
    before = assigned.copy()
    assign_balanced(scores, starts, assigned)
    moved = 0
    for position in range(n_rows):
        if before[position] != assigned[position]:
            row = rows[position]
            moved += 1
            add_row(vectors, row, -1.0, before[position], split.sums, split.noise_sums)
            add_row(vectors, row, 1.0, assigned[position], split.sums, split.noise_sums)
    return moved


@jit
def begin_split(starts, assigned):
    """The rows of the children one after the other, whatever they are."""
    for child in range(len(starts) - 1):
        assigned[starts[child] : starts[child + 1]] = child


@jit
def split_rows(vectors, rows, draws, rounds, starts, split):
    """Balanced spherical k-means of some rows: fills `assigned` with starts[c + 1] - starts[c] rows in child c.

    `clustering.split_wide` does the same with threads.
    """
    n_rows = len(rows)
    begin_split(starts, split.assigned)
    if n_rows < 2:
        return
    weigh_rows(vectors, rows, split.nearest, split.weights, split.lengths)
    for child in range(len(draws)):
        seed = choose_seed(vectors, rows, child, draws[child], split)
        score_seed(vectors, rows, child, split.lengths[seed], split, 0, n_rows)
        clear_sums(vectors, rows[seed : seed + 1], split.sums, split.noise_sums)
    assign_seeds(vectors, rows, starts, split)
    for _ in range(rounds):
        score_rows(vectors, rows, split, 0, n_rows)
        if move_rows(vectors, rows, starts, split) == 0:
            break
    clear_sums(vectors, rows, split.sums, split.noise_sums)


@jit
def place_rows(order, lo, rows, assigned, starts):
    """Put the rows of a node into `order`, child by child, rows ascending. starts: changed."""
    for position in range(len(rows)):
        order[lo + starts[assigned[position]]] = rows[position]
        starts[assigned[position]] += 1


@jit
def split_nodes(vectors, order, bounds, next_bounds, draws, rounds, sums, noise_sums, first, last):
    """Split the nodes first..last-1 of a level: reorder their rows in `order` child by child, rows ascending."""
    arity = draws.shape[1]
    for node in range(first, last):
        lo, hi = bounds[node], bounds[node + 1]
        rows = order[lo:hi].copy()
        starts = next_bounds[node * arity : (node + 1) * arity + 1] - lo
        split = Split(
            np.empty((hi - lo, arity)), np.empty(hi - lo, np.int32), np.empty(hi - lo), np.empty(hi - lo),
            np.empty(hi - lo), sums, noise_sums,
        )  # fmt: skip
        split_rows(vectors, rows, draws[node], rounds, starts, split)
        place_rows(order, lo, rows, split.assigned, starts)
