"""Which samples of a group own its label: a linear scorer against all negatives, and noisy-or posteriors, in turn.

Holds no metric (`whitening`) and no choice (`choice`). Per label, q being the chance of owning it:

    weights = A^-1 sum_i q_i x_i                       ridge regression, every sample of other groups a negative
    s_i     = <x_i, weights> - (share of its group)    a group does not vouch for itself: other groups have to
    q_i     = s_i / (1 - prod_group (1 - s_i'))        noisy-or: somebody of the group owns the label

The noisy-or takes scores for chances and members for independent; among look-alikes q is far too modest. So after the
last round scores become chances by a `Calibration` (`selection`), which knows how often groups set aside have a label:

    chance(s) = 1 - exp(-e^offset n_groups^per_group s^slope)
    q_i       = chance(s_i) / chance(power-norm of the group's scores)

power = slope is a noisy-or: each member owns a label or not by himself. The more alike they are, the higher it is.

As no group had a say in its own scores, they compare with those of groups set aside. In a larger group than there is
memory for, only the sample itself has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _owners_numba as kernels
from xpipe.eagle.numbering import with_samples
from xpipe.eagle.whitening import Whitened
from xpipe.ground.machine import lent, usable_cores
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.grouping.groups import spread_labels

ROUNDS = 10
TOLERANCE = 1e-2  # a label whose posteriors all move less is settled
MOST_KEPT = 1 << 24  # coordinates, and entries, of a label's rows that a thread copies to run through them in order
MOST_KINSHIP = 1 << 26  # entries (256 MiB) of what members of groups add to each other's scores


def find_owners(
    rows: Whitened,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    calibration: Sequence[float] = (),
    owners: str = "posterior",
    threshold: float = 0.5,
    rounds: int = ROUNDS,
    most_members: int | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(labels, posteriors of the owners), samples x labels.

    Every group's best sample owns the label, so that no threshold can leave one without. Of equals it is the sample
    with the lowest number; how groups are numbered, and whether some are empty, has no part in it.
    """
    Y1, Y2 = with_samples(Y1, Y2)
    noisy_or, score = fit_posteriors(rows, Y1, Y2, rounds=rounds, most_members=most_members, threads=threads)
    posterior = judged(score, Y1, Y2, calibration, threads) if len(calibration) else noisy_or.data
    kept = best_pairs(score, Y1, Y2)
    if owners == "posterior":
        kept |= posterior > threshold
    labels = keep_pairs(score, kept)
    scores = to_matrix(to_triple(labels)._replace(values=posterior[kept]), labels.shape[1])
    return canonical(sp.csr_matrix(labels.T), "labels"), canonical(sp.csr_matrix(scores.T), "scores")


def judged(
    score: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, calibration: Sequence[float], threads: int | None = None
) -> np.ndarray:
    """The posterior of every pair, float32. calibration: offset, slope, per_group, power."""
    offset, slope, per_group, power = calibration
    posterior = np.zeros(len(score.data), np.float32)
    labels, *pairs_and_groups = _pairs_and_groups(score, Y1, Y2)
    parts = 4 * (threads or usable_cores())

    def work(part: int) -> None:
        kernels.judge_pairs(labels[part::parts], *pairs_and_groups, offset, slope, per_group, int(power), posterior)

    with ThreadPoolExecutor(threads or usable_cores()) as pool:
        list(pool.map(work, range(parts)))
    return posterior


def best_pairs(score: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> np.ndarray:
    """Which pairs (labels x samples) hold the highest score of a group for the label; bool, one a pair."""
    best = np.zeros(len(score.data), dtype=bool)
    kernels.best_of_groups(*_pairs_and_groups(score, Y1, Y2), best)
    return best


def _pairs_and_groups(pairs: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> tuple[np.ndarray, ...]:
    """labels with pairs; the pairs (labels x samples), groups of labels and samples of groups, as kernels take them."""
    triple, label_groups = to_triple(pairs), to_triple(sp.csr_matrix(sp.csr_matrix(Y2).T))
    group_samples = to_triple(sp.csr_matrix(sp.csr_matrix(Y1).T))
    return (
        np.flatnonzero(np.diff(triple.indptr)), triple.indptr, triple.indices, triple.values, label_groups.indptr,
        label_groups.indices, group_samples.indptr, group_samples.indices,
    )  # fmt: skip


def most_members_left_out(sizes: np.ndarray) -> int:
    """Size of the largest groups that are left out of their own scores, if smaller ones come first."""
    by_size = np.sort(sizes[sizes > 0]).astype(np.int64)
    fits = np.cumsum(by_size**2) <= MOST_KINSHIP
    if fits.all():
        return int(by_size.max(initial=0))
    return int(by_size[~fits][0]) - 1


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
    most_members: int | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(noisy-or posteriors, scores), both labels x samples, over every pair that a group allows.

    most_members: larger groups have a say in their own scores; by default as many are left out as there is memory for.
    """
    n_samples, n_labels = Y1.shape[0], Y2.shape[1]
    threads = threads or usable_cores()
    pairs = to_triple(sp.csr_matrix(spread_labels(Y1, Y2).T))
    label_groups = to_triple(sp.csr_matrix(sp.csr_matrix(Y2).T))
    group_samples = to_triple(sp.csr_matrix(Y1.T))
    starts, kinship = _kinship(rows, group_samples, most_members, threads)
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
                rows.influence, starts, kinship, rounds, np.float32(TOLERANCE), *space, posterior, score,
            )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads * 4)))
    shape = (n_labels, n_samples)
    return to_matrix(pairs._replace(values=posterior), shape[1]), to_matrix(pairs._replace(values=score), shape[1])


def _kinship(
    rows: Whitened, group_samples: Triple, most_members: int | None, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """(where each group's entries start, -1 for none; what members add to each other's scores)."""
    sizes = np.diff(group_samples.indptr)
    most_members = most_members_left_out(sizes) if most_members is None else most_members
    areas = np.where(sizes <= most_members, sizes**2, 0)
    starts = np.where(sizes <= most_members, np.cumsum(areas) - areas, -1)
    kinship = np.empty(int(areas.sum()), np.float32)
    parts = 4 * threads

    def work(part: int) -> None:
        kernels.kinship_of_groups(
            np.arange(part, len(sizes), parts), group_samples.indptr, group_samples.indices, rows.indptr, rows.indices,
            rows.values, rows.coordinates, starts, np.zeros(rows.n_features, np.float32), kinship,
        )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(parts)))
    return starts, kinship


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
