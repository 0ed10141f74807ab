"""Kernels of Algorithm 1 for one label: all its steps, only the dot products that can matter.

Hold no loop over labels. In words of the paper: e = embedding, G = sum of the chosen rows (not normalised),
v_i = <x_i, e>, u_i = <x_i, G>.

What is not computed, and why the answer is the same:
- the embedding is a combination of the e and G of any earlier step plus a rest whose length is bounded: while that is
  shorter than a sample is behind its group's winner, the sample cannot win, and its old v and u stand. A step in
  which no choice can change costs no dot product. So from the third step on: the first gives every sample its v, the
  second its u, and its v without another product;
- lengths and angles of e and G follow from scalars, and G changes by the rows whose choice changed;
- e is added up when a row asks for it, not at every step.
Centred: every row counts as x_i - mean in the sums; `mean_score` = <x_i, mean>, `mean_square` = <mean, mean>, and e and
G carry how often the mean is taken off. For plain EAGLE all of these are zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._rows_numba import add_row, dot_dense, dot_row, dot_row_twice
from xpipe.ground.accelerate import jit

TIE = 1e-9  # scores are equal when they differ by less than this part of their rows' norms
ZERO = 1e-6  # a sum shorter than this part of the norms that were added up is rounding: zero
SLACK = 1e-12  # rounding of a score, as a part of the row's norm
SQUARE_SLACK = 1e-14  # rounding of the square of a sum, as a part of the square of the norms that were added up
BLUR = 1e-6  # rounding of a score whose embedding is in float32, and what then counts as a tie, as a part of the norm
HUGE = 1e300
LEAST_FACTOR = 1e-100

# scalars of a label: the embedding is FACTOR * (e + PENDING * G) - OFFSET * mean; E_MEAN = <embedding, mean>;
# G_SQUARE = <G, G>, G_COUNT rows in G, G_MEAN = <G, mean>, G_SCALE = sum of their norms, E_G = <embedding, G>
FACTOR, PENDING, OFFSET, E_MEAN, G_SQUARE, G_COUNT, G_MEAN, G_SCALE, E_G, ALIVE, SHRINK, GROW, N_SCALARS = range(13)


class Groups(NamedTuple):
    """Members starts[j] to starts[j + 1] of each group, who of them is chosen, and how far the winner leads."""

    starts: np.ndarray
    members: np.ndarray
    chosen: np.ndarray
    top: np.ndarray
    checked: np.ndarray  # the step at which the leads were computed
    lead_v: np.ndarray
    lead_u: np.ndarray
    reach: np.ndarray  # a rest of length r can cost the winner r * reach


class Scores(NamedTuple):
    """v and u of each sample as of the step `seen`; what its choices changed in this step."""

    v: np.ndarray
    u: np.ndarray
    seen: np.ndarray
    listed: np.ndarray
    change: np.ndarray
    changed: np.ndarray


class History(NamedTuple):
    """The embedding now = of_e[s] * e_s + of_g[s] * G_s + at most rest[s]; |G - G_s| <= drift[s]."""

    of_e: np.ndarray
    of_g: np.ndarray
    rest: np.ndarray
    drift: np.ndarray


@jit
def add_up(scalars, e, g):
    """Carry out the additions of G to e that were put off."""
    weight = scalars[PENDING]
    if weight != 0.0:
        for p in range(len(e)):
            e[p] += weight * g[p]
        scalars[PENDING] = 0.0


@jit
def square_of_row(i, norm, mean_score, mean_square):
    """|x_i - mean|^2."""
    return norm[i] * norm[i] - 2.0 * mean_score[i] + mean_square


@jit
def choose_samples(t, rows, groups, scores, history, scalars, difference, e, g):
    """The samples with the best score of each group; returns how many samples' choices changed."""
    first, last, columns, values, norm, mean_score = rows
    starts, members, chosen, top, checked, lead_v, lead_u, reach = groups
    v, u, seen, listed, change, changed = scores
    of_e, of_g, rest, drift = history
    n_changed = 0
    for j in range(len(starts) - 1):
        start, stop = starts[j], starts[j + 1]
        s = checked[j]
        if t > 2 and of_e[s] * lead_v[j] + of_g[s] * lead_u[j] > rest[s] * reach[j]:
            continue
        best = -HUGE
        for q in range(start - 1 if t > 2 else start, stop):
            i = top[j] if q < start else members[q]  # the last winner first: few others then come near
            s = seen[i]
            if s < t:
                if q >= start and t > 2 and of_e[s] * v[i] + of_g[s] * u[i] + (rest[s] + TIE) * norm[i] < best:
                    continue
                if t == 1:
                    product = dot_row(columns, values, first[i], last[i], e)
                    v[i] = scalars[FACTOR] * product - scalars[OFFSET] * mean_score[i]
                elif t == 2 and scalars[SHRINK] > 0.0:
                    u[i] = dot_row(columns, values, first[i], last[i], g) - scalars[G_COUNT] * mean_score[i]
                    v[i] = scalars[SHRINK] * (v[i] + scalars[GROW] * u[i])
                else:
                    if scalars[PENDING] != 0.0:
                        add_up(scalars, e, g)
                    product, product_g = dot_row_twice(columns, values, first[i], last[i], e, g)
                    v[i] = scalars[FACTOR] * product - scalars[OFFSET] * mean_score[i]
                    u[i] = product_g - scalars[G_COUNT] * mean_score[i]
                seen[i] = t
            best = max(best, v[i] - TIE * norm[i])
        n_chosen = 0
        high = -HUGE
        for q in range(start, stop):
            i = members[q]
            now = seen[i] == t and v[i] + TIE * norm[i] >= best  # all ties count
            if now:
                n_chosen += 1
                if v[i] > high:
                    high, top[j] = v[i], i
            if now != (chosen[q] == 1):
                chosen[q] = now
                change[i] += 1 if now else -1
                if listed[i] < t:
                    listed[i] = t
                    changed[n_changed] = i
                    n_changed += 1
        checked[j] = t
        lead_v[j] = HUGE if stop - start == 1 else -HUGE
        lead_u[j] = reach[j] = 0.0
        if stop - start > 1 and n_chosen == 1 and t > 1:  # at the first step there is no u yet
            winner = top[j]
            close_v = close_u = HUGE
            widest = norm[winner]
            for q in range(start, stop):
                i = members[q]
                if i != winner:
                    s = seen[i]
                    most_v, most_u = v[i], u[i]
                    if s < t:
                        most_v = of_e[s] * v[i] + of_g[s] * u[i] + rest[s] * norm[i]
                        most_u = u[i] + drift[s] * norm[i]
                    close_v = min(close_v, v[winner] - most_v - TIE * (norm[winner] + norm[i]))
                    close_u = min(close_u, u[winner] - most_u)
                    widest = max(widest, norm[i])
            lead_v[j], lead_u[j], reach[j] = close_v, close_u, difference * widest
    return n_changed


@jit
def follow_choices(t, n_changed, rows, scores, scalars, mean_square, e, g):
    """Bring G up to date; returns a bound of how far it moved (0 at the first step, when it is new)."""
    first, last, columns, values, norm, mean_score = rows
    v, u, seen, _, change, changed = scores
    mean_norm = np.sqrt(mean_square)
    add_up(scalars, e, g)
    before, along, longest = scalars[G_SQUARE], 0.0, 0.0
    if t > 1:
        for q in range(n_changed):  # <change, G> before G changes
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
        g_mean = scalars[G_MEAN] + count * mean_square  # of the sum before the mean is taken off
        scalars[G_SQUARE] = dot_dense(g, g) - 2.0 * count * g_mean + count * count * mean_square
        return 0.0
    rounding = SQUARE_SLACK * (scalars[G_SCALE] + longest) ** 2
    return min(longest, np.sqrt(max(scalars[G_SQUARE] - before - 2.0 * along, 0.0) + rounding))


@jit
def find_direction(rows, groups, scalars, mean_square, e, g):
    """No sum has a direction, as in groups {x, -x}: e becomes the first row that has one, if any."""
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
    """e = Proj(e + step_size * Proj(G)) as shrink * (e + grow * G); returns (shrink, grow), 0 where e starts anew."""
    square = scalars[G_SQUARE]
    has_direction = square > (ZERO * scalars[G_SCALE]) ** 2
    if scalars[ALIVE] == 0.0:
        if has_direction:
            e[:] = g
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
def remember_step(t, shrink, grow, moved, history):
    """What the scores of earlier steps still tell."""
    for s in range(1, t + 1):
        history.drift[s] += moved
        if shrink > 0.0:
            history.of_e[s] *= shrink
            history.of_g[s] = shrink * (history.of_g[s] + grow)
            history.rest[s] = min(shrink * (history.rest[s] + grow * history.drift[s]), HUGE)
        else:
            history.rest[s] = HUGE


@jit
def sum_up(rows, counts, scalars, mean_square, e):
    """The start: e_0 from the sum of all rows, which is in e."""
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
    """Sum of the scores of some samples; leaves additions put off: a trace must not change the embedding's rounding."""
    first, last, columns, values, _, mean_score = rows
    total = 0.0
    for i in samples:
        product = dot_row(columns, values, first[i], last[i], e)
        if scalars[PENDING] != 0.0:
            product += scalars[PENDING] * dot_row(columns, values, first[i], last[i], g)
        total += scalars[FACTOR] * product - scalars[OFFSET] * mean_score[i]
    return total


@jit
def find_winners(groups, history, winners):
    """The winners that lead by more than what is not known of the others' scores, and than float32 can blur."""
    for j in range(len(winners)):
        s = groups.checked[j]
        lead = history.of_e[s] * groups.lead_v[j] + history.of_g[s] * groups.lead_u[j]
        if lead > (history.rest[s] + BLUR) * groups.reach[j]:
            winners[j] = groups.top[j]


@jit
def embed_label(rows, counts, starts, members, mean_square, difference, steps, step_size, e, g, trace, winners):
    """Algorithm 1 for one label, whose sum of rows is in e; returns (factor, offset): factor * e - offset * mean.

    counts: groups of each sample; starts, members: samples of each group; difference: no two rows are farther apart
    than this times the longer one; trace: the objective after 0..steps, or empty. winners: one a group, becomes the
    sample that leads it so far that not even an embedding in float32 could change it, or -1.
    """
    winners[:] = -1
    scalars = np.zeros(N_SCALARS)
    sum_up(rows, counts, scalars, mean_square, e)
    n_samples, n_groups = len(counts), len(starts) - 1
    rounds = steps + (1 if len(trace) > 0 else 0)
    if rounds > 0:
        g[:] = 0.0
        groups = Groups(starts, members, np.zeros(len(members), np.uint8), np.zeros(n_groups, np.int32),
                        np.zeros(n_groups, np.int32), np.zeros(n_groups), np.zeros(n_groups),
                        np.zeros(n_groups))  # fmt: skip
        scores = Scores(np.zeros(n_samples), np.zeros(n_samples), np.zeros(n_samples, np.int32),
                        np.zeros(n_samples, np.int32), np.zeros(n_samples, np.int32),
                        np.zeros(n_samples, np.int32))  # fmt: skip
        history = History(np.zeros(steps + 2), np.zeros(steps + 2), np.zeros(steps + 2), np.zeros(steps + 2))
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
