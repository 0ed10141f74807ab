"""F1 of all predictions whose score reaches a threshold.

Holds no metric of ranks (`ranking`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import ConfigError
from xpipe.metrics.predictions import check_scores, check_status
from xpipe.metrics.truth import check_truth, make_filters, take_filtered


class F1Above(NamedTuple):
    """F1 of the predictions whose score reaches a threshold; how many these are, and how many of them are hits."""

    micro: float
    macro: float
    predicted: int
    hits: int


def f1_above(
    scores: Any, truth: Any, threshold: float, *, filter_labels: Any = None, remove_empty: bool = False
) -> F1Above:
    """Measure micro and macro F1 of all predictions whose score reaches a threshold.

    Parameters
    ----------
    scores : scipy sparse matrix, ndarray, or pair of ndarrays
        In any form that `rank` takes, but ranked labels, which have no scores.
    truth, filter_labels, remove_empty
        As in `measure`.
    threshold : float
        It is rounded to the number type of the scores: a float32 score of 0.7 reaches 0.7.

    Returns
    -------
    F1Above
        micro, macro, predicted (number of predictions), hits (correct ones).

    Raises
    ------
    ConfigError
        For ranked labels, and for a threshold that is not finite.
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import f1_above
    >>> f1_above(np.array([[0.9, 0.6, 0.1]]), np.array([[1, 0, 0]]), threshold=0.5)
    F1Above(micro=0.6666666666666666, macro=0.3333333333333333, predicted=2, hits=1)
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
    stamps = np.full(n_labels, -1, np.int32)
    status = _ranking_numba.count_rows(
        predictions.for_kernels(), reached, remove_empty, true, filters, stamps, predicted, hits
    )
    check_status(predictions, *status)
    of_label = predicted + np.bincount(true.labels, minlength=n_labels)
    macro = np.divide(2 * hits, of_label, out=np.zeros(n_labels), where=of_label > 0)
    micro = 2 * int(hits.sum()) / max(int(of_label.sum()), 1)
    return F1Above(micro, float(macro.sum()) / max(n_labels, 1), int(predicted.sum()), int(hits.sum()))


def as_scores_are(threshold: float, *kinds: np.dtype) -> float:
    """A threshold rounded through these number types, as scores were: a score that equals the threshold reaches it."""
    for kind in kinds:
        if kind.kind == "f" and abs(threshold) <= float(np.finfo(kind).max):
            threshold = float(kind.type(threshold))
    return float(threshold)
