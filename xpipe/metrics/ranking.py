"""Metrics of ranked labels: precision, recall, nDCG, F1, their propensity-scored forms, micro and macro F1, coverage.

Holds no reading of files and no ranking: that is `predictions`, which also says in which forms scores may come.

With y the true labels of a row, r_1, r_2, ... its predictions, d_i = 1 / log2(1 + i) and q the inverse propensities:

    P@k   = mean over rows of   hits in r_1..r_k / k                    (fewer than k predictions: the rest are misses)
    R@k   = mean over rows of   hits in r_1..r_k / |y|
    F1@k  = harmonic mean of P@k and R@k
    nDCG@k = mean over rows of  sum of d_i over hits i <= k / sum of d_i over i <= min(k, |y|)
    PSP@k = sum over rows of (sum of q over hits) / sum over rows of (the k largest q of y): 1 for the best ranking
    PSnDCG@k likewise, both sums discounted by d_i and divided by the row's sum of d_i over i <= min(k, |y|)

A row without true labels adds 0 to each mean and counts as a row, unless `remove_empty` takes it out altogether.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import ConfigError
from xpipe.metrics.measuring import Measured, measure
from xpipe.metrics.predictions import check_scores, check_status
from xpipe.metrics.truth import check_truth, make_filters, take_filtered

__all__ = [
    "F1Above", "Measured", "coverage", "f1", "f1_above", "macro_f1", "measure", "micro_f1", "ndcg", "precision",
    "psndcg", "psp", "recall",
]  # fmt: skip


class F1Above(NamedTuple):
    """F1 of the predictions whose score reaches a threshold, and how many of these there are and are right."""

    micro: float
    macro: float
    predicted: int
    hits: int


def precision(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """P@1..P@k; scores, truth and options (filter_labels, remove_empty, threads) as in `measure`."""
    return measure(scores, truth, k, **options).precision


def recall(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """R@1..R@k; arguments as in `measure`."""
    return measure(scores, truth, k, **options).recall


def ndcg(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """nDCG@1..nDCG@k; arguments as in `measure`."""
    return measure(scores, truth, k, **options).ndcg


def f1(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """F1@1..F1@k, the harmonic means of precision and recall; arguments as in `measure`."""
    return measure(scores, truth, k, **options).f1


def coverage(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """Share of the labels with true rows that are predicted rightly at least once at 1..k; arguments: see `measure`."""
    return measure(scores, truth, k, **options).coverage


def psp(scores: Any, truth: Any, inverse_propensity: np.ndarray, k: int = 5, **options: Any) -> np.ndarray:
    """PSP@1..PSP@k, divided by those of the best ranking; arguments as in `measure`."""
    found = measure(scores, truth, k, inverse_propensity=inverse_propensity, **options).psp
    assert found is not None
    return found


def psndcg(scores: Any, truth: Any, inverse_propensity: np.ndarray, k: int = 5, **options: Any) -> np.ndarray:
    """PSnDCG@1..PSnDCG@k, divided by those of the best ranking; arguments as in `measure`."""
    found = measure(scores, truth, k, inverse_propensity=inverse_propensity, **options).psndcg
    assert found is not None
    return found


def micro_f1(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """Micro F1 of the 1..k best labels of each row taken as its prediction; arguments as in `measure`."""
    return measure(scores, truth, k, **options).micro_f1


def macro_f1(scores: Any, truth: Any, k: int = 5, **options: Any) -> np.ndarray:
    """Macro F1 of the 1..k best labels of each row, a mean over all labels; arguments as in `measure`."""
    return measure(scores, truth, k, **options).macro_f1


def f1_above(
    scores: Any, truth: Any, threshold: float, *, filter_labels: Any = None, remove_empty: bool = False
) -> F1Above:
    """Micro and macro F1 of all predictions with a score of at least `threshold`; other arguments as in `measure`.

    The threshold counts as the nearest number of the scores' own type: a float32 score of 0.7 reaches 0.7. Raises
    ConfigError for ranked labels, which have no scores, and for a threshold that is not a number.
    """
    from xpipe.metrics import _ranking_numba

    if not np.isfinite(threshold):
        raise ConfigError(f"`threshold` must be a finite number, got {threshold}", fix="0.5 for probabilities")
    matrix = check_truth(truth)
    n_rows, n_labels = matrix.shape
    filters = make_filters(filter_labels, n_rows, n_labels)
    true = take_filtered(matrix, filters)
    predictions = check_scores(scores, n_rows, n_labels)
    if predictions.lists is not None:
        raise ConfigError(
            "ranked labels have no scores to compare with a threshold", fix="give a pair (labels, scores), or use k"
        )
    given = scores if hasattr(scores, "dtype") else np.asarray(scores[1])
    reached = as_scores_are(threshold, given.dtype, predictions.values.dtype)
    predicted, hits = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.int64)
    status = _ranking_numba.count_rows(
        *predictions.entries, predictions.lowest, n_labels, reached, remove_empty, true.ptr, true.labels,
        *filters, np.full(n_labels, -1, np.int32), predicted, hits,
    )  # fmt: skip
    check_status(predictions, *status)
    of_label = predicted + np.bincount(true.labels, minlength=n_labels)
    macro = np.divide(2 * hits, of_label, out=np.zeros(n_labels), where=of_label > 0)
    micro = 2 * int(hits.sum()) / max(int(of_label.sum()), 1)
    return F1Above(micro, float(macro.sum()) / max(n_labels, 1), int(predicted.sum()), int(hits.sum()))


def as_scores_are(threshold: float, *kinds: np.dtype) -> float:
    """A threshold rounded as scores were on their way through these types: a score that was given as it reaches it."""
    for kind in kinds:
        if kind.kind == "f" and abs(threshold) <= float(np.finfo(kind).max):
            threshold = float(kind.type(threshold))
    return float(threshold)
