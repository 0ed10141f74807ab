"""A trial: some groups are held out, and the samples of the others forecast the labels of the held-out groups.

Holds no fitting (`discriminative`) and no judgement of a forecast (`selection`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _forecast_numba as kernels
from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.kinship import kinship_of, largest_kinship
from xpipe.eagle.near_groups import beside
from xpipe.eagle.slopes import NO_POWERS, quarters_of
from xpipe.ground.machine import usable_cores
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import to_triple

HELD_OUT_SHARE = 0.15
MOST_HELD_OUT = 1000  # groups that are held out
MOST_HELD_ROWS = 50_000  # samples in them
MOST_LABELS = 400  # labels of a trial: enough for a choice, few enough to cost little
MOST_PAIRS = 300_000  # (label, sample) pairs that the labels of a trial allow together
LABELS_AT_ONCE = 32  # labels whose sums lie side by side while held-out groups are scored
MOST_SUMS = 1 << 23  # numbers in these sums (32 MiB): very wide data has fewer labels at once


@dataclass(frozen=True)
class Trial:
    """Held-out groups and labels of a trial. Y1 and Y2 keep their shapes; entries of held-out groups are removed."""

    labels: np.ndarray  # numbers of the labels of the trial
    Y1: sp.csr_matrix  # samples x groups
    Y2: sp.csr_matrix  # groups x labels; only labels of the trial have entries
    held_members: sp.csr_matrix  # held-out groups x samples
    held_labels: np.ndarray  # bool [labels, held-out groups]
    rates: np.ndarray  # per label, its share of the groups that are not held out
    n_groups: np.ndarray  # per label, the groups with the label that are not held out
    most_members: int  # size of the largest groups that have no say in their own scores
    n_held: int = 0  # groups that do not take part
    beside: sp.csr_matrix | None = None  # groups x labels: groups near those with a label that lack it

    def of_samples(self, samples: np.ndarray) -> Trial:
        """The same trial with only these samples, numbered from 0 on."""
        return replace(
            self, Y1=sp.csr_matrix(self.Y1[samples]), held_members=sp.csr_matrix(self.held_members[:, samples])
        )

    def of_labels(self, most: int) -> Trial:
        """The same trial with at most `most` of its labels, taken evenly."""
        places = np.arange(0, len(self.labels), max(1, -(-len(self.labels) // most)))
        wanted = np.zeros(self.Y2.shape[1], dtype=np.float32)
        wanted[self.labels[places]] = 1
        return replace(
            self,
            labels=self.labels[places],
            Y2=_with_labels(self.Y2, wanted),
            held_labels=self.held_labels[places],
            rates=self.rates[places],
            n_groups=self.n_groups[places],
        )

    def samples(self) -> np.ndarray:
        """The samples that the trial needs, ascending."""
        looked_at = self.Y2 if self.beside is None else sp.csr_matrix(self.Y2 + self.beside)
        groups = np.flatnonzero(looked_at.getnnz(axis=1))
        with_labels = np.flatnonzero(sp.csr_matrix(self.Y1[:, groups]).getnnz(axis=1))
        return np.union1d(with_labels, self.held_members.indices)


@dataclass(frozen=True)
class Forecast:
    """What is forecast for labels in held-out groups."""

    log_none: np.ndarray  # [labels, groups]: log of the chance that no sample has the label, under the noisy-or
    log_sums: np.ndarray  # [powers, labels, groups]: log of the sums of scores to a power


def set_aside(Y1: sp.csr_matrix, Y2: sp.csr_matrix, seed: int = 0) -> Trial:
    """Choose the groups to hold out and the labels of the trial, both by their numbers (see `numbering`)."""
    sizes = np.asarray(Y1.getnnz(axis=0))
    held = _held_groups(sizes, seed, min(int(HELD_OUT_SHARE * len(sizes)), MOST_HELD_OUT))
    keep = np.ones(Y2.shape[0], dtype=np.float32)
    keep[held] = 0
    kept_Y1 = sp.csr_matrix(Y1 @ sp.diags(keep))
    kept_Y1.eliminate_zeros()
    kept_Y2 = sp.csr_matrix(sp.diags(keep) @ Y2)
    kept_Y2.eliminate_zeros()
    n_positive = np.asarray(kept_Y2.getnnz(axis=0))
    known = np.flatnonzero((n_positive > 0) & (np.asarray(Y2[held].getnnz(axis=0)) > 0))
    chosen = _trial_labels(known, np.asarray((kept_Y2 > 0).T @ sizes).ravel(), seed)
    wanted = np.zeros(Y2.shape[1], dtype=np.float32)
    wanted[chosen] = 1
    held_labels = np.asarray(Y2[held][:, chosen].todense() > 0).T
    n_staying = max(1, int(((keep > 0) & (sizes > 0)).sum()))
    return Trial(
        labels=chosen,
        Y1=kept_Y1,
        Y2=_with_labels(kept_Y2, wanted),
        held_members=sp.csr_matrix(Y1[:, held].T),
        held_labels=np.ascontiguousarray(held_labels),
        rates=n_positive[chosen] / n_staying,
        n_groups=n_positive[chosen],
        most_members=largest_kinship(sizes),
        n_held=len(held),
    )


def take_part(Y1: sp.csr_matrix, Y2: sp.csr_matrix, labels: np.ndarray, near: np.ndarray) -> Trial:
    """A trial of some labels in which all groups take part. near: the groups near each group."""
    sizes = np.asarray(Y1.getnnz(axis=0))
    wanted = np.zeros(Y2.shape[1], dtype=np.float32)
    wanted[labels] = 1
    trial_Y2, n_groups = _with_labels(Y2, wanted), np.asarray(Y2.getnnz(axis=0))[labels]
    return Trial(
        labels=labels,
        Y1=Y1,
        Y2=trial_Y2,
        held_members=sp.csr_matrix((0, Y1.shape[0]), dtype=np.float32),
        held_labels=np.zeros((len(labels), 0), dtype=bool),
        rates=n_groups / max(1, int((sizes > 0).sum())),
        n_groups=n_groups,
        most_members=largest_kinship(sizes),
        beside=beside(near, trial_Y2),
    )


def _with_labels(of_labels: sp.csr_matrix, wanted: np.ndarray) -> sp.csr_matrix:
    """Groups x labels with the entries of the labels that are 1 in `wanted`; others are 0 there."""
    fewer = sp.csr_matrix(of_labels @ sp.diags(wanted))
    fewer.eliminate_zeros()
    return fewer


def _held_groups(sizes: np.ndarray, seed: int, most: int) -> np.ndarray:
    """Numbers of the groups to hold out, ascending; groups without samples are not among them."""
    held = permutation(len(sizes), seed, "held-out groups")[: max(1, most)]
    fit = np.cumsum(sizes[held]) <= MOST_HELD_ROWS
    fit[:1] = True
    held = np.sort(held[fit])
    filled: np.ndarray = held[sizes[held] > 0]
    return filled


def _trial_labels(known: np.ndarray, n_pairs: np.ndarray, seed: int) -> np.ndarray:
    """Numbers of the labels of the trial, ascending: random ones of `known`, within the limits. n_pairs: per label."""
    labels: list[int] = []
    total = 0
    for label in known[permutation(len(known), seed, "labels looked at")]:
        if len(labels) < MOST_LABELS and total + n_pairs[label] <= MOST_PAIRS:
            labels.append(label)
            total += n_pairs[label]
    return np.sort(np.asarray(labels, dtype=np.int64))


def judged_kinship(rows: Whitened, trial: Trial, threads: int) -> Kinship:
    """What leaves the held-out groups out of their own scores."""
    held = to_triple(trial.held_members)
    return kinship_of(rows, Lists(held.indptr, held.indices), trial.most_members, threads)


def forecast(
    rows: Whitened,
    trial: Trial,
    owners: sp.csr_matrix,
    threads: int | None = None,
    powers: np.ndarray = NO_POWERS,
    kinship: Kinship | None = None,
) -> Forecast:
    """What weighted owners (labels x samples) forecast for the held-out groups.

    powers: of scores to add up, whole quarters. kinship: of the judged groups, where it is known already.
    """
    threads = threads or usable_cores()
    weights, held = to_triple(owners), to_triple(trial.held_members)
    held_samples = Lists(held.indptr, held.indices)
    shape = (len(trial.labels), trial.held_members.shape[0])
    log_none, log_sums = np.zeros(shape), np.zeros((len(powers), *shape))
    kinship = kinship or judged_kinship(rows, trial, threads)
    quarters = quarters_of(powers)

    def work(part: int) -> None:
        chosen = np.arange(part, len(trial.labels), threads)
        none, sums = np.zeros((len(chosen), shape[1])), np.zeros((len(chosen), shape[1], len(powers)))
        kernels.forecast_labels(
            trial.labels[chosen],
            weights,
            rows,
            held_samples,
            kinship,
            _space(rows, len(held.indices)),
            quarters,
            none,
            sums,
        )
        log_none[chosen], log_sums[:, chosen] = none, np.moveaxis(sums, 2, 0)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return Forecast(log_none, log_sums)


def _space(rows: Whitened, n_held: int) -> kernels.ForecastSpace:
    """What one thread needs to score `n_held` samples."""
    rank = rows.coordinates.shape[1]
    lanes = max(1, min(LABELS_AT_ONCE, MOST_SUMS // max(rows.n_features, 1)))
    return kernels.ForecastSpace(
        dense=np.zeros(rows.n_features, np.float32),
        leading=np.zeros(rank, np.float32),
        sums=np.zeros((rows.n_features, lanes), np.float32),
        sum_coordinates=np.zeros((rank, lanes), np.float32),
        scores=np.zeros((n_held, lanes), np.float32),
        told=np.zeros((n_held, lanes), np.float32),
        weight_of=np.zeros(len(rows.influence), np.float32),
    )
