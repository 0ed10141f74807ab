"""Which samples of a group own its label: a linear scorer against all negatives, and noisy-or posteriors, in turn.

Holds no metric (`whitening`) and no choice (`choice`). Per label, q being the chance of owning it:

    weights = A^-1 sum_i q_i x_i                       ridge regression, every sample of other groups a negative
    s_i     = <x_i, weights> - (own share of q_i)      a sample does not vouch for itself
    q_i     = s_i / (1 - prod_group (1 - s_i'))        noisy-or: somebody of the group owns the label

The noisy-or takes members for independent, so among look-alikes q is far too modest. A score can be judged without the
group, too: at `even_score` owning is as likely as not. The posterior is the larger of q and s^2 / (s^2 + even_score^2);
labels of groups set aside show that slope (1.7 to 2.1 on two sets, 1.1 to 1.5 on a third).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _owners_numba as kernels
from xpipe.eagle.whitening import Whitened
from xpipe.grouping import spread_labels
from xpipe.machine import lent, usable_cores
from xpipe.sparse import Triple, canonical, to_matrix, to_triple

ROUNDS = 10
TOLERANCE = 1e-2  # a label whose posteriors all move less is settled
MOST_KEPT = 1 << 24  # coordinates, and entries, of a label's rows that a thread copies to run through them in order


def find_owners(
    rows: Whitened,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    even_score: float,
    owners: str = "posterior",
    threshold: float = 0.5,
    rounds: int = ROUNDS,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(labels, posteriors of the owners), samples x labels."""
    noisy_or, score = fit_posteriors(rows, Y1, Y2, rounds=rounds, threads=threads)
    posterior = judged(noisy_or, score, even_score)
    kept = best_pairs(noisy_or, Y1, Y2)
    if owners == "posterior":
        kept |= posterior > threshold
    labels = keep_pairs(noisy_or, kept)
    scores = to_matrix(to_triple(labels)._replace(values=posterior[kept]), labels.shape[1])
    return canonical(sp.csr_matrix(labels.T), "labels"), canonical(sp.csr_matrix(scores.T), "scores")


def judged(noisy_or: sp.csr_matrix, score: sp.csr_matrix, even_score: float) -> np.ndarray:
    """The posterior of every pair, float32: from its group, or from its score alone."""
    square = np.square(np.maximum(score.data, 0))
    even = np.float32(even_score) ** 2
    alone = square / (square + even) if np.isfinite(even) else np.zeros_like(square)
    return np.maximum(noisy_or.data, alone).astype(np.float32)


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
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(noisy-or posteriors, scores), both labels x samples, over every pair that a group allows."""
    n_samples, n_labels = Y1.shape[0], Y2.shape[1]
    threads = threads or usable_cores()
    pairs = to_triple(sp.csr_matrix(spread_labels(Y1, Y2).T))
    label_groups = to_triple(sp.csr_matrix(sp.csr_matrix(Y2).T))
    group_samples = to_triple(sp.csr_matrix(Y1.T))
    posterior, score = np.zeros(len(pairs.indices), np.float32), np.zeros(len(pairs.indices), np.float32)
    queue = np.argsort(-np.diff(pairs.indptr), kind="stable")  # heaviest first
    spare: SimpleQueue[tuple[np.ndarray, ...]] = SimpleQueue()
    for _ in range(threads):
        spare.put(_work_space(rows, np.diff(pairs.indptr).max(initial=1)))

    def work(part: int) -> None:
        with lent(spare) as space:
            kernels.fit_labels(
                queue[part :: threads * 4], pairs.indptr, pairs.indices, label_groups.indptr, label_groups.indices,
                group_samples.indptr, group_samples.indices, rows.indptr, rows.indices, rows.values, rows.coordinates,
                rows.influence, rounds, np.float32(TOLERANCE), *space, posterior, score,
            )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads * 4)))
    shape = (n_labels, n_samples)
    return to_matrix(pairs._replace(values=posterior), shape[1]), to_matrix(pairs._replace(values=score), shape[1])


def _work_space(rows: Whitened, most_rows: int) -> tuple[np.ndarray, ...]:
    """What one thread needs for labels of up to so many rows; labels that do not fit are read where they are."""
    rank, tile = rows.coordinates.shape[1], kernels.TILE_ROWS
    n_tiles = max(1, min(-(-most_rows // tile), MOST_KEPT // max(1, rank * tile)))
    longest = np.diff(rows.indptr).max(initial=0)
    n_entries = min(MOST_KEPT, most_rows * longest)
    return (
        np.zeros(len(rows.influence), np.int32), np.zeros(rows.n_features, np.float32), np.zeros(rank, np.float32),
        np.empty((n_tiles, rank, tile), np.float32), np.empty(n_entries, np.int32), np.empty(n_entries, np.float32),
    )  # fmt: skip
