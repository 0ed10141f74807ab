"""Choices made without a true label: how well labels of held-out *groups* are foretold.

Some groups are set aside; samples of the others give each label its weights; the noisy-or over the samples of a group
set aside foretells its labels. Holds no fitting: posteriors come from `discriminative`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _owners_numba as kernels
from xpipe.eagle.whitening import Whitened
from xpipe.machine import usable_cores
from xpipe.seeding import permutation
from xpipe.sparse import to_triple

HELD_OUT_SHARE = 0.15
MOST_HELD_OUT = 1000  # groups set aside
MOST_LABELS = 400  # labels looked at: enough for a choice, few enough to cost little


@dataclass(frozen=True)
class Trial:
    """Groups set aside and labels looked at. Y1 and Y2 of the groups that stay have the others' rows emptied."""

    labels: np.ndarray
    held_groups: np.ndarray
    Y1: sp.csr_matrix
    Y2: sp.csr_matrix
    held_members: sp.csr_matrix  # groups held out x samples
    held_labels: np.ndarray  # bool [labels, groups held out]


def set_aside(Y1: sp.csr_matrix, Y2: sp.csr_matrix, seed: int = 0) -> Trial:
    """Choose groups to hold out and labels to look at, labels in proportion to how many groups carry them."""
    n_groups = Y2.shape[0]
    n_held = max(1, min(int(HELD_OUT_SHARE * n_groups), MOST_HELD_OUT))
    held = np.sort(permutation(n_groups, seed, "held-out groups")[:n_held])
    keep = np.ones(n_groups, dtype=np.float32)
    keep[held] = 0
    staying = sp.diags(keep)
    kept_Y2 = sp.csr_matrix(staying @ Y2)
    kept_Y2.eliminate_zeros()
    kept_Y1 = sp.csr_matrix(Y1 @ staying)
    kept_Y1.eliminate_zeros()
    known = np.flatnonzero((kept_Y2.getnnz(axis=0) > 0) & (Y2[held].getnnz(axis=0) > 0))
    labels = known[np.sort(permutation(len(known), seed, "labels looked at")[:MOST_LABELS])]
    held_labels = np.asarray(Y2[held][:, labels].todense() > 0).T
    return Trial(labels, held, kept_Y1, kept_Y2, sp.csr_matrix(Y1[:, held].T), np.ascontiguousarray(held_labels))


def foretell(rows: Whitened, trial: Trial, owners: sp.csr_matrix, threads: int | None = None) -> np.ndarray:
    """log P(no sample of the group has the label), [labels, groups held out], by weighted owners (labels x samples)."""
    threads = threads or usable_cores()
    weights = to_triple(owners)
    held = to_triple(trial.held_members)
    held_rows = held.indices.astype(np.int64)
    turned = np.ascontiguousarray(rows.coordinates[held_rows].T)
    log_none = np.zeros((len(trial.labels), len(trial.held_groups)))
    n_features = int(rows.indices.max()) + 1 if len(rows.indices) else 1

    def work(part: int) -> None:
        chosen = np.arange(part, len(trial.labels), threads)
        found = np.zeros((len(chosen), len(trial.held_groups)))
        kernels.score_groups(
            trial.labels[chosen], weights.indptr, weights.indices, weights.values, rows.indptr, rows.indices,
            rows.values, rows.coordinates, held_rows, turned, held.indptr, np.zeros(n_features, np.float32),
            np.zeros(rows.coordinates.shape[1], np.float32), np.zeros(len(held_rows), np.float32), found,
        )  # fmt: skip
        log_none[chosen] = found

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return log_none


def likelihood(log_none: np.ndarray, held_labels: np.ndarray) -> float:
    """Mean log likelihood of a label being or not being in a group held out."""
    log_some = np.log(-np.expm1(np.minimum(log_none, -1e-12)))
    return float(np.where(held_labels, log_some, log_none).mean())


def group_f1(log_none: np.ndarray, held_labels: np.ndarray) -> float:
    """F1 of foretelling which group has which label, at the best cut of the foretold probability."""
    order = np.argsort(log_none, axis=None, kind="stable")  # surest first
    hits = np.cumsum(held_labels.ravel()[order])
    n_true = int(held_labels.sum())
    if n_true == 0:
        return 0.0
    return float((2 * hits / (np.arange(1, len(order) + 1) + n_true)).max())


def climb(grid: tuple[float, ...], start: int, value: Callable[[float], float]) -> tuple[float, dict[float, float]]:
    """The best point of a grid by walking uphill from `start`; every value looked at."""
    seen: dict[float, float] = {}

    def at(index: int) -> float:
        if grid[index] not in seen:
            seen[grid[index]] = value(grid[index])
        return seen[grid[index]]

    best = start
    for step in (1, -1):
        while 0 <= best + step < len(grid) and at(best + step) > at(best):
            best += step
    return grid[best], seen
