"""Metrics of ranked labels: precision, recall, nDCG, F1, propensity-scored metrics, micro and macro F1, coverage.

Holds no reading of files and no ranking (`predictions`, which also lists the forms of scores).

With y the true labels of a row, r_1, r_2, ... its predictions, d_i = 1 / log2(1 + i) and q the inverse propensities:

    P@k   = mean over rows of   hits in r_1..r_k / k                    (missing predictions count as misses)
    R@k   = mean over rows of   hits in r_1..r_k / |y|
    F1@k  = harmonic mean of P@k and R@k
    nDCG@k = mean over rows of  sum of d_i over hits i <= k / sum of d_i over i <= min(k, |y|)
    PSP@k = sum over rows of (sum of q over hits) / sum over rows of (the k largest q of y): 1 for the best ranking
    PSnDCG@k is PSP@k with both sums discounted by d_i and divided by the row's sum of d_i over i <= min(k, |y|)

A row without true labels adds 0 to each mean and counts as a row, unless `remove_empty` leaves it out.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from xpipe.metrics.measuring import MeasureOptions, measure
from xpipe.metrics.options import K
from xpipe.metrics.predictions import Scores
from xpipe.metrics.truth import LabelMatrix


def precision(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure P@1..P@k: the share of the 1..k best labels that is true.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import precision
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> precision(scores, truth, k=3).round(3).tolist()
    [0.5, 0.25, 0.5]
    """
    return measure(scores, truth, k, **options).precision


def recall(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure R@1..R@k: the share of the true labels that is among the 1..k best.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import recall
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> recall(scores, truth, k=3).round(3).tolist()
    [0.25, 0.25, 1.0]
    """
    return measure(scores, truth, k, **options).recall


def ndcg(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure nDCG@1..nDCG@k: hits discounted by the logarithm of their rank.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import ndcg
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> ndcg(scores, truth, k=3).round(3).tolist()
    [0.5, 0.307, 0.71]
    """
    return measure(scores, truth, k, **options).ndcg


def f1(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure F1@1..F1@k: the harmonic means of precision and recall.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import f1
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> f1(scores, truth, k=3).round(3).tolist()
    [0.333, 0.25, 0.667]
    """
    return measure(scores, truth, k, **options).f1


def coverage(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure coverage at 1..k: the share of the labels with true rows that are ever predicted correctly.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import coverage
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> coverage(scores, truth, k=3).round(3).tolist()
    [0.5, 0.5, 1.0]
    """
    return measure(scores, truth, k, **options).coverage


def psp(
    scores: Scores, truth: LabelMatrix, inverse_propensity: np.ndarray, k: int = K, **options: Unpack[MeasureOptions]
) -> np.ndarray:
    """Measure PSP@1..PSP@k: propensity-scored precision, divided by that of the best ranking.

    Parameters
    ----------
    scores, truth, inverse_propensity, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import psp
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> psp(scores, truth, np.array([1.0, 2.0, 4.0]), k=3).round(3).tolist()
    [0.2, 0.167, 1.0]
    """
    found = measure(scores, truth, k, inverse_propensity=inverse_propensity, **options).psp
    assert found is not None
    return found


def psndcg(
    scores: Scores, truth: LabelMatrix, inverse_propensity: np.ndarray, k: int = K, **options: Unpack[MeasureOptions]
) -> np.ndarray:
    """Measure PSnDCG@1..PSnDCG@k: propensity-scored nDCG, divided by that of the best ranking.

    Parameters
    ----------
    scores, truth, inverse_propensity, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import psndcg
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> psndcg(scores, truth, np.array([1.0, 2.0, 4.0]), k=3).round(3).tolist()
    [0.2, 0.16, 0.609]
    """
    found = measure(scores, truth, k, inverse_propensity=inverse_propensity, **options).psndcg
    assert found is not None
    return found


def micro_f1(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure micro F1 at 1..k: the 1..k best labels of each row are its prediction.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import micro_f1
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> micro_f1(scores, truth, k=3).round(3).tolist()
    [0.4, 0.286, 0.667]
    """
    return measure(scores, truth, k, **options).micro_f1


def macro_f1(scores: Scores, truth: LabelMatrix, k: int = K, **options: Unpack[MeasureOptions]) -> np.ndarray:
    """Measure macro F1 at 1..k: the mean over all labels of the F1 of each label.

    Parameters
    ----------
    scores, truth, k
        As in `measure`.
    **options
        filter_labels, remove_empty and threads, as in `measure`.

    Returns
    -------
    ndarray of float64, shape (k,)

    Raises
    ------
    DataError
        If the matrices are wrong or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import macro_f1
    >>> scores, truth = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 0, 1], [1, 0, 0]])
    >>> macro_f1(scores, truth, k=3).round(3).tolist()
    [0.222, 0.222, 0.556]
    """
    return measure(scores, truth, k, **options).macro_f1
