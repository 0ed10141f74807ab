"""Scores in any form -> the k best labels of each row. Higher score first, then smaller label.

Holds no metric. Forms: a scipy sparse matrix (its stored entries are the predictions), an array of floats rows x labels
(every label is predicted), an array of label numbers in order, best first, -1 for none, or a pair of arrays (label
numbers, scores) in any order, -1 for none. A score of -inf is no prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads, lent
from xpipe.ground.sparse import canonical, read_only
from xpipe.metrics.truth import Filters, make_filters

CHUNK_ROWS = 2048  # rows a call of a kernel; fixed, since sums of chunks are added up in their order
FORMS = (
    "a sparse matrix rows x labels, a float array rows x labels, an integer array of ranked labels, "
    "or a pair (labels, scores)"
)


class Ranked(NamedTuple):
    """labels: int32 rows x k, best first, -1 for none; tied: rows in which equal scores decided about the k best."""

    labels: np.ndarray
    tied: np.ndarray


class Predictions(NamedTuple):
    """Checked raw arrays of scores as CSR, or `lists` of ranked labels.

    Where every label of every row has a score, indptr is empty and indices are all labels, once.
    """

    n_rows: int
    n_labels: int
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    lowest: int = 0  # the smallest index allowed: -1 where it stands for none
    lists: np.ndarray | None = None

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.indptr, self.indices, self.values

    @property
    def bits(self) -> np.ndarray:
        """The bits of float32 scores; nothing for others."""
        is_float32 = self.values.dtype == np.float32
        return read_only(self.values.view(np.uint32) if is_float32 else np.zeros(0, np.uint32))

    @property
    def is_dense(self) -> bool:
        return not len(self.indptr)


def rank(
    scores: Any, k: int = 5, *, n_labels: int | None = None, filter_labels: Any = None, threads: int | None = None
) -> Ranked:
    """The k best labels of each row, and which rows are tied.

    scores: any of the forms above; n_labels is needed where their shape does not say it. filter_labels: pairs [n, 2] of
    row and label that are left out. Raises DataError for nan, labels beyond n_labels and labels twice in a row.
    """
    if n_labels is None:
        if not sp.issparse(scores) and not (isinstance(scores, np.ndarray) and scores.dtype.kind == "f"):
            raise ConfigError("n_labels must be given", why="numbers of labels do not say how many there are")
        n_labels = scores.shape[-1]
    checked = check_scores(scores, None, n_labels)
    filters = make_filters(filter_labels, checked.n_rows, checked.n_labels)
    return rank_checked(checked, check_k(k), filters, check_threads(threads))


def check_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"`k` must be a whole number from 1 on, got {k!r}", fix="k=5 gives the metrics at 1..5")
    return int(k)


def check_scores(scores: Any, n_rows: int | None, n_labels: int) -> Predictions:
    """Scores in one of the forms as raw arrays; n_rows None: as many as they have. Raises DataError for other forms."""
    lowest, lists = 0, None
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    if sp.issparse(scores):
        shape, entries = scores.shape, _check_sparse(scores)
    elif isinstance(scores, tuple | list) and len(scores) == 2 and all(np.ndim(part) == 2 for part in scores):
        shape, entries, lowest = (len(scores[0]), n_labels), _check_pair(*map(np.asarray, scores)), -1
    elif isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.dtype.kind == "f":
        shape, entries = scores.shape, (nothing[0], np.arange(n_labels, dtype=np.int32), _real(scores).ravel())
    elif isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.dtype.kind in "iu":
        shape, entries, lowest = (len(scores), n_labels), nothing, -1
        lists = read_only(np.ascontiguousarray(_whole(scores)))
    else:
        described = f" {scores.dtype} {scores.shape}" if hasattr(scores, "dtype") else ""
        raise DataError(f"scores cannot be {type(scores).__name__}{described}", fix=FORMS)
    expected = (shape[0] if n_rows is None else n_rows, n_labels)
    if shape != expected:
        raise DataError(
            "scores and true labels do not have the same shape",
            why=f"scores are {shape[0]:,} rows x {shape[1]:,} labels, true labels {expected[0]:,} x {n_labels:,}",
            fix="predict for exactly these rows, and number labels as the true ones are numbered",
        )
    indptr, indices, values = map(read_only, entries)
    return Predictions(shape[0], n_labels, indptr, indices, values, lowest, lists)


def _check_sparse(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"scores must be real numbers, not {matrix.dtype}", fix="matrix.astype(np.float32)")
    csr = matrix if matrix.format == "csr" else canonical(matrix, "scores")
    indptr = csr.indptr.astype(np.int64, copy=False)
    fits = len(indptr) == csr.shape[0] + 1 and indptr[0] == 0 and indptr[-1] <= len(csr.indices) == len(csr.data)
    if not fits or (np.diff(indptr) < 0).any():
        raise DataError("scores have row pointers that do not fit", fix="rebuild the matrix from its entries")
    return indptr, _whole(csr.indices), _real(csr.data)


def _check_pair(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if labels.shape != values.shape or labels.dtype.kind not in "iu" or values.dtype.kind not in "fiu":
        raise DataError(
            "labels and scores of a pair do not fit each other",
            why=f"labels are {labels.dtype} {labels.shape}, scores {values.dtype} {values.shape}",
            fix="whole numbers and real numbers of one shape: rows x predictions",
        )
    indptr = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
    return indptr, _whole(labels).ravel(), _real(values).ravel()


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Label numbers as int32; those it cannot hold become others that are no labels either."""
    return numbers if numbers.dtype == np.int32 else np.clip(numbers, -2, 2**31 - 1).astype(np.int32)


def _real(numbers: np.ndarray) -> np.ndarray:
    """Scores as float32 or float64, whichever tells apart all that the given type does."""
    if numbers.dtype in (np.float32, np.float64):
        return numbers
    small = numbers.dtype.itemsize <= 2 or numbers.dtype.kind == "b"
    return numbers.astype(np.float32 if small else np.float64)


def rank_checked(predictions: Predictions, k: int, filters: Filters, threads: int) -> Ranked:
    """The k best labels of each row of checked predictions."""
    from xpipe.metrics import _ranking_numba as kernels

    n_rows, n_labels = predictions.n_rows, predictions.n_labels
    labels, tied = np.empty((n_rows, k), np.int32), np.zeros(n_rows, bool)
    longest = n_labels if predictions.is_dense else int(np.diff(predictions.indptr).max(initial=0))
    spaces: SimpleQueue[tuple[np.ndarray, np.ndarray]] = SimpleQueue()
    for _ in range(threads):
        spaces.put((np.full(n_labels, -1, np.int32), np.empty(longest + 1, np.int32)))

    def work(first: int, last: int) -> tuple[int, int, int]:
        with lent(spaces) as (stamps, places):
            if predictions.lists is not None:
                return kernels.take_ranked(first, last, predictions.lists, n_labels, *filters, stamps, labels)
            return kernels.rank_rows(
                first,
                last,
                *predictions.entries,
                predictions.bits,
                predictions.lowest,
                n_labels,
                *filters,
                stamps,
                places,
                labels,
                tied,
            )

    for status in run_chunks(work, n_rows, threads):
        check_status(predictions, *status)
    return Ranked(labels, tied)


def run_chunks(work: Callable[[int, int], Any], n_rows: int, threads: int) -> list[Any]:
    """What `work` gives for each chunk of rows, in order, whichever thread did it."""
    starts = range(0, n_rows, CHUNK_ROWS)
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-metrics") as pool:
        return list(pool.map(lambda first: work(first, min(first + CHUNK_ROWS, n_rows)), starts))


def check_status(predictions: Predictions, status: int, row: int, place: int) -> None:
    """Raise DataError for what a kernel found wrong."""
    from xpipe.metrics import _ranking_numba as kernels

    if status == kernels.FINE:
        return
    label, score = _entry(predictions, row, place)
    if status == kernels.NOT_FINITE:
        raise DataError(
            f"a score is {score}",
            where=f"row {row}, label {label}",
            why="it has no place in a ranking",
            fix="look for what made it (overflow, 0/0); -inf stands for a label that is not predicted",
        )
    if status == kernels.BEYOND:
        raise DataError(
            f"scores name label {label}, but labels are 0..{predictions.n_labels - 1}",
            where=f"row {row}, place {place}",
            fix="number labels as the true ones are numbered, from 0" + ("; -1 is none" if predictions.lowest else ""),
        )
    if status == kernels.TWICE:
        raise DataError(f"scores have label {label} twice", where=f"row {row}", fix="keep one score a label and row")
    raise DataError(
        f"label {label} stands behind a -1",
        where=f"row {row}, place {place}",
        why="-1 ends the predictions of a row",
        fix="move the -1 to the end of the row",
    )


def _entry(predictions: Predictions, row: int, place: int) -> tuple[int, float]:
    """(label, score) of what stands there."""
    if predictions.lists is not None:
        return int(predictions.lists[row, place]), float("nan")
    if predictions.is_dense:
        return place, float(predictions.values[row * predictions.n_labels + place])
    at = int(predictions.indptr[row]) + place
    return int(predictions.indices[at]), float(predictions.values[at])
