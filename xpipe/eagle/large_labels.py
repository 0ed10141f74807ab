"""Rounds of labels with many rows: scores by weights of features instead of products with every direction.

Holds no form of posteriors and no order of the method (`discriminative`). The score of a row x is <x, z> - <p, c>: z is
the weighted sum of rows, c that of their coordinates p. A row has as many coordinates as there are directions, more
numbers than it has non-zeros. But p = x^T U, so the score is also <x, z - U c>. Once z - U c is known for
a label, a row costs its own non-zeros alone. U c costs as much as the coordinates of as many rows as there are
features; in one product for many labels it costs a tenth of that. So labels with more rows than an eighth of the
features are taken here, in batches.

A batch has a fixed number of places, of which the last may be empty: a product of matrices of one shape computes each
row in the same way, whatever the other rows are, so how labels are cut into batches changes no byte.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xpipe.eagle import _large_labels_numba as kernels
from xpipe.eagle._large_labels_numba import BatchState, LabelBatch
from xpipe.eagle._posteriors_numba import Pairs
from xpipe.eagle._rounds_numba import Kinship, Schedule
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.whitening import Whitener
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse_rows import row_pointers

FEATURES_PER_ROW = 8  # labels with more rows than a FEATURES_PER_ROW-th of the features are large
LEAST_ROWS = 512  # ... and more than this
MOST_PLACES, MOST_WEIGHTS = 32, 1 << 23  # labels of a batch; weights of all its labels (32 MiB)


def is_large(n_rows: np.ndarray, n_features: int) -> np.ndarray:
    """Which labels, by their number of rows, are scored by weights of features; bool."""
    large: np.ndarray = n_rows > max(LEAST_ROWS, n_features // FEATURES_PER_ROW)
    return large


def n_places(n_features: int) -> int:
    """The number of labels of a batch: a power of two, which depends on the number of features alone."""
    places = MOST_PLACES
    while places > 1 and places * n_features > MOST_WEIGHTS:
        places //= 2
    return places


def fit_large_labels(
    labels: np.ndarray,
    pairs: Pairs,
    rows: Whitened,
    whitener: Whitener,
    kinship: Kinship,
    schedule: Schedule,
    start: np.ndarray,
    posterior: np.ndarray,
    score: np.ndarray,
    threads: int,
) -> None:
    """Alternate scores and posteriors for large labels; fills posterior and score at the pairs of these labels.

    labels: the largest come first. whitener: the one that whitened `rows`. start: as in `_rounds_numba.fit_labels`.
    """
    size = n_places(rows.n_features)

    def work(first: int) -> None:
        batch = _make_batch(labels[first : first + size], pairs)
        state = _make_state(batch, rows, size)
        kernels.gather_batch(batch, pairs, np.zeros(len(rows.influence), np.int32), start, posterior)
        for _ in range(schedule.rounds):
            _score(batch, pairs, rows, whitener, kinship, posterior, score, state)
            kernels.share_batch(batch, pairs, schedule.tolerance, posterior, state)
            if not state.active.any():
                break
        state.active[: len(batch.labels)] = True
        for calibration in schedule.calibrations:
            kernels.calibrate_batch(batch, pairs, calibration, posterior, state)
            _score(batch, pairs, rows, whitener, kinship, posterior, score, state)
        kernels.take_scores(batch, pairs, score, state)

    with one_thread_each(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(labels), size)))


def _make_batch(labels: np.ndarray, pairs: Pairs) -> LabelBatch:
    """The labels of a batch, with room for their groups."""
    groups = [pairs.groups.items[pairs.groups.starts[label] : pairs.groups.starts[label + 1]] for label in labels]
    sizes = np.diff(pairs.members.starts)
    member_starts = row_pointers([int(sizes[each].sum()) for each in groups])
    group_starts = row_pointers([len(each) for each in groups])
    return LabelBatch(
        labels=labels.astype(np.int64),
        starts=row_pointers(np.diff(pairs.samples.starts)[labels]),
        group_starts=group_starts,
        member_starts=member_starts,
        numbers=np.empty(group_starts[-1], np.int32),
        ends=np.empty(group_starts[-1], np.int64),
        members=np.empty(member_starts[-1], np.int64),
    )


def _make_state(batch: LabelBatch, rows: Whitened, size: int) -> BatchState:
    """Sums of nothing; every label is active."""
    n_rows, rank = int(batch.starts[-1]), rows.coordinates.shape[1]
    active = np.zeros(size, dtype=bool)
    active[: len(batch.labels)] = True
    return BatchState(
        told=np.zeros(n_rows, np.float32),
        news=np.empty(n_rows, np.float32),
        before=np.empty(n_rows, np.float32),
        outside=np.empty(int(batch.member_starts[-1]), np.float32),
        dense=np.zeros((size, rows.n_features), np.float32),
        leading=np.zeros((size, rank), np.float32),
        weights=np.empty((size, rows.n_features), np.float32),
        active=active,
    )


def _score(
    batch: LabelBatch,
    pairs: Pairs,
    rows: Whitened,
    whitener: Whitener,
    kinship: Kinship,
    posterior: np.ndarray,
    score: np.ndarray,
    state: BatchState,
) -> None:
    """One round of scores: sums of rows, weights of features, scores without the own group."""
    kernels.tell_sums(batch, pairs, rows, posterior, state)
    weigh_features(whitener, state.dense, state.leading, state.weights)
    kernels.score_batch(batch, pairs, rows, kinship, score, state)


def weigh_features(whitener: Whitener, dense: np.ndarray, leading: np.ndarray, weights: np.ndarray) -> None:
    """weights = dense minus what the directions take off, for whitened rows; all [labels, ...], float32.

    A whitened row has one more feature and one more coordinate than there are features and directions (`whitening`).
    The last coordinate is a product with `of_mean`; no direction has a part in the last feature.
    """
    along = weights[:, :-1]
    np.matmul(leading[:, :-1], whitener.directions.T, out=along)
    along += leading[:, -1:] * whitener.of_mean
    along /= whitener.scale
    np.subtract(dense[:, :-1], along, out=along)
    weights[:, -1] = dense[:, -1]
