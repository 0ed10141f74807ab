"""Choices made without a true label: how well labels of held-out *groups* are foretold.

Some groups are set aside; samples of the others give each label its weights; scores of the samples of a group set aside
foretell its labels. Holds no fitting: posteriors come from `discriminative`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _owners_numba as kernels
from xpipe.eagle.discriminative import most_members_left_out
from xpipe.eagle.whitening import Whitened
from xpipe.ground.machine import usable_cores
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import to_triple

HELD_OUT_SHARE = 0.15
MOST_HELD_OUT = 1000  # groups set aside
MOST_HELD_ROWS = 50_000  # samples in them
MOST_LABELS = 400  # labels looked at: enough for a choice, few enough to cost little
MOST_PAIRS = 300_000  # (label, sample) pairs that the labels looked at allow together
POWERS = np.array([1, 2, 3, 4, 6, 8])  # of the norms that are tried on a group's scores; whole ones are fast
LABELS_AT_ONCE = 32  # labels whose sums lie side by side while groups held out are scored
MOST_SUMS = 1 << 23  # numbers in these sums (32 MiB): very wide data has fewer labels at once


@dataclass(frozen=True)
class Trial:
    """Groups set aside and labels looked at. Y1 and Y2 of the groups that stay have the others' rows emptied."""

    labels: np.ndarray
    Y1: sp.csr_matrix
    Y2: sp.csr_matrix
    held_members: sp.csr_matrix  # groups held out x samples
    held_labels: np.ndarray  # bool [labels, groups held out]
    rates: np.ndarray  # share of the groups that stay with the label
    n_groups: np.ndarray  # groups that stay with the label
    most_members: int  # of a group that is left out of its own scores

    def of_samples(self, samples: np.ndarray) -> Trial:
        """The same trial with only these samples, numbered anew."""
        return replace(
            self, Y1=sp.csr_matrix(self.Y1[samples]), held_members=sp.csr_matrix(self.held_members[:, samples])
        )

    def samples(self) -> np.ndarray:
        """The samples the trial needs, in order."""
        groups = np.flatnonzero(self.Y2.getnnz(axis=1))
        taught = np.flatnonzero(sp.csr_matrix(self.Y1[:, groups]).getnnz(axis=1))
        return np.union1d(taught, self.held_members.indices)


@dataclass(frozen=True)
class Forecast:
    """Of labels in groups held out: log P(nobody has it) under the noisy-or, and log norms of scores, one a power."""

    log_none: np.ndarray
    log_norms: np.ndarray


@dataclass(frozen=True)
class Calibration:
    """How scores become chances of owning: 1 - exp(-e^offset n_groups^per_group s^slope), by a power-norm of groups."""

    offset: float
    slope: float
    per_group: float
    power: int


def set_aside(Y1: sp.csr_matrix, Y2: sp.csr_matrix, seed: int = 0) -> Trial:
    """Choose groups to hold out and labels to look at, by their numbers: `numbering` makes these mean something."""
    n_groups = Y2.shape[0]
    sizes = np.asarray(Y1.getnnz(axis=0))
    n_held = max(1, min(int(HELD_OUT_SHARE * n_groups), MOST_HELD_OUT))
    held = permutation(n_groups, seed, "held-out groups")[:n_held]
    fit = np.cumsum(sizes[held]) <= MOST_HELD_ROWS
    fit[:1] = True
    held = np.sort(held[fit])
    held = held[sizes[held] > 0]
    keep = np.ones(n_groups, dtype=np.float32)
    keep[held] = 0
    kept_Y1 = sp.csr_matrix(Y1 @ sp.diags(keep))
    kept_Y1.eliminate_zeros()
    kept_Y2 = sp.csr_matrix(sp.diags(keep) @ Y2)
    kept_Y2.eliminate_zeros()
    n_positive = np.asarray(kept_Y2.getnnz(axis=0))
    known = np.flatnonzero((n_positive > 0) & (np.asarray(Y2[held].getnnz(axis=0)) > 0))
    cost = np.asarray((kept_Y2 > 0).T @ sizes).ravel()
    labels: list[int] = []
    total = 0
    for label in known[permutation(len(known), seed, "labels looked at")]:
        if len(labels) < MOST_LABELS and total + cost[label] <= MOST_PAIRS:
            labels.append(label)
            total += cost[label]
    chosen = np.sort(np.asarray(labels, dtype=np.int64))
    wanted = np.zeros(Y2.shape[1], dtype=np.float32)
    wanted[chosen] = 1
    looked_at = sp.csr_matrix(kept_Y2 @ sp.diags(wanted))
    looked_at.eliminate_zeros()
    held_labels = np.asarray(Y2[held][:, chosen].todense() > 0).T
    n_staying = max(1, int(((keep > 0) & (sizes > 0)).sum()))
    return Trial(
        chosen, kept_Y1, looked_at, sp.csr_matrix(Y1[:, held].T), np.ascontiguousarray(held_labels),
        n_positive[chosen] / n_staying, n_positive[chosen], most_members_left_out(sizes),
    )  # fmt: skip


def foretell(
    rows: Whitened, trial: Trial, owners: sp.csr_matrix, threads: int | None = None, powers: np.ndarray = POWERS[:0]
) -> Forecast:
    """What weighted owners (labels x samples) foretell for the groups held out; norms of these powers."""
    threads = threads or usable_cores()
    weights = to_triple(owners)
    held = to_triple(trial.held_members)
    held_rows = held.indices.astype(np.int64)
    rank = rows.coordinates.shape[1]
    lanes = max(1, min(LABELS_AT_ONCE, MOST_SUMS // max(rows.n_features, 1)))
    shape = (len(trial.labels), trial.held_members.shape[0])
    log_none, log_norms = np.zeros(shape), np.zeros((len(powers), *shape))

    def work(part: int) -> None:
        chosen = np.arange(part, len(trial.labels), threads)
        none, norms = np.zeros((len(chosen), shape[1])), np.zeros((len(powers), len(chosen), shape[1]))
        kernels.score_groups(
            trial.labels[chosen], weights.indptr, weights.indices, weights.values, rows.indptr, rows.indices,
            rows.values, rows.coordinates, held_rows, held.indptr, np.zeros(rows.n_features, np.float32),
            np.zeros(rank, np.float32), np.zeros((rows.n_features, lanes), np.float32),
            np.zeros((rank, lanes), np.float32), np.zeros((len(held_rows), lanes), np.float32), powers, none, norms,
        )  # fmt: skip
        log_none[chosen], log_norms[:, chosen] = none, norms

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return Forecast(log_none, log_norms)


def likelihood(log_none: np.ndarray, held_labels: np.ndarray) -> float:
    """Mean log likelihood of a label being or not being in a group held out."""
    log_some = np.log(-np.expm1(np.minimum(log_none, -1e-12)))
    return float(np.where(held_labels, log_some, log_none).mean())


def explained(forecast: Forecast, trial: Trial) -> float:
    """Share of what the labels' rates leave open about the groups held out that a forecast explains: 0 nothing, 1 all.

    The forecast is put on a scale of its own first (logistic in log(-log_none) and the log odds of the rate): methods
    differ in how sure they are, which says nothing about who owns a label.
    """
    rates = np.clip(trial.rates, 1e-6, 1 - 1e-6)[:, None] * np.ones(forecast.log_none.shape[1])
    truth = trial.held_labels.ravel().astype(np.float64)
    known = np.log(rates / (1 - rates)).ravel()
    said = np.log(-np.minimum(forecast.log_none, -1e-12)).ravel()
    without = _logistic_loss(np.stack([np.ones_like(known), known]), truth)
    return 1 - _logistic_loss(np.stack([np.ones_like(known), known, said]), truth) / max(without, 1e-12)


def _logistic_loss(inputs: np.ndarray, truth: np.ndarray, steps: int = 50) -> float:
    """Smallest mean log loss of a logistic regression, by Newton steps; inputs [terms, points]."""

    def loss_at(weights: np.ndarray) -> float:
        odds = np.einsum("t,tp->p", weights, inputs)
        return float((np.logaddexp(0, odds) - truth * odds).mean())

    weights = np.zeros(len(inputs))
    weights[0] = np.log((truth.mean() + 1e-9) / (1 - truth.mean() + 1e-9))
    best = loss_at(weights)
    for _ in range(steps):
        odds = np.einsum("t,tp->p", weights, inputs)
        chance = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        slope = np.einsum("tp,p->t", inputs, chance - truth)
        curve = np.einsum("tp,sp->ts", inputs * (chance * (1 - chance)), inputs)
        step = np.linalg.solve(curve + 1e-6 * np.eye(len(inputs)), slope)
        length = 1.0
        while (
            loss_at(weights - length * step) > best and length > 1e-4
        ):  # a full step may overshoot where positives are rare
            length /= 2
        loss = loss_at(weights - length * step)
        if loss > best - 1e-8:
            break
        weights, best = weights - length * step, loss
    return best


def calibrate(forecast: Forecast, trial: Trial, likeness: float) -> Calibration | None:
    """The calibration under which the labels of the groups held out are likeliest; None where scores say nothing.

    Labels of groups hardly tell whether members own labels together (many powers are about as likely), so that follows
    from how alike members are: power / slope is 1 (each by himself) at likeness 0 and 2 among copies.
    """
    together = 1 + min(max(likeness, 0), 1)
    number = int(np.argmin(abs(POWERS - 2 * together)))
    for _ in range(3):  # the power decides the slope, hardly
        weights = _fit_chances(forecast.log_norms[number], trial)
        if weights[1] <= 0:
            return None
        before, number = number, int(np.argmin(abs(POWERS - weights[1] * together)))
        if number == before:
            break
    offset, slope, per_group = weights.tolist()
    return Calibration(offset, slope, per_group, int(POWERS[before]))


def _fit_chances(log_norm: np.ndarray, trial: Trial, steps: int = 50) -> np.ndarray:
    """offset, slope and per_group: complementary log-log regression, -log P(group has it not) = exp(terms), by Fisher
    scoring."""
    truth = trial.held_labels.ravel()
    taught = np.log(np.maximum(trial.n_groups, 1))[:, None] * np.ones(log_norm.shape[1])
    inputs = np.stack([np.ones(truth.size), log_norm.ravel(), taught.ravel()])

    def loss_at(weights: np.ndarray) -> tuple[float, np.ndarray]:
        hazard = np.exp(np.clip(np.einsum("t,tp->p", weights, inputs), -30, 5))
        return float(np.where(truth, -np.log(-np.expm1(-hazard)), hazard).mean()), hazard

    weights = np.array([np.log(-np.log1p(-truth.mean() + 1e-9)), 0.0, 0.0])
    best, hazard = loss_at(weights)
    for _ in range(steps):
        slope = np.einsum("tp,p->t", inputs, np.where(truth, -hazard / np.expm1(hazard), hazard))
        curve = np.einsum("tp,sp->ts", inputs * (hazard**2 / np.expm1(hazard)), inputs)
        step = np.linalg.solve(curve + 1e-6 * np.eye(len(weights)), slope)
        length = 1.0
        loss, found = loss_at(weights - step)
        while loss > best and length > 1e-4:
            length /= 2
            loss, found = loss_at(weights - length * step)
        if loss > best - 1e-8:
            break
        weights, best, hazard = weights - length * step, loss, found
    return weights


def threshold_of(chances: np.ndarray) -> float:
    """Above which chance pairs should be chosen for the highest F1 to be expected, if the chances are right."""
    falling = np.sort(chances.astype(np.float64))[::-1]
    expected = 2 * np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(falling[np.argmax(expected)])


class Attempt(Protocol):
    """Whatever was made with a point of a grid, and how well it did."""

    @property
    def likelihood(self) -> float: ...


Made = TypeVar("Made", bound=Attempt)


def climb(grid: tuple[float, ...], start: int, attempt: Callable[[float], Made]) -> tuple[Made, dict[float, float]]:
    """The best attempt on a grid by walking uphill from `start`; the likelihood of every one that was made.

    Nobody else keeps what is best so far. Another attempt replaces it only where it is better: of equals the one
    nearest to the start is kept. Two attempts are in memory at a time.
    """
    best, at = attempt(grid[start]), start
    seen = {grid[start]: best.likelihood}
    for step in (1, -1):
        while 0 <= at + step < len(grid) and grid[at + step] not in seen:
            following = attempt(grid[at + step])
            seen[grid[at + step]] = following.likelihood
            if not following.likelihood > best.likelihood:
                del following
                break
            best, at = following, at + step
    return best, seen
