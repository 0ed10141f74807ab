"""What labels are clustered by: the sum of their rows, or given vectors, without their smallest entries.

Holds no clustering and no files. A label needs its own rows only, so that any labels can be done anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import Triple, read_only, to_matrix, to_triple
from xpipe.ground.sparse_rows import concatenate, entries_of_rows, keep_entries, row_pointers
from xpipe.trees.training_data import TrainingData

MOST_ENTRIES = 512  # of one vector: the largest ones
ALL_ENTRIES = 2**26  # of all vectors, about: with more labels each of them has fewer
LEAST_ENTRIES = 32
ENTRIES_AT_ONCE = 2**24  # of the rows of labels that are added up together, except for one label


def most_entries(n_labels: int) -> int:
    """How many entries a label vector keeps at most."""
    return min(MOST_ENTRIES, max(LEAST_ENTRIES, ALL_ENTRIES // max(n_labels, 1)))


def sum_rows(data: TrainingData, labels: np.ndarray, threads: int = 1) -> Triple:
    """The sum of the scaled rows of each of some labels, its largest entries.

    Parameters
    ----------
    data : TrainingData
        The rows and labels.
    labels : numpy.ndarray
        int64, labels with positives.
    threads : int
        Changes no byte.

    Returns
    -------
    Triple
        One row per label. With the same data, a label has the same entries whatever labels are beside it.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import prepare_data
    >>> from xpipe.trees.vectors import sum_rows
    >>> sum_rows(prepare_data(sp.eye(4, format="csr"), sp.eye(4, format="csr")), range(4)).indices.tolist()
    [0, 1, 2, 3]
    """
    labels = np.asarray(labels, dtype=np.int64)
    most = most_entries(len(data.labels))
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
        return concatenate(list(pool.map(lambda part: _sum_some(data, part, most), _cut(data, labels))))


def _cut(data: TrainingData, labels: np.ndarray) -> Iterator[np.ndarray]:
    """Labels whose rows have at most ENTRIES_AT_ONCE entries together, about."""
    entries_per_row = 1 + data.X.n_entries // max(data.X.n_rows, 1)
    costs = np.cumsum(np.diff(data.label_rows.indptr)[labels] * entries_per_row)
    first = done = 0
    while first < len(labels):
        last = max(first + 1, int(np.searchsorted(costs, done + ENTRIES_AT_ONCE, side="right")))
        yield labels[first:last]
        first, done = last, int(costs[last - 1])


def _sum_some(data: TrainingData, labels: np.ndarray, most: int) -> Triple:
    """`sum_rows` for labels whose rows fit in memory."""
    from xpipe.trees._gather_numba import SparseRows
    from xpipe.trees._vectors_numba import VectorScratch, sum_labels

    pointers, entries = entries_of_rows(data.label_rows.indptr, labels)
    wanted, places = np.unique(data.label_rows.indices[entries].astype(np.int64), return_inverse=True)
    pieces = list(data.X.pieces(wanted))
    if len(pieces) == 1:  # one piece is used where it is
        (piece,) = pieces
        triple, places = piece.triple, piece.rows[places]
        scales = data.scales[piece.start : piece.start + triple.n_rows]
    else:
        triple, scales = data.take(wanted), data.scales[wanted]
    indptr, indices, values = map(read_only, triple)
    rows = SparseRows(indptr, indices, values, read_only(scales))
    room = np.minimum(most, np.add.reduceat(np.append(np.diff(triple.indptr)[places], 0), pointers[:-1]))
    starts, counts = row_pointers(room), np.zeros(len(labels), dtype=np.int64)
    found = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.float32)
    scratch = VectorScratch(
        np.zeros(data.n_features, dtype=np.float32), np.zeros(data.n_features, dtype=bool),
        np.empty(data.n_features, dtype=np.int32),
    )  # fmt: skip
    sum_labels(rows, pointers, places, most, scratch, starts, counts, *found)
    filled = np.arange(starts[-1]) - np.repeat(starts[:-1], room) < np.repeat(counts, room)
    return keep_entries(Triple(starts, *found), filled)


def prune_vectors(vectors: sp.csr_matrix) -> sp.csr_matrix:
    """Given vectors, one per label with positives, each without its smallest entries where it has too many."""
    most, triple = most_entries(vectors.shape[0]), to_triple(vectors)
    keep = np.ones(len(triple.indices), dtype=bool)
    for row in np.flatnonzero(np.diff(triple.indptr) > most).tolist():
        own = slice(int(triple.indptr[row]), int(triple.indptr[row + 1]))
        keep[own][np.argsort(-np.abs(triple.values[own]), kind="stable")[most:]] = False
    return to_matrix(keep_entries(triple, keep), vectors.shape[1])
