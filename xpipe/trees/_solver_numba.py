"""Linear classifiers of one node by dual coordinate descent: many children of a node at once, side by side.

Holds no gathering of rows and no pruning. Row i of the node has features x_i and the bias feature. Lane k is a child:
y = +1 where the row is in it, else -1; a row that is in it with some chance counts as both. beta is the signed dual,
the negative slope of the loss at the row's score, and weights_k = sum_i beta_ik x_i. A visit to a row moves beta_ik to
its best value in all lanes. The dot products and the updates run over lanes, 16 per instruction. Features that no other
row has add beta_ik times their squared length to the score: they are never looked up.

Shrinking: a row that violates its optimality by at most the tolerance in every lane is not visited again until the
other rows are done. A lane that is done after a round over all rows does not move any more.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit, jit_inline
from xpipe.trees._lanes_numba import LANES, add_all_products, add_products, add_row

ONE = np.float32(1.0)
ZERO = np.float32(0.0)
TWO = np.float32(2.0)
NEWTON_STEPS = 8


class Positives(NamedTuple):
    """For each row of a node the lanes it is in: row i has lanes[indptr[i] : indptr[i + 1]], ascending."""

    indptr: np.ndarray  # int64
    lanes: np.ndarray  # int64
    costs: np.ndarray  # float32: of a mistake as a positive
    doubts: np.ndarray  # float32: of a mistake as a negative; 0 where it is certain that the row is in the lane


class Settings(NamedTuple):
    """What is minimised, and when it is good enough."""

    cost: float
    bias: np.float32  # the value of the bias feature
    logistic: bool  # else squared hinge
    tolerance: float
    max_rounds: int


class Lanes(NamedTuple):
    """Vectors with one number per lane, and two with one number per LANES lanes."""

    live: np.ndarray  # float32: 1 for lanes that still move, else 0
    margins: np.ndarray  # float32
    steps: np.ndarray  # float32
    worst: np.ndarray  # float32: the largest violation of the round
    saved: np.ndarray  # float32: scratch
    moving: np.ndarray  # int64, one per LANES lanes: how many of them violate their optimality by more than the limit
    awake: np.ndarray  # bool, one per LANES lanes: whether any of them is live


@jit
def shuffle(items, count, state):
    """Put the first `count` items into a random order; returns the next state of the generator (splitmix64)."""
    for place in range(count - 1, 0, -1):
        state += GOLDEN
        other = np.int64(mix(state) % np.uint64(place + 1))
        items[place], items[other] = items[other], items[place]
    return state


@jit
def step_hinge(betas, square, half, limit, first, lanes):
    """Squared hinge for LANES lanes from `first` on, all as y = -1: fills steps, raises worst.

    Returns how many violations exceed the limit.
    """
    margins, live, steps, worst = lanes.margins, lanes.live, lanes.steps, lanes.worst
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
def step_hinge_owner(margin, beta, square, cost, doubt):
    """(step, violation) of one lane with the loss cost * max(0, 1 - z)^2 + doubt * max(0, 1 + z)^2 at a score z.

    The slope of the loss is piecewise linear, with corners at -1 and 1, so the best beta is known in closed form.
    """
    both = cost + doubt
    if both == ZERO:  # the row counts for nothing in this lane
        return -beta, ZERO
    rest = margin - square * beta  # the score without what the row itself adds to it
    best = TWO * (cost - doubt - both * rest) / (ONE + TWO * both * square)
    score = rest + square * best
    if score > ONE:
        best = -TWO * doubt * (ONE + rest) / (ONE + TWO * doubt * square)
    elif score < -ONE:
        best = TWO * cost * (ONE - rest) / (ONE + TWO * cost * square)
    step = best - beta
    return step, abs(step) * (square + np.float32(0.5) / both)


@jit_inline
def step_row_hinge(betas, square, first, last, positives, half, limit, lanes):
    """Squared hinge for all lanes of a row: fills steps and moving, raises worst.

    first, last: the row's lanes in `positives`.
    """
    margins, saved, steps, worst = lanes.margins, lanes.saved, lanes.steps, lanes.worst
    live, moving, awake = lanes.live, lanes.moving, lanes.awake
    owners, costs, doubts = positives.lanes, positives.costs, positives.doubts
    for at in range(first, last):
        k = owners[at]
        saved[k] = margins[k]
        margins[k] = -ONE - betas[k] * half  # no step as y = -1; its own step follows
    for group in range(len(awake)):
        moving[group] = 0
        if awake[group]:
            moving[group] = step_hinge(betas, square, half, limit, group * LANES, lanes)
    for at in range(first, last):
        k = owners[at]
        steps[k] = ZERO
        if live[k] > ZERO:
            steps[k], violation = step_hinge_owner(saved[k], betas[k], square, costs[at], doubts[at])
            worst[k] = max(worst[k], violation)
            moving[k // LANES] += 1 if violation > limit else 0


@jit
def step_logistic(margin, beta, square, cost, doubt):
    """(step, violation) for the loss cost * log(1 + exp(-z)) + doubt * log(1 + exp(z)) at a score z.

    The best beta is cost - both * sigmoid(z) at the z where z - square * beta(z) = margin - square * beta. beta is
    between -doubt and cost, which brackets z. Newton steps that leave the bracket are replaced by its middle.
    """
    both = cost + doubt
    if both == 0.0:  # the row counts for nothing in this lane
        return -beta, 0.0
    above, below = max(cost - beta, 1e-12 * both), max(doubt + beta, 1e-12 * both)
    z = np.log(above / below)  # the score at which beta is the best one
    violation = abs(margin - z)
    rest = margin - square * beta
    low, high = rest - square * doubt, rest + square * cost
    z = min(max(z, low), high)
    for _ in range(NEWTON_STEPS):
        share = 1.0 / (1.0 + np.exp(-z))
        value = z - rest - square * (cost - both * share)
        if value > 0.0:
            high = z
        else:
            low = z
        z -= value / (1.0 + square * both * share * (1.0 - share))
        if not low <= z <= high:
            z = 0.5 * (low + high)
    return cost - both / (1.0 + np.exp(-z)) - beta, violation


@jit_inline
def step_row_logistic(betas, square, first, last, positives, cost, limit, n_lanes, lanes):
    """Logistic loss for all lanes of a row: fills steps and moving, raises worst.

    first, last: the row's lanes in `positives`.
    """
    violations = lanes.saved
    lanes.steps[:] = ZERO
    violations[:] = ZERO
    lanes.moving[:] = 0
    at = first
    for k in range(n_lanes):
        own_cost, doubt = 0.0, cost
        if at < last and positives.lanes[at] == k:
            own_cost, doubt = np.float64(positives.costs[at]), np.float64(positives.doubts[at])
            at += 1
        if lanes.live[k] > ZERO:
            lanes.steps[k], violations[k] = step_logistic(
                np.float64(lanes.margins[k]), np.float64(betas[k]), np.float64(square), own_cost, doubt
            )
            lanes.worst[k] = max(lanes.worst[k], violations[k])
            lanes.moving[k // LANES] += 1 if violations[k] > limit else 0


@jit_inline
def fill_margins(rows, first, last, alone, bias, block, betas, n_awake, lanes):
    """Scores of a row (its entries first..last-1) in all lanes that are awake. alone, betas: those of the row."""
    columns, values, margins, awake = rows.columns, rows.values, lanes.margins, lanes.awake
    width = len(margins)
    bias_weights = block[len(block) - 1]
    for k in range(width):
        margins[k] = bias * bias_weights[k] + alone * betas[k]
    if n_awake == len(awake):
        add_all_products(columns, values, first, last, block, width, margins)
    else:
        for group in range(len(awake)):
            if awake[group]:
                add_products(columns, values, first, last, block, width, group * LANES, margins)  # type: ignore[call-arg]


@jit_inline
def apply_steps(rows, first, last, bias, block, betas, lanes):
    """Move betas and weights by the steps of a row (its entries first..last-1); returns whether any lane moved."""
    columns, values, steps, moving = rows.columns, rows.values, lanes.steps, lanes.moving
    width = len(steps)
    bias_weights = block[len(block) - 1]
    moved = False
    for group in range(len(moving)):
        if moving[group] > 0:  # groups of lanes without a violation need not be written
            moved = True
            for k in range(group * LANES, (group + 1) * LANES):
                betas[k] += steps[k]
                bias_weights[k] += bias * steps[k]
            add_row(columns, values, first, last, block, width, group * LANES, steps)  # type: ignore[call-arg]
    return moved


@jit
def rest_lanes(limit, lanes):
    """Let lanes rest whose largest violation of a round over all rows is within the limit; returns groups awake."""
    n_awake = 0
    for group in range(len(lanes.awake)):
        lanes.awake[group] = False
        for k in range(group * LANES, (group + 1) * LANES):
            lanes.live[k] = ONE if lanes.worst[k] > limit else ZERO
            lanes.awake[group] |= lanes.worst[k] > limit
        n_awake += 1 if lanes.awake[group] else 0
    return n_awake


@jit
def make_lanes(width, n_lanes):
    """Work space for `width` lanes, the first n_lanes of them live."""
    live = np.zeros(width, np.float32)
    live[:n_lanes] = ONE
    margins, steps = np.empty(width, np.float32), np.empty(width, np.float32)
    worst, saved = np.empty(width, np.float32), np.empty(width, np.float32)
    return Lanes(
        live, margins, steps, worst, saved, np.empty(width // LANES, np.int64), np.ones(width // LANES, np.bool_)
    )


@jit
def forget_rows(rows, gone, bias, block, betas):
    """Take what some rows have added to the weights away from them: weights_k = sum of beta_ik x_i over the others."""
    width = betas.shape[1]
    steps = np.empty(width, np.float32)
    bias_weights = block[len(block) - 1]
    for i in gone:
        for k in range(width):
            steps[k] = -betas[i, k]
            bias_weights[k] += bias * steps[k]
            betas[i, k] = ZERO
        for lane in range(0, width, LANES):
            add_row(rows.columns, rows.values, rows.indptr[i], rows.indptr[i + 1], block, width, lane, steps)  # type: ignore[call-arg]


@jit
def solve_lanes(rows, positives, members, n_lanes, settings, state, block, betas):
    """Train the lanes 0..n_lanes-1 of a block on some of its rows.

    rows: NodeRows. positives: Positives. members: the rows to train on, int64. state: of the generator, uint64. block:
    (shared features + 1) x width; its last row is the bias feature. betas: rows x width. Both are zeros, or what an
    earlier call has left in them, without the rows that are no members now (`forget_rows`).
    """
    n_rows, width = len(members), betas.shape[1]
    bias, half, limit = settings.bias, np.float32(0.5 / settings.cost), np.float32(settings.tolerance)
    lanes = make_lanes(width, n_lanes)
    n_awake = len(lanes.awake)
    active = members.copy()
    n_active = n_rows
    for _ in range(settings.max_rounds):
        whole = n_active == n_rows
        state = shuffle(active, n_active, state)
        lanes.worst[:] = ZERO
        kept = 0
        for place in range(n_active):
            i = active[place]
            first, last = rows.indptr[i], rows.indptr[i + 1]
            own, end = positives.indptr[i], positives.indptr[i + 1]
            fill_margins(rows, first, last, rows.alone[i], bias, block, betas[i], n_awake, lanes)
            if settings.logistic:
                step_row_logistic(betas[i], rows.squares[i], own, end, positives, settings.cost, limit, n_lanes, lanes)
            else:
                step_row_hinge(betas[i], rows.squares[i], own, end, positives, half, limit, lanes)
            if apply_steps(rows, first, last, bias, block, betas[i], lanes):
                active[kept] = i
                kept += 1
        n_active = kept
        if whole:
            n_awake = rest_lanes(limit, lanes)
        if kept == 0:
            if whole:
                break
            n_active = n_rows
            active[:] = members
