"""What the kernels of Algorithm 1 keep about one label while they take its steps.

Holds no step. In words of the paper: e = embedding, G = sum of the chosen rows (not normalised), v_i = <x_i, e>,
u_i = <x_i, G>.

Centred: every row counts as x_i - mean in the sums. `mean_score` = <x_i, mean>, `mean_square` = <mean, mean>; e and G
carry how many times the mean is subtracted. For plain EAGLE all of these are zero.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit

TIE = 1e-9  # scores are equal when they differ by less than this part of the norms of their rows
ZERO = 1e-6  # a sum that is shorter than this part of the norms that were added up is rounding error: it counts as zero
SLACK = 1e-12  # rounding error of a score, as a part of the norm of the row
SQUARE_SLACK = 1e-14  # rounding error of the square of a sum, as a part of the square of the norms that were added up
BLUR = 1e-6  # rounding error of a score plus what counts as a tie for embeddings in float32, as a part of the norm
HUGE = 1e300
LEAST_FACTOR = 1e-100

# Scalars of a label. The embedding is FACTOR * (e + PENDING * G) - OFFSET * mean. E_MEAN = <embedding, mean>,
# E_G = <embedding, G>, G_SQUARE = <G, G>, G_MEAN = <G, mean>. G_COUNT = number of rows in G, G_SCALE = sum of their
# norms. ALIVE is 1 while the embedding is not zero. SHRINK and GROW are those of the first step.
FACTOR, PENDING, OFFSET, E_MEAN, G_SQUARE, G_COUNT, G_MEAN, G_SCALE, E_G, ALIVE, SHRINK, GROW, N_SCALARS = range(13)


class Groups(NamedTuple):
    """Members starts[j] to starts[j + 1] - 1 of each group, which of them are chosen, and how far the winner leads."""

    starts: np.ndarray
    members: np.ndarray
    chosen: np.ndarray
    top: np.ndarray  # the winner
    checked: np.ndarray  # the step at which the leads were computed
    lead_v: np.ndarray
    lead_u: np.ndarray
    reach: np.ndarray  # a rest of length r can cost the winner at most r * reach


class Scores(NamedTuple):
    """v and u of each sample as of step `seen`, and how its choices changed in the current step."""

    v: np.ndarray
    u: np.ndarray
    seen: np.ndarray
    listed: np.ndarray  # the last step at which the sample was listed in `changed`
    change: np.ndarray  # groups that chose it minus groups that dropped it
    changed: np.ndarray  # samples whose choices changed


class History(NamedTuple):
    """What the embedding of step s tells about the current one.

    Current embedding = of_e[s] * e_s + of_g[s] * G_s + a rest of length rest[s] at most; |G - G_s| <= drift[s].
    """

    of_e: np.ndarray
    of_g: np.ndarray
    rest: np.ndarray
    drift: np.ndarray


@jit
def new_groups(gathered):
    """Groups of a label before the first step."""
    n_groups = len(gathered.starts) - 1
    return Groups(gathered.starts, gathered.members, np.zeros(len(gathered.members), np.uint8),
                  np.zeros(n_groups, np.int32), np.zeros(n_groups, np.int32), np.zeros(n_groups), np.zeros(n_groups),
                  np.zeros(n_groups))  # fmt: skip


@jit
def new_scores(n_samples):
    """Scores of a label before the first step."""
    return Scores(np.zeros(n_samples), np.zeros(n_samples), np.zeros(n_samples, np.int32),
                  np.zeros(n_samples, np.int32), np.zeros(n_samples, np.int32),
                  np.zeros(n_samples, np.int32))  # fmt: skip


@jit
def new_history(steps):
    """History of a label before the first step."""
    return History(np.zeros(steps + 2), np.zeros(steps + 2), np.zeros(steps + 2), np.zeros(steps + 2))


@jit
def remember_step(t, shrink, grow, moved, history):
    """Bring the history up to date after step t: what the scores of earlier steps still tell."""
    for s in range(1, t + 1):
        history.drift[s] += moved
        if shrink > 0.0:
            history.of_e[s] *= shrink
            history.of_g[s] = shrink * (history.of_g[s] + grow)
            history.rest[s] = min(shrink * (history.rest[s] + grow * history.drift[s]), HUGE)
        else:
            history.rest[s] = HUGE


@jit
def add_up(scalars, e, g):
    """Carry out the pending additions of G to e."""
    weight = scalars[PENDING]
    if weight != 0.0:
        for p in range(len(e)):
            e[p] += weight * g[p]
        scalars[PENDING] = 0.0
