"""Linear classifiers of one node by dual coordinate descent: many children of a node at once, side by side.

Holds no gathering of rows and no pruning. Row i of the node has features x_i and the bias feature; lane k is a child,
y = +1 where the row is in it, else -1. beta = y * alpha is the signed dual, weights_k = sum_i beta_ik x_i. A visit to
a row moves beta_ik to its best value for all lanes: the dot products and the updates run over lanes, 16 an instruction.

Shrinking: a row that violates its optimality by no more than the tolerance in any lane is not visited again until the
others are done; a lane that is done after a round over all rows stands still.
"""

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit
from xpipe.trees._lanes_numba import LANES, add_all_products, add_products, add_row

ONE = np.float32(1.0)
ZERO = np.float32(0.0)
NEWTON_STEPS = 5
SHIFT_30, SHIFT_27, SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)
GOLDEN, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@jit
def shuffle(items, count, state):
    """Put the first `count` items into a random order; gives the next state of the generator (splitmix64)."""
    for place in range(count - 1, 0, -1):
        state += GOLDEN
        mixed = (state ^ (state >> SHIFT_30)) * MIX_1
        mixed = (mixed ^ (mixed >> SHIFT_27)) * MIX_2
        mixed ^= mixed >> SHIFT_31
        other = np.int64(mixed % np.uint64(place + 1))
        items[place], items[other] = items[other], items[place]
    return state


@jit
def step_hinge(margins, betas, square, half, live, first, steps, worst, limit):
    """Squared hinge, LANES lanes from `first` on as y = -1: fills steps, raises worst; gives how many exceed limit."""
    scale = ONE / (square + half)
    beyond = 0
    for k in range(first, first + LANES):
        beta = betas[k]
        gradient = (margins[k] + ONE + beta * half) * live[k]
        steps[k] = min(beta - gradient * scale, ZERO) - beta
        violation = abs(gradient) if beta < ZERO else max(gradient, ZERO)
        worst[k] = max(worst[k], violation)
        beyond += 1 if violation > limit else 0
    return beyond


@jit
def step_hinge_positive(margin, beta, square, half):
    """(step, violation) of one lane with y = +1."""
    gradient = margin - ONE + beta * half
    step = max(beta - gradient / (square + half), ZERO) - beta
    return step, abs(gradient) if beta > ZERO else max(-gradient, ZERO)


@jit
def step_logistic(margin, alpha, square, cost):
    """(step of alpha, violation) for the logistic loss; `margin` is y times the score.

    The best alpha is cost * sigmoid(t) where t + square * (alpha(t) - alpha) + margin = 0. Its left side has a slope
    from 1 to 1 + square * cost / 4: a few Newton steps from the old t reach it.
    """
    t = -margin
    violation = np.inf
    if alpha > 0.0:
        t = np.log(alpha / max(cost - alpha, 1e-12 * cost))
        violation = abs(margin + t)
    for _ in range(NEWTON_STEPS):
        share = 1.0 / (1.0 + np.exp(-t))
        value = t + square * (cost * share - alpha) + margin
        t -= value / (1.0 + square * cost * share * (1.0 - share))
    return cost / (1.0 + np.exp(-t)) - alpha, violation


@jit
def step_row_logistic(
    margins, betas, square, cost, owners, owner_costs, live, n_lanes, steps, worst, limit, violations, moving
):  # fmt: skip
    """Logistic loss, all lanes of a row: fills steps and moving, raises worst. Scratch: violations."""
    steps[:] = ZERO
    violations[:] = ZERO
    moving[:] = 0
    at = 0
    for k in range(n_lanes):
        positive = at < len(owners) and owners[at] == k
        sign, own_cost = (1.0, np.float64(owner_costs[at])) if positive else (-1.0, cost)
        at += 1 if positive else 0
        if live[k] > ZERO and own_cost > 0.0:
            step, violation = step_logistic(sign * margins[k], sign * betas[k], np.float64(square), own_cost)
            steps[k] = sign * step
            violations[k] = violation
            worst[k] = max(worst[k], violations[k])
            moving[k // LANES] += 1 if violations[k] > limit else 0


@jit
def solve_lanes(
    indptr, columns, values, squares, owner_ptr, owners, owner_costs, n_lanes, cost, bias, logistic, tolerance,
    max_rounds, state, block, betas, live
):  # fmt: skip
    """Train the lanes 0..n_lanes-1 of a block.

    indptr, columns, values: the node's rows, features renumbered; squares: their squared lengths with the bias.
    owner_ptr, owners, owner_costs: for each row the lanes it is in (ascending), and the cost of a mistake there; a
    cost of 0 leaves the row out of that lane. block: features + 1 x width, zeros; its last row is the bias feature.
    betas: rows x width, zeros. live: width.
    """
    n_rows, width = betas.shape
    n_features = len(block) - 1
    half = np.float32(0.5 / cost)
    limit = np.float32(tolerance)
    bias_weights = block[n_features]
    live[:] = ZERO
    live[:n_lanes] = ONE
    margins, steps = np.empty(width, np.float32), np.empty(width, np.float32)
    worst, saved = np.empty(width, np.float32), np.empty(width, np.float32)
    moving = np.empty(width // LANES, np.int64)  # lanes beyond the limit, for each LANES of them
    awake = np.ones(width // LANES, np.bool_)  # whether any of them is live
    n_awake = len(awake)
    active = np.arange(n_rows)
    n_active = n_rows
    for _ in range(max_rounds):
        whole = n_active == n_rows
        state = shuffle(active, n_active, state)
        worst[:] = ZERO
        kept = 0
        for place in range(n_active):
            i = active[place]
            first, last = indptr[i], indptr[i + 1]
            row_betas = betas[i]
            for k in range(width):
                margins[k] = bias * bias_weights[k]
            if n_awake == len(awake):
                add_all_products(columns, values, first, last, block, width, margins)
            else:
                for group in range(len(awake)):
                    if awake[group]:
                        add_products(columns, values, first, last, block, width, group * LANES, margins)  # type: ignore[call-arg]
            if logistic:
                step_row_logistic(
                    margins, row_betas, squares[i], cost, owners[owner_ptr[i] : owner_ptr[i + 1]],
                    owner_costs[owner_ptr[i] : owner_ptr[i + 1]], live, n_lanes, steps, worst, limit, saved, moving,
                )  # fmt: skip
            else:
                for at in range(owner_ptr[i], owner_ptr[i + 1]):
                    k = owners[at]
                    saved[k] = margins[k]
                    margins[k] = -ONE - row_betas[k] * half  # at rest as y = -1; its own step follows
                for group in range(len(awake)):
                    moving[group] = 0
                    if awake[group]:
                        moving[group] = step_hinge(
                            margins, row_betas, squares[i], half, live, group * LANES, steps, worst, limit
                        )
                for at in range(owner_ptr[i], owner_ptr[i + 1]):
                    k = owners[at]
                    steps[k] = ZERO
                    if owner_costs[at] > ZERO and live[k] > ZERO:
                        own_half = np.float32(0.5) / owner_costs[at]
                        steps[k], violation = step_hinge_positive(saved[k], row_betas[k], squares[i], own_half)
                        worst[k] = max(worst[k], violation)
                        moving[k // LANES] += 1 if violation > limit else 0
            stays = True
            for group in range(len(awake)):
                if moving[group] > 0:  # lanes that are all at rest need not be written
                    stays = False
                    for k in range(group * LANES, (group + 1) * LANES):
                        row_betas[k] += steps[k]
                        bias_weights[k] += bias * steps[k]
                    add_row(columns, values, first, last, block, width, group * LANES, steps)  # type: ignore[call-arg]
            if not stays:
                active[kept] = i
                kept += 1
        n_active = kept
        if whole:
            n_awake = 0
            for group in range(len(awake)):
                awake[group] = False
                for k in range(group * LANES, (group + 1) * LANES):
                    live[k] = ONE if worst[k] > limit else ZERO
                    awake[group] |= worst[k] > limit
                n_awake += 1 if awake[group] else 0
        if kept == 0:
            if whole:
                break
            n_active = n_rows
            active[:] = np.arange(n_rows)
