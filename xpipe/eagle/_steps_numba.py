"""Kernels of Algorithm 1 for one label: its steps, and the sums they need.

Holds no loop over labels (`_embedding_numba`) and no choice of samples (`_winners_numba`). For the symbols see
`_label_state_numba`.

What is not computed, and why the result is the same:
- Lengths and angles of e and G follow from scalars. G changes only by the rows whose choice changed.
- G is added to e when a row needs e, not at every step.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.eagle._label_state_numba import (
    ALIVE,
    E_G,
    E_MEAN,
    FACTOR,
    G_COUNT,
    G_MEAN,
    G_SCALE,
    G_SQUARE,
    GROW,
    LEAST_FACTOR,
    N_SCALARS,
    OFFSET,
    PENDING,
    SHRINK,
    SLACK,
    SQUARE_SLACK,
    ZERO,
    add_up,
    new_groups,
    new_history,
    new_scores,
    remember_step,
)
from xpipe.eagle._rows_numba import add_row, dot_dense, dot_row, dot_row_twice
from xpipe.eagle._winners_numba import choose_samples, find_winners
from xpipe.ground.accelerate import jit


@jit
def square_of_row(i, norm, mean_score, mean_square):
    """|x_i - mean|^2."""
    return norm[i] * norm[i] - 2.0 * mean_score[i] + mean_square


@jit
def follow_choices(t, n_changed, rows, scores, scalars, mean_square, e, g):
    """Bring G up to date with the choices; returns a bound of how far it moved, 0 at the first step."""
    first, last, columns, values, norm, mean_score = rows
    v, u, seen, _, change, changed = scores
    mean_norm = np.sqrt(mean_square)
    add_up(scalars, e, g)
    before, along, longest = scalars[G_SQUARE], 0.0, 0.0
    if t > 1:
        for q in range(n_changed):  # <change, G>, while G is still the old one
            i = changed[q]
            if seen[i] < t:
                product, product_g = dot_row_twice(columns, values, first[i], last[i], e, g)
                v[i] = scalars[FACTOR] * product - scalars[OFFSET] * mean_score[i]
                u[i] = product_g - scalars[G_COUNT] * mean_score[i]
                seen[i] = t
            along += change[i] * (u[i] - scalars[G_MEAN])
    for q in range(n_changed):
        i = changed[q]
        weight = np.float64(change[i])
        change[i] = 0
        if weight == 0.0:
            continue
        if t > 1:
            product = dot_row(columns, values, first[i], last[i], g) - scalars[G_COUNT] * mean_score[i]
            product -= scalars[G_MEAN]
            scalars[G_SQUARE] += weight * (2.0 * product + weight * square_of_row(i, norm, mean_score, mean_square))
        add_row(columns, values, first[i], last[i], weight, g)
        scalars[E_G] += weight * (v[i] - scalars[E_MEAN])
        scalars[G_MEAN] += weight * (mean_score[i] - mean_square)
        scalars[G_COUNT] += weight
        scalars[G_SCALE] += weight * (norm[i] + mean_norm)
        longest += abs(weight) * (norm[i] + mean_norm)
    if t == 1:
        count = scalars[G_COUNT]
        g_mean = scalars[G_MEAN] + count * mean_square  # of the sum before the mean is subtracted
        scalars[G_SQUARE] = dot_dense(g, g) - 2.0 * count * g_mean + count * count * mean_square
        return 0.0
    rounding = SQUARE_SLACK * (scalars[G_SCALE] + longest) ** 2
    return min(longest, np.sqrt(max(scalars[G_SQUARE] - before - 2.0 * along, 0.0) + rounding))


@jit
def find_direction(rows, groups, scalars, mean_square, e, g):
    """Set e to the first row that has a direction, if any. Needed where no sum has one, as in groups {x, -x}."""
    first, last, columns, values, norm, mean_score = rows
    mean_norm = np.sqrt(mean_square)
    for q in range(len(groups.members)):
        i = groups.members[q]
        square = square_of_row(i, norm, mean_score, mean_square)
        if square > (ZERO * (norm[i] + mean_norm)) ** 2:
            factor = 1.0 / np.sqrt(square)
            e[:] = 0.0
            add_row(columns, values, first[i], last[i], 1.0, e)
            scalars[FACTOR], scalars[PENDING], scalars[OFFSET], scalars[ALIVE] = factor, 0.0, factor, 1.0
            scalars[E_MEAN] = factor * (mean_score[i] - mean_square)
            product = dot_row(columns, values, first[i], last[i], g) - scalars[G_COUNT] * mean_score[i]
            scalars[E_G] = factor * (product - scalars[G_MEAN])
            break


@jit
def take_step(rows, groups, scalars, mean_square, step_size, e, g):
    """e = Proj(e + step_size * Proj(G)), as shrink * (e + grow * G); returns (shrink, grow).

    Both are 0 where e starts anew.
    """
    square = scalars[G_SQUARE]
    has_direction = square > (ZERO * scalars[G_SCALE]) ** 2
    if scalars[ALIVE] == 0.0:
        if has_direction:
            for p in range(len(e)):  # `e[:] = g` is a kernel of its own to the compiler
                e[p] = g[p]
            factor = 1.0 / np.sqrt(square)
            scalars[FACTOR], scalars[PENDING], scalars[OFFSET] = factor, 0.0, factor * scalars[G_COUNT]
            scalars[E_MEAN], scalars[E_G] = factor * scalars[G_MEAN], factor * square
            scalars[ALIVE] = 1.0
        else:
            find_direction(rows, groups, scalars, mean_square, e, g)
        return 0.0, 0.0
    if not has_direction:
        return 1.0, 0.0
    grow = step_size / np.sqrt(square)
    length = 1.0 + 2.0 * grow * scalars[E_G] + step_size * step_size
    if length <= ZERO * ZERO:
        e[:] = 0.0
        scalars[FACTOR], scalars[PENDING], scalars[OFFSET], scalars[ALIVE] = 1.0, 0.0, 0.0, 0.0
        scalars[E_MEAN] = scalars[E_G] = 0.0
        return 0.0, 0.0
    shrink = 1.0 / np.sqrt(length)
    scalars[PENDING] += grow / scalars[FACTOR]
    scalars[FACTOR] *= shrink
    scalars[OFFSET] = shrink * (scalars[OFFSET] + grow * scalars[G_COUNT])
    scalars[E_MEAN] = shrink * (scalars[E_MEAN] + grow * scalars[G_MEAN])
    scalars[E_G] = shrink * (scalars[E_G] + grow * square)
    if scalars[FACTOR] < LEAST_FACTOR:
        add_up(scalars, e, g)
        for p in range(len(e)):
            e[p] *= scalars[FACTOR]
        scalars[FACTOR] = 1.0
    return shrink, grow


@jit
def sum_up(rows, counts, scalars, mean_square, e):
    """Make the initial embedding from the sum of all rows, which is in e."""
    e_mean = count = scale = 0.0
    norm, mean_score, mean_norm = rows.norm, rows.mean_score, np.sqrt(mean_square)
    for i in range(len(counts)):
        e_mean += counts[i] * mean_score[i]
        count += counts[i]
        scale += counts[i] * (norm[i] + mean_norm)
    square = dot_dense(e, e) - 2.0 * count * e_mean + count * count * mean_square
    if square > (ZERO * scale) ** 2:
        factor = 1.0 / np.sqrt(square)
        scalars[FACTOR], scalars[OFFSET], scalars[ALIVE] = factor, factor * count, 1.0
        scalars[E_MEAN] = factor * (e_mean - count * mean_square)
    else:
        e[:] = 0.0
        scalars[FACTOR] = 1.0


@jit
def add_scores(samples, rows, scalars, e, g):
    """The sum of the scores of some samples.

    Pending additions stay pending: a trace must not change the rounding of e.
    """
    first, last, columns, values, _, mean_score = rows
    total = 0.0
    for i in samples:
        product = dot_row(columns, values, first[i], last[i], e)
        if scalars[PENDING] != 0.0:
            product += scalars[PENDING] * dot_row(columns, values, first[i], last[i], g)
        total += scalars[FACTOR] * product - scalars[OFFSET] * mean_score[i]
    return total


@jit
def embed_label(rows, gathered, mean_square, difference, steps, step_size, e, g, trace, winners):
    """Algorithm 1 for one label, whose sum of rows is in e; returns (factor, offset): factor * e - offset * mean.

    difference: no two rows are farther apart than this times the longer one. trace: the objective after 0..steps steps,
    or empty. winners: per group, becomes the sample that leads so far that not even an embedding in float32 could
    change it, or -1.
    """
    winners[:] = -1
    scalars = np.zeros(N_SCALARS)
    sum_up(rows, gathered.counts, scalars, mean_square, e)
    rounds = steps + (1 if len(trace) > 0 else 0)
    if rounds > 0:
        g[:] = 0.0
        groups, scores, history = new_groups(gathered), new_scores(len(gathered.counts)), new_history(steps)
    for t in range(1, rounds + 1):
        history.of_e[t], history.rest[t] = 1.0, SLACK
        n_changed = choose_samples(t, rows, groups, scores, history, scalars, difference, e, g)
        if len(trace) > 0:
            trace[t - 1] = add_scores(groups.top, rows, scalars, e, g)
            if t > steps:
                break
        moved = 0.0
        if n_changed > 0:
            moved = follow_choices(t, n_changed, rows, scores, scalars, mean_square, e, g)
        shrink, grow = take_step(rows, groups, scalars, mean_square, step_size, e, g)
        if t == 1:
            scalars[SHRINK], scalars[GROW] = shrink, grow
        remember_step(t, shrink, grow, moved, history)
        if scalars[ALIVE] == 0.0 and scalars[G_SQUARE] <= (ZERO * scalars[G_SCALE]) ** 2:
            break  # every row is zero
    if scalars[ALIVE] == 0.0:
        return 0.0, 0.0
    add_up(scalars, e, g)
    factor, offset = scalars[FACTOR], scalars[OFFSET]
    e_mean = scalars[E_MEAN] + offset * mean_square
    square = factor * factor * dot_dense(e, e) - 2.0 * offset * e_mean + offset * offset * mean_square
    if square <= ZERO * ZERO:
        return 0.0, 0.0
    if rounds > 1:
        find_winners(groups, history, winners)
    return factor / np.sqrt(square), offset / np.sqrt(square)
