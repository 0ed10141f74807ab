"""Kernels of `clustering`: balanced spherical k-means of the rows of a node, for a range of nodes of one level.

Holds no validation and no threads. A node's work touches its rows only, never all features: sums are cleared through
the entries of the rows, and the length of a sum comes from the products its rows have with it.
"""

from __future__ import annotations

import numpy as np

from xpipe.accelerate import jit

NOISE_BITS = 64  # coordinates of noise a row has: one bit of a word each
SWEEPS = 8  # over all pairs of children; two children need one
ONE = np.uint64(1)
SHIFT_11 = np.uint64(11)
UNIT = 2.0**-53


@jit
def fill_scales(indptr, values, scales):
    """1 / length of each row; 0 for a row without length."""
    for row in range(len(scales)):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[entry]) * np.float64(values[entry])
        scales[row] = 1.0 / np.sqrt(total) if total > 0.0 else 0.0


@jit
def add_row(indptr, indices, values, scales, signs, noise, row, weight, child, sums, noise_sums):
    """Add a unit row and its noise, times `weight`, to the sum of a child."""
    factor = weight * scales[row]
    for entry in range(indptr[row], indptr[row + 1]):
        sums[indices[entry], child] += factor * values[entry]
    if noise > 0.0:
        step = weight * noise / np.sqrt(np.float64(NOISE_BITS))
        word = signs[row]
        for bit in range(NOISE_BITS):
            if (word >> np.uint64(bit)) & ONE:
                noise_sums[bit, child] += step
            else:
                noise_sums[bit, child] -= step


@jit
def multiply_row(indptr, indices, values, scales, signs, noise, row, first, last, sums, noise_sums, products):
    """Products of a unit row and its noise with the sums of the children first..last-1."""
    if last - first == 2:  # the same sums in the same order as below, twice as fast
        one = 0.0
        two = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            feature = indices[entry]
            one += values[entry] * sums[feature, first]
            two += values[entry] * sums[feature, first + 1]
        products[first] = one
        products[first + 1] = two
    else:
        for child in range(first, last):
            products[child] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            for child in range(first, last):
                products[child] += values[entry] * sums[indices[entry], child]
    step = noise / np.sqrt(np.float64(NOISE_BITS))
    for child in range(first, last):
        product = scales[row] * products[child]
        if noise > 0.0:
            word = signs[row]
            total = 0.0
            for bit in range(NOISE_BITS):
                if (word >> np.uint64(bit)) & ONE:
                    total += noise_sums[bit, child]
                else:
                    total -= noise_sums[bit, child]
            product += step * total
        products[child] = product


@jit
def clear_sums(indptr, indices, rows, sums, noise_sums):
    """Zero again what the rows have touched."""
    for row in rows:
        for entry in range(indptr[row], indptr[row + 1]):
            sums[indices[entry], :] = 0.0
    noise_sums[:, :] = 0.0


@jit
def draw_position(weights, bits):
    """A position with a chance in proportion to its weight; any position where all weights are zero."""
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


@jit
def score_seeds(indptr, indices, values, scales, signs, noise, rows, draws, sums, noise_sums, scores):
    """k-means++ on the sphere: a row becomes the next seed with a chance of 1 - its cosine with the nearest seed.

    Fills `scores`, the products of all rows with each unit seed. Rows without length are no seeds.
    """
    n_rows, arity = scores.shape
    nearest = np.full(n_rows, -1.0)
    weights = np.empty(n_rows)
    lengths = np.empty(n_rows)
    for position in range(n_rows):
        lengths[position] = np.sqrt((1.0 if scales[rows[position]] > 0.0 else 0.0) + noise * noise)
        weights[position] = 1.0 if lengths[position] > 0.0 else 0.0
    for child in range(arity):
        position = draw_position(weights, draws[child])
        seed = rows[position]
        length = lengths[position]
        add_row(indptr, indices, values, scales, signs, noise, seed, 1.0, child, sums, noise_sums)
        for other in range(n_rows):
            row = rows[other]
            multiply_row(
                indptr, indices, values, scales, signs, noise, row, child, child + 1, sums, noise_sums, scores[other]
            )
            if length > 0.0:
                scores[other, child] /= length
            if lengths[other] > 0.0:
                nearest[other] = max(nearest[other], scores[other, child] / lengths[other])
                distance = 1.0 - nearest[other]
                weights[other] = distance if distance > 1e-12 else 0.0
        clear_sums(indptr, indices, rows[position : position + 1], sums, noise_sums)


@jit
def split_pair(scores, one, two, n_one, assigned):
    """Share the rows of two children again: the `n_one` that gain most by being in the first go there.

    Among equal gains the lower rows come first. Gives how many rows changed.
    """
    n_members = 0
    for position in range(len(assigned)):
        if assigned[position] == one or assigned[position] == two:
            n_members += 1
    if n_one == 0 or n_one == n_members:
        return 0
    gains = np.empty(n_members)
    member = 0
    for position in range(len(assigned)):
        if assigned[position] == one or assigned[position] == two:
            gains[member] = scores[position, one] - scores[position, two]
            member += 1
    limit = np.partition(gains, n_members - n_one)[n_members - n_one]
    equal = n_one
    for gain in gains:
        if gain > limit:
            equal -= 1
    moved = 0
    member = 0
    for position in range(len(assigned)):
        if assigned[position] == one or assigned[position] == two:
            child = two
            if gains[member] > limit:
                child = one
            elif gains[member] == limit and equal > 0:
                child = one
                equal -= 1
            if assigned[position] != child:
                assigned[position] = child
                moved += 1
            member += 1
    return moved


@jit
def assign_balanced(scores, sizes, assigned):
    """Better an assignment with the given sizes: pairs of children share their rows again until none changes.

    The sum of the scores never falls. With two children the first sweep is the best assignment there is.
    """
    arity = len(sizes)
    for _ in range(SWEEPS):
        moved = 0
        for one in range(arity):
            for two in range(one + 1, arity):
                moved += split_pair(scores, one, two, sizes[one], assigned)
        if moved == 0 or arity == 2:
            break


@jit
def split_rows(
    indptr, indices, values, scales, signs, noise, rows, draws, rounds, sizes, sums, noise_sums, assigned
):
    """Balanced spherical k-means of some rows into len(sizes) children; fills `assigned`. Leaves the sums zero."""
    n_rows = len(rows)
    arity = len(sizes)
    start = 0
    for child in range(arity):
        assigned[start : start + sizes[child]] = child
        start += sizes[child]
    if n_rows < 2:
        return
    scores = np.empty((n_rows, arity))
    score_seeds(indptr, indices, values, scales, signs, noise, rows, draws, sums, noise_sums, scores)
    assign_balanced(scores, sizes, assigned)
    for position in range(n_rows):
        add_row(
            indptr, indices, values, scales, signs, noise, rows[position], 1.0, assigned[position], sums, noise_sums
        )
    before = np.empty_like(assigned)
    squares = np.empty(arity)
    for _ in range(rounds):
        squares[:] = 0.0
        for position in range(n_rows):
            multiply_row(
                indptr, indices, values, scales, signs, noise, rows[position], 0, arity, sums, noise_sums,
                scores[position],
            )  # fmt: skip
            squares[assigned[position]] += scores[position, assigned[position]]
        for child in range(arity):
            scale = 1.0 / np.sqrt(squares[child]) if squares[child] > 1e-24 else 0.0
            for position in range(n_rows):
                scores[position, child] *= scale
        before[:] = assigned
        assign_balanced(scores, sizes, assigned)
        moved = 0
        for position in range(n_rows):
            if before[position] != assigned[position]:
                row = rows[position]
                moved += 1
                add_row(
                    indptr, indices, values, scales, signs, noise, row, -1.0, before[position], sums, noise_sums
                )
                add_row(
                    indptr, indices, values, scales, signs, noise, row, 1.0, assigned[position], sums, noise_sums
                )
        if moved == 0:
            break
    clear_sums(indptr, indices, rows, sums, noise_sums)


@jit
def split_nodes(
    indptr, indices, values, scales, signs, noise, order, bounds, next_bounds, draws, rounds, sums, noise_sums, first, last
):  # fmt: skip
    """Split the nodes first..last-1 of a level: reorder their rows in `order` child by child, rows ascending."""
    arity = draws.shape[1]
    sizes = np.empty(arity, np.int64)
    for node in range(first, last):
        lo, hi = bounds[node], bounds[node + 1]
        rows = order[lo:hi].copy()
        for child in range(arity):
            sizes[child] = next_bounds[node * arity + child + 1] - next_bounds[node * arity + child]
        assigned = np.empty(hi - lo, np.int32)
        split_rows(
            indptr, indices, values, scales, signs, noise, rows, draws[node], rounds, sizes, sums, noise_sums, assigned
        )
        free = next_bounds[node * arity : (node + 1) * arity].copy()
        for position in range(hi - lo):
            order[free[assigned[position]]] = rows[position]
            free[assigned[position]] += 1
