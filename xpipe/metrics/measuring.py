"""Every metric of ranked labels in one pass: the contribution of each row, the sums, and counts by label.

Holds no reading of files and no ranking (`predictions`, which also lists the forms of scores). `ranking` has the
formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import read_only
from xpipe.metrics.options import K
from xpipe.metrics.predictions import Scores, check_k, check_scores, rank_checked, run_chunks
from xpipe.metrics.truth import LabelMatrix, Truth, check_truth, check_weights, make_filters, take_filtered


class LabelCounts(NamedTuple):
    """Counts of rows for each label.

    true [n_labels]: rows that have the label. predicted [n_labels, k]: rows that have it among their 1..k best. hits
    [n_labels, k]: those of them where it is true.
    """

    true: np.ndarray
    predicted: np.ndarray
    hits: np.ndarray


@dataclass(frozen=True)
class Measured:
    """All metrics of some scores.

    Attributes
    ----------
    k : int
        Metrics are measured at ranks 1..k.
    precision, recall, f1, ndcg, micro_f1, macro_f1, coverage : ndarray of float64, shape (k,)
        The metrics at 1..k; `xpipe.metrics.ranking` has the formulas.
    psp, psndcg : ndarray of float64, shape (k,), or None
        None without propensities.
    n_rows, n_labels : int
        Rows that the means go over, number of labels.
    rows_without_labels, rows_removed : int
        Rows without true labels, and how many of them were removed.
    tied_rows, short_rows : int
        Rows in which equal scores decided about the k best, rows with fewer than k predictions.
    filtered_true : int
        True labels that the filter removed.
    labels : LabelCounts
        Counts of rows for each label.
    contributions : ndarray of float32, shape (n_rows, quantities, k), or None
        What each row adds to the sums; only with `keep_rows`.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import measure
    >>> measured = measure(np.array([[0.9, 0.5, 0.1]]), np.array([[1, 0, 1]]), k=2)
    >>> measured.precision.tolist(), measured.recall.tolist()
    ([1.0, 0.5], [0.5, 0.5])
    """

    k: int
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    ndcg: np.ndarray
    micro_f1: np.ndarray
    macro_f1: np.ndarray
    coverage: np.ndarray
    psp: np.ndarray | None
    psndcg: np.ndarray | None
    n_rows: int
    n_labels: int
    rows_without_labels: int
    rows_removed: int
    tied_rows: int
    short_rows: int
    filtered_true: int
    labels: LabelCounts
    contributions: np.ndarray | None


class MeasureOptions(TypedDict, total=False):
    """Options of `measure` that every metric takes."""

    filter_labels: np.ndarray | None
    remove_empty: bool
    threads: int | None


def measure(
    scores: Scores,
    truth: LabelMatrix,
    k: int = K,
    *,
    inverse_propensity: np.ndarray | None = None,
    filter_labels: np.ndarray | None = None,
    remove_empty: bool = False,
    threads: int | None = None,
    keep_rows: bool = False,
) -> Measured:
    """Measure every metric at ranks 1..k in one pass over the scores.

    Parameters
    ----------
    scores : scipy sparse matrix, ndarray, or pair of ndarrays
        In any form that `rank` takes.
    truth : scipy sparse matrix or ndarray, shape (n_rows, n_labels)
        True labels: the entries that are not 0.
    k : int, default 5
        The largest rank.
    inverse_propensity : ndarray of float, shape (n_labels,), optional
        From `inverse_propensity`, for psp and psndcg.
    filter_labels : array_like of int, shape (n, 2), optional
        Pairs of row and label that count neither as predictions nor as true labels.
    remove_empty : bool, default False
        Leave out rows without true labels.
    threads : int, optional
        Default: one per usable core. The number changes no byte of the result.
    keep_rows : bool, default False
        Keep what each row contributes, as `intervals` needs it.

    Returns
    -------
    Measured

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other, or no rows are left.
    ConfigError
        If k or threads is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import measure
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> measure(scores, truth, k=3).ndcg.round(3).tolist()
    [0.5, 0.307, 0.71]
    """
    k, threads = check_k(k), check_threads(threads)
    matrix = check_truth(truth)
    n_rows, n_labels = matrix.shape
    weights = check_weights(inverse_propensity, n_labels)
    filters = make_filters(filter_labels, n_rows, n_labels)
    true = take_filtered(matrix, filters)
    ranked, tied = rank_checked(check_scores(scores, n_rows, n_labels), k, filters, threads)
    empty = true.ptr[1:] == true.ptr[:-1]
    n_empty = int(empty.sum())
    if remove_empty and n_empty:  # the removed rows have no true labels, so only the pointers change
        ranked, tied = ranked[~empty], tied[~empty]
        true = true._replace(ptr=read_only(np.concatenate([[0], true.ptr[1:][~empty]])))
    if len(ranked) == 0:
        why = f"none of the {n_rows:,} rows has a true label" if n_rows else "the matrices have no rows"
        raise DataError("there is nothing to measure", why=why, fix="check that these are the true labels")
    hits, sums, contributions = _measure_rows(ranked, true, weights, threads, keep_rows)
    labels, macro_f1, coverage = _count_labels(ranked, hits, true, n_labels)
    found = metrics_of(sums, len(ranked))
    return Measured(
        k=k,
        precision=found["precision"],
        recall=found["recall"],
        f1=found["f1"],
        ndcg=found["ndcg"],
        micro_f1=found["micro_f1"],
        macro_f1=macro_f1,
        coverage=coverage,
        psp=found.get("psp"),
        psndcg=found.get("psndcg"),
        n_rows=len(ranked),
        n_labels=n_labels,
        rows_without_labels=n_empty,
        rows_removed=n_empty if remove_empty else 0,
        tied_rows=int(tied.sum()),
        short_rows=int((ranked[:, -1] < 0).sum()),
        filtered_true=true.filtered,
        labels=labels,
        contributions=contributions,
    )


def _measure_rows(
    ranked: np.ndarray, true: Truth, weights: np.ndarray, threads: int, keep_rows: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(hits, sums of the contributions, the contributions or None)."""
    from xpipe.metrics import _numba

    n_rows, k = ranked.shape
    n_quantities = _numba.PSNDCG_BEST + 1 if len(weights) else _numba.PLAIN
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gains = _numba.Gains(weights, discounts, 1 / np.cumsum(discounts))
    hits = np.empty((n_rows, k), np.uint8)
    kept = np.empty((n_rows if keep_rows else 0, n_quantities, k), np.float32)
    flat = kept.reshape(len(kept), n_quantities * k)

    def work(first: int, last: int) -> np.ndarray:
        sums = np.zeros((n_quantities, k))
        _numba.measure_rows(first, last, ranked, true, gains, hits, flat, sums)
        return sums

    sums = np.sum(run_chunks(work, n_rows, threads), axis=0)
    return hits, sums, kept if keep_rows else None


def _count_labels(
    ranked: np.ndarray, hits: np.ndarray, true: Truth, n_labels: int
) -> tuple[LabelCounts, np.ndarray, np.ndarray]:
    """(counts by label, macro F1, coverage)."""
    from xpipe.metrics import _numba

    k = ranked.shape[1]
    counts = np.zeros((n_labels, 2, k), np.int32)
    n_true = np.bincount(true.labels, minlength=n_labels)
    f1_sums, covered = np.zeros(k), np.zeros(k)
    _numba.count_labels(ranked, hits, counts)
    _numba.sum_labels(n_true, counts, f1_sums, covered)
    macro_f1, coverage = f1_sums / max(n_labels, 1), covered / max(int((n_true > 0).sum()), 1)
    return LabelCounts(n_true, counts[:, 0], counts[:, 1]), macro_f1, coverage


def metrics_of(sums: np.ndarray, n_rows: int) -> dict[str, np.ndarray]:
    """Metrics at 1..k from sums of contributions, with the last two axes quantities x k. 0 / 0 counts as 0."""
    from xpipe.metrics import _numba

    def of(quantity: int) -> np.ndarray:
        return sums[..., quantity, :]

    precision = of(_numba.HITS) / n_rows / np.arange(1, sums.shape[-1] + 1)
    recall = of(_numba.RECALL) / n_rows
    found = {
        "precision": precision,
        "recall": recall,
        "f1": _ratio(2 * precision * recall, precision + recall),
        "ndcg": of(_numba.NDCG) / n_rows,
        "micro_f1": _ratio(2 * of(_numba.HITS), of(_numba.PREDICTED) + of(_numba.TRUE)),
    }
    if sums.shape[-2] > _numba.PLAIN:
        found["psp"] = _ratio(of(_numba.PSP), of(_numba.PSP_BEST))
        found["psndcg"] = _ratio(of(_numba.PSNDCG), of(_numba.PSNDCG_BEST))
    return found


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, 0 where whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole != 0))
