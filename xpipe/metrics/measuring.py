"""Every metric of ranked labels in one pass: what each row adds, the sums, and counts by label.

Holds no reading of files and no ranking: that is `predictions`, which also says in which forms scores may come. The
formulas stand in `ranking`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import read_only
from xpipe.metrics.predictions import check_k, check_scores, rank_checked, run_chunks
from xpipe.metrics.truth import Truth, check_truth, check_weights, make_filters, take_filtered


class LabelCounts(NamedTuple):
    """By label. true: rows that have it; predicted, hits (labels x k): rows with it among the 1..k best, rightly."""

    true: np.ndarray
    predicted: np.ndarray
    hits: np.ndarray


@dataclass(frozen=True)
class Measured:
    """All metrics, each an array of its values at 1..k in float64; psp and psndcg are None without propensities.

    n_rows: rows the means go over. rows_without_labels: rows without true labels, among them unless they were removed.
    tied_rows: rows in which equal scores decided about the k best. short_rows: rows with fewer than k predictions.
    filtered_true: true labels that the filter took away. contributions: rows x quantities x k, what each row adds
    (only with keep_rows).
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


def measure(
    scores: Any,
    truth: Any,
    k: int = 5,
    *,
    inverse_propensity: np.ndarray | None = None,
    filter_labels: Any = None,
    remove_empty: bool = False,
    threads: int | None = None,
    keep_rows: bool = False,
) -> Measured:
    """Every metric at 1..k from one pass over the scores.

    scores: in any form of `predictions`. truth: rows x labels, sparse or dense; what is not 0 is true.
    inverse_propensity: one number a label (of `propensity`), for psp and psndcg. filter_labels: pairs [n, 2] of row and
    label that count neither as predictions nor as true labels. remove_empty: leave out rows without true labels.
    The same bytes for any number of threads. Raises DataError where the matrices are wrong or do not fit.
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
    if remove_empty and n_empty:  # rows that go have no true labels: only the pointers change
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
    """(hits, sums of the contributions, the contributions if they are to be kept)."""
    from xpipe.metrics import _numba

    n_rows, k = ranked.shape
    n_quantities = _numba.PSNDCG_BEST + 1 if len(weights) else _numba.PLAIN
    discounts = 1 / np.log2(np.arange(2, k + 2))
    inverse_ideal = 1 / np.cumsum(discounts)
    hits = np.empty((n_rows, k), np.uint8)
    kept = np.empty((n_rows if keep_rows else 0, n_quantities, k), np.float32)

    flat = kept.reshape(len(kept), n_quantities * k)

    def work(first: int, last: int) -> np.ndarray:
        sums = np.zeros((n_quantities, k))
        _numba.measure_rows(
            first, last, ranked, true.ptr, true.labels, weights, discounts, inverse_ideal, hits, flat, sums
        )
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
    """Metrics at 1..k from sums of contributions, whose last two axes are quantities x k. 0 / 0 is 0."""
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
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
