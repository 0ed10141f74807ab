"""Kernels that choose the best samples of each group of a label, with only the dot products that can matter.

Holds no step of the embedding (`_steps_numba`).

What is not computed, and why the result is the same:
- The embedding is a combination of the e and G of any earlier step plus a rest whose length is bounded. While that rest
  is shorter than the distance of a sample to the winner of its group, the sample cannot win, and its old v and u are
  kept. A step in which no choice can change costs no dot product.
- This holds from the third step on: the first step computes v of every sample. The second computes u, and derives v
  from both without another product.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from xpipe.eagle._label_state_numba import BLUR, FACTOR, G_COUNT, GROW, HUGE, OFFSET, PENDING, SHRINK, TIE, add_up
from xpipe.eagle._rows_numba import dot_row, dot_row_twice
from xpipe.ground.accelerate import jit


@jit
def choose_samples(t, rows, groups, scores, history, scalars, difference, e, g):
    """Choose the samples with the best score of each group at step t; returns how many samples' choices changed."""
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
            i = top[j] if q < start else members[q]  # the last winner comes first: few others then need a product
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
            now = seen[i] == t and v[i] + TIE * norm[i] >= best  # all samples that tie are chosen
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
            lead_v[j], lead_u[j], widest = measure_lead(
                t, top[j], members[start:stop], norm, v, u, seen, of_e, of_g, rest, drift
            )
            reach[j] = difference * widest
    return n_changed


@jit
def measure_lead(t, winner, members, norm, v, u, seen, of_e, of_g, rest, drift):
    """(lead of the winner in v, in u, the largest norm of the group), over all other members.

    Takes arrays, not tuples of arrays: unpacking tuples for every group would cost time.
    """
    close_v = close_u = HUGE
    widest = norm[winner]
    for i in members:
        if i != winner:
            s = seen[i]
            most_v, most_u = v[i], u[i]
            if s < t:
                most_v = of_e[s] * v[i] + of_g[s] * u[i] + rest[s] * norm[i]
                most_u = u[i] + drift[s] * norm[i]
            close_v = min(close_v, v[winner] - most_v - TIE * (norm[winner] + norm[i]))
            close_u = min(close_u, u[winner] - most_u)
            widest = max(widest, norm[i])
    return close_v, close_u, widest


@jit
def find_winners(groups, history, winners):
    """winners[j] = the winner, where it leads by more than float32 can blur and than is unknown of the other scores."""
    for j in range(len(winners)):
        s = groups.checked[j]
        lead = history.of_e[s] * groups.lead_v[j] + history.of_g[s] * groups.lead_u[j]
        if lead > (history.rest[s] + BLUR) * groups.reach[j]:
            winners[j] = groups.top[j]
