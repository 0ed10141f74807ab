"""Which samples of a group own its label: a linear scorer against all negatives, and noisy-or posteriors, in turn.

Holds no metric (`whitening`) and no measure of a choice (`selection`). Per label, q being the chance of owning it:

    weights = A^-1 sum_i q_i x_i                       ridge regression, every sample of other groups a negative
    s_i     = <x_i, weights> - (own share of q_i)      a sample does not vouch for itself
    q_i     = s_i / (1 - prod_group (1 - s_i'))        noisy-or: somebody of the group owns the label
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _owners_numba as kernels
from xpipe.eagle import selection
from xpipe.eagle.whitening import Whitened, leading_directions, usual_rank, whiten
from xpipe.grouping import spread_labels
from xpipe.machine import usable_cores
from xpipe.sparse import Triple, canonical, to_matrix, to_triple

ROUNDS = 10
TOLERANCE = 1e-3  # a label whose posteriors all move less is settled
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
THRESHOLDS = (1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # 1: the best sample alone


def discriminate(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    seed: int,
    owners: str,
    ridge: float | None,
    threshold: float | None,
    rounds: int,
    rank: int | None,
    threads: int,
) -> tuple[sp.csr_matrix, sp.csr_matrix, dict]:
    """(labels, scores, trace) of samples x labels; see `imputation.impute` for the options."""
    if not X.nnz or not Y2.nnz:
        empty = spread_labels(Y1, Y2)
        return empty, empty.copy(), {"ridge": ridge, "threshold": threshold}
    unit = float(np.square(X.data, dtype=np.float64).sum() / X.shape[0])  # mean squared length of a row
    spectrum = leading_directions(X, rank or usual_rank(X.shape[1]), seed)
    trial = selection.set_aside(Y1, Y2, seed)
    tried: dict[str, dict[str, float]] = {}
    whitened: dict[float, Whitened] = {}

    def likelihood_at(candidate: float) -> float:
        whitened.clear()  # one set of coordinates in memory at a time
        whitened[candidate] = rows = whiten(X, spectrum, candidate * unit, threads)
        posterior, _ = fit_posteriors(rows, trial.Y1, trial.Y2, rounds=rounds, labels=trial.labels, threads=threads)
        best = best_pairs(posterior, trial.Y1, trial.Y2)
        found = {}
        for cut in cuts_of(owners, threshold):
            chosen = keep_pairs(posterior, (posterior.data > cut) | best)
            found[f"{cut:g}"] = selection.likelihood(
                selection.foretell(rows, trial, chosen, threads), trial.held_labels
            )
        tried[f"{candidate:g}"] = found
        return max(found.values())

    if len(trial.labels) == 0:  # nothing can be held out of so few groups
        ridge, threshold = ridge or RIDGES[3], threshold if threshold is not None else THRESHOLDS[2]
    elif ridge is None:
        ridge, _ = selection.climb(RIDGES, 3, likelihood_at)
    else:
        likelihood_at(ridge)
    if threshold is None:
        found = tried[f"{ridge:g}"]
        threshold = float(max(found, key=lambda cut: found[cut]))
    rows = whitened.get(ridge) or whiten(X, spectrum, ridge * unit, threads)
    posterior, _ = fit_posteriors(rows, Y1, Y2, rounds=rounds, threads=threads)
    cut = 1.0 if owners == "one" else threshold
    chosen = keep_pairs(posterior, (posterior.data > cut) | best_pairs(posterior, Y1, Y2))
    scores = sp.csr_matrix(chosen.multiply(posterior).T)
    labels = sp.csr_matrix(chosen.T)
    trace = {"ridge": ridge, "threshold": cut, "rank": spectrum.vectors.shape[1], "held_out_likelihood": tried}
    return canonical(labels, "labels"), canonical(scores, "scores"), trace


def cuts_of(owners: str, threshold: float | None) -> tuple[float, ...]:
    if owners == "one":
        return (1.0,)
    return THRESHOLDS if threshold is None else (threshold,)


def best_pairs(posterior: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> np.ndarray:
    """Which pairs (labels x samples) hold the largest posterior of a group for the label; bool, one a pair."""
    pairs, label_groups = to_triple(posterior), to_triple(sp.csr_matrix(sp.csr_matrix(Y2).T))
    group_samples = to_triple(sp.csr_matrix(sp.csr_matrix(Y1).T))
    best = np.zeros(len(pairs.indices), dtype=bool)
    looked_at = np.flatnonzero(np.diff(pairs.indptr))
    kernels.best_of_groups(
        looked_at, pairs.indptr, pairs.indices, pairs.values, label_groups.indptr, label_groups.indices,
        group_samples.indptr, group_samples.indices, best,
    )  # fmt: skip
    return best


def keep_pairs(pairs: sp.csr_matrix, kept: np.ndarray) -> sp.csr_matrix:
    """The pattern of the kept pairs, as ones."""
    ends = np.concatenate([[0], np.cumsum(kept)])[pairs.indptr].astype(np.int64)
    ones = np.ones(int(kept.sum()), dtype=np.float32)
    return to_matrix(Triple(ends, pairs.indices[kept].astype(np.int32), ones), pairs.shape[1])


def fit_posteriors(
    rows: Whitened,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    rounds: int = ROUNDS,
    labels: np.ndarray | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(posteriors, scores), both labels x samples, over every pair that a group allows.

    labels: the label numbers to work on (all); the rows of others stay empty.
    """
    n_samples, n_labels = Y1.shape[0], Y2.shape[1]
    threads = threads or usable_cores()
    if labels is None:
        labels = np.arange(n_labels)
    wanted = np.zeros(n_labels, dtype=np.float32)
    wanted[labels] = 1
    chosen = sp.csr_matrix(Y2 @ sp.diags(wanted)) if len(labels) < n_labels else Y2
    pairs = to_triple(sp.csr_matrix(spread_labels(Y1, chosen).T))
    label_groups = to_triple(sp.csr_matrix(sp.csr_matrix(chosen).T))
    group_samples = to_triple(sp.csr_matrix(Y1.T))
    posterior, score = np.zeros(len(pairs.indices), np.float32), np.zeros(len(pairs.indices), np.float32)
    cost = np.diff(pairs.indptr)[labels]
    queue = labels[np.argsort(-cost, kind="stable")]
    n_features = int(rows.indices.max()) + 1 if len(rows.indices) else 1

    def work(part: int) -> None:
        kernels.fit_labels(
            queue[part :: threads * 4], pairs.indptr, pairs.indices, label_groups.indptr, label_groups.indices,
            group_samples.indptr, group_samples.indices, rows.indptr, rows.indices, rows.values, rows.coordinates,
            rows.influence, rounds, np.float32(TOLERANCE), np.zeros(n_samples, np.int32),
            np.zeros(n_features, np.float32), np.zeros(rows.coordinates.shape[1], np.float32), posterior, score,
        )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads * 4)))
    shape = (n_labels, n_samples)
    return to_matrix(pairs._replace(values=posterior), shape[1]), to_matrix(pairs._replace(values=score), shape[1])
