"""From scores in any form to the k best labels of each row: higher score first, then smaller label.

Holds no metric. The forms of scores: a scipy sparse matrix (its stored entries are the predictions); an array of
floats, rows x labels (every label is predicted); an array of label numbers, best first, -1 for none; a pair of arrays
(label numbers, scores) in any order, -1 for none. A score of -inf is no prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads, lent
from xpipe.ground.sparse import canonical, read_only
from xpipe.metrics.options import K
from xpipe.metrics.truth import Filters, make_filters

if TYPE_CHECKING:
    from xpipe.metrics import _ranking_numba

CHUNK_ROWS = 2048  # rows per call of a kernel; fixed, because the sums of chunks are added up in their order
FORMS = (
    "a sparse matrix rows x labels, a float array rows x labels, an integer array of ranked labels, "
    "or a pair (labels, scores)"
)
Scores: TypeAlias = sp.spmatrix | np.ndarray | tuple[np.ndarray, np.ndarray]  # one of these forms


class Ranked(NamedTuple):
    """The k best labels of each row.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_rows, k)
        Best first, -1 for none.
    tied : ndarray of bool, shape (n_rows,)
        Rows in which equal scores decided about the k best.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import rank
    >>> ranked = rank(np.array([[0.5, 0.9, 0.5]]), k=2)
    >>> ranked.labels.tolist(), ranked.tied.tolist()
    ([[1, 0]], [True])
    """

    labels: np.ndarray
    tied: np.ndarray


class Predictions(NamedTuple):
    """Checked scores as raw CSR arrays, or `lists` of ranked labels.

    Where every label of every row has a score, indptr is empty and indices are all labels, once. lowest: the smallest
    index allowed, -1 where that stands for none.
    """

    n_rows: int
    n_labels: int
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    lowest: int = 0
    lists: np.ndarray | None = None

    @property
    def is_dense(self) -> bool:
        """Whether every label of every row has a score."""
        return not len(self.indptr)

    def for_kernels(self) -> _ranking_numba.Scores:
        """The scores as kernels take them, with the bits of float32 values."""
        from xpipe.metrics import _ranking_numba

        is_float32 = self.values.dtype == np.float32
        bits = read_only(self.values.view(np.uint32) if is_float32 else np.zeros(0, np.uint32))
        return _ranking_numba.Scores(self.indptr, self.indices, self.values, bits, self.lowest, self.n_labels)


def rank(
    scores: Any, k: int = K, *, n_labels: int | None = None, filter_labels: Any = None, threads: int | None = None
) -> Ranked:
    """Find the k best labels of each row: higher score first, then smaller label.

    Parameters
    ----------
    scores : scipy sparse matrix, ndarray, or pair of ndarrays
        A sparse matrix rows x labels, whose stored entries are the predictions; a float array rows x labels; an integer
        array of ranked labels, best first, -1 for none; or a pair (labels, scores) of arrays, -1 for none. A score of
        -inf is no prediction.
    k : int, default 5
        How many labels per row.
    n_labels : int, optional
        Needed where the shape of the scores does not give it.
    filter_labels : array_like of int, shape (n, 2), optional
        Pairs of row and label that are left out.
    threads : int, optional
        Default: one per usable core. The number changes no byte of the result.

    Returns
    -------
    Ranked

    Raises
    ------
    DataError
        For nan, labels out of range, and labels that are repeated in a row.
    ConfigError
        If k is below 1, or n_labels is needed.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import rank
    >>> rank(np.array([[0.1, 0.9, 0.5], [0.2, 0.0, 0.3]]), k=2).labels.tolist()
    [[1, 2], [2, 0]]
    """
    if n_labels is None:
        if not sp.issparse(scores) and not (isinstance(scores, np.ndarray) and scores.dtype.kind == "f"):
            raise ConfigError("n_labels must be given", why="numbers of labels do not say how many there are")
        n_labels = scores.shape[-1]
    checked = check_scores(scores, None, n_labels)
    filters = make_filters(filter_labels, checked.n_rows, checked.n_labels)
    return rank_checked(checked, check_k(k), filters, check_threads(threads))


def check_k(k: int) -> int:
    """k as an int. Raises ConfigError unless it is a whole number from 1 on."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"`k` must be a whole number from 1 on, got {k!r}", fix="k=5 gives the metrics at 1..5")
    return int(k)


def check_scores(scores: Any, n_rows: int | None, n_labels: int) -> Predictions:
    """Scores of any form as raw arrays. Raises DataError for another form or shape. n_rows: None for any number."""
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
    """(indptr, indices, values) of a sparse matrix."""
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"scores must be real numbers, not {matrix.dtype}", fix="matrix.astype(np.float32)")
    csr = matrix if matrix.format == "csr" else canonical(matrix, "scores")
    indptr = csr.indptr.astype(np.int64, copy=False)
    fits = len(indptr) == csr.shape[0] + 1 and indptr[0] == 0 and indptr[-1] <= len(csr.indices) == len(csr.data)
    if not fits or (np.diff(indptr) < 0).any():
        raise DataError("scores have row pointers that do not fit", fix="rebuild the matrix from its entries")
    return indptr, _whole(csr.indices), _real(csr.data)


def _check_pair(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, indices, values) of a pair (labels, scores)."""
    if labels.shape != values.shape or labels.dtype.kind not in "iu" or values.dtype.kind not in "fiu":
        raise DataError(
            "labels and scores of a pair do not fit each other",
            why=f"labels are {labels.dtype} {labels.shape}, scores {values.dtype} {values.shape}",
            fix="whole numbers and real numbers of one shape: rows x predictions",
        )
    indptr = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
    return indptr, _whole(labels).ravel(), _real(values).ravel()


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Label numbers as int32. Numbers that int32 cannot hold become -2 or 2^31 - 1, which are no labels either."""
    return numbers if numbers.dtype == np.int32 else np.clip(numbers, -2, 2**31 - 1).astype(np.int32)


def _real(numbers: np.ndarray) -> np.ndarray:
    """Scores as float32 or float64, whichever keeps all differences of the given type."""
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
    scores = predictions.for_kernels()
    spaces: SimpleQueue[kernels.Space] = SimpleQueue()
    for _ in range(threads):
        spaces.put(kernels.Space(np.full(n_labels, -1, np.int32), np.empty(longest + 1, np.int32)))

    def work(first: int, last: int) -> Any:
        with lent(spaces) as space:
            if predictions.lists is not None:
                return kernels.take_ranked(first, last, predictions.lists, n_labels, filters, space.stamps, labels)
            return kernels.rank_rows(first, last, scores, filters, space, labels, tied)

    for status in run_chunks(work, n_rows, threads):
        check_status(predictions, *status)
    return Ranked(labels, tied)


def run_chunks(work: Callable[[int, int], Any], n_rows: int, threads: int) -> list[Any]:
    """The results of `work(first, last)` for all chunks of rows, in order, computed by several threads."""
    starts = range(0, n_rows, CHUNK_ROWS)
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-metrics") as pool:
        return list(pool.map(lambda first: work(first, min(first + CHUNK_ROWS, n_rows)), starts))


def check_status(predictions: Predictions, status: int, row: int, place: int) -> None:
    """Raise DataError for the status of a kernel, unless it is fine."""
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
        raise DataError(f"scores have label {label} twice", where=f"row {row}", fix="keep one score per label and row")
    raise DataError(
        f"label {label} comes after a -1",
        where=f"row {row}, place {place}",
        why="-1 ends the predictions of a row",
        fix="move the -1 to the end of the row",
    )


def _entry(predictions: Predictions, row: int, place: int) -> tuple[int, float]:
    """(label, score) at a place of a row."""
    if predictions.lists is not None:
        return int(predictions.lists[row, place]), float("nan")
    if predictions.is_dense:
        return place, float(predictions.values[row * predictions.n_labels + place])
    at = int(predictions.indptr[row]) + place
    return int(predictions.indices[at]), float(predictions.values[at])
