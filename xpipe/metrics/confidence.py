"""Confidence of probabilities: the largest of each row, AU-ROC of separating rows by it, and the Brier score.

Holds no bins of confidences (`calibration`). Probabilities are a scipy sparse matrix, whose missing entries are labels
of probability 0, or an array of floats, both rows x labels.

    MMC    = mean over rows of the largest probability
    AU-ROC = P(confidence inside > confidence outside) + P(equal) / 2, for a random row inside and one outside
    Brier  = mean over rows of  sum over labels of (probability - [label is true])^2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.errors import DataError
from xpipe.metrics.probabilities import check_probabilities, true_keys, values_by_key
from xpipe.metrics.truth import check_truth


def max_confidence(scores: Any) -> np.ndarray:
    """Find the largest probability of each row.

    Parameters
    ----------
    scores : scipy sparse matrix or ndarray of float, shape (n_rows, n_labels)
        Probabilities.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        0 where no label has a probability.

    Raises
    ------
    DataError
        For numbers outside 0..1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import max_confidence
    >>> max_confidence(np.array([[0.25, 0.75], [0.0, 0.5]])).tolist()
    [0.75, 0.5]
    """
    given = check_probabilities(scores, None, scores.shape[1] if getattr(scores, "ndim", 0) == 2 else 0)
    if given.is_dense:
        rows = given.values.reshape(given.n_rows, given.n_labels)
        return np.asarray(rows.max(axis=1, initial=0).astype(np.float64))
    found = np.zeros(given.n_rows)
    filled = np.flatnonzero(np.diff(given.indptr))
    if len(filled):  # reduceat would give an empty row its neighbour's first value
        found[filled] = np.maximum.reduceat(given.values, given.indptr[filled])
    return found


def mean_max_confidence(scores: Any) -> float:
    """Compute the mean over rows of the largest probability (MMC).

    Parameters
    ----------
    scores : scipy sparse matrix or ndarray of float, shape (n_rows, n_labels)
        Probabilities.

    Returns
    -------
    float
        A good model has a low value on out-of-distribution rows.

    Raises
    ------
    DataError
        For numbers outside 0..1, and where there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import mean_max_confidence
    >>> mean_max_confidence(np.array([[0.25, 0.75], [0.0, 0.5]]))
    0.625
    """
    found = max_confidence(scores)
    if not len(found):
        raise DataError("there is nothing to measure", why="the matrix has no rows")
    return float(found.mean())


def auroc(inside: Any, outside: Any) -> float:
    """Compute the area under the ROC curve of separating two groups of rows by their confidence.

    Parameters
    ----------
    inside, outside : array_like of float, shape (n,)
        Confidences, such as `max_confidence` of in- and out-of-distribution rows. Equal ones count half.

    Returns
    -------
    float
        1 if every row inside has more confidence than every row outside; 0.5 if confidence does not separate them.

    Raises
    ------
    DataError
        For nan, and where one of them is empty.

    Examples
    --------
    >>> from xpipe.metrics import auroc
    >>> auroc([0.9, 0.6], [0.5, 0.6])
    0.875
    """
    both = []
    for name, given in (("inside", inside), ("outside", outside)):
        array = np.asarray(given, dtype=np.float64)
        if array.ndim != 1 or not len(array):
            raise DataError(f"`{name}` must be a list of at least one confidence, not of shape {array.shape}")
        if np.isnan(array).any():
            raise DataError(f"`{name}` has nan", where=f"place {int(np.flatnonzero(np.isnan(array))[0])}")
        both.append(np.sort(array))
    lower = np.searchsorted(both[1], both[0], side="left")
    not_higher = np.searchsorted(both[1], both[0], side="right")
    return float((int(lower.sum()) + int(not_higher.sum())) / (2 * len(both[0]) * len(both[1])))


def brier(scores: Any, truth: Any) -> float:
    """Compute the Brier score: the mean over rows of the sum over labels of (probability - [label is true])^2.

    Parameters
    ----------
    scores, truth
        As in `reliability`.

    Returns
    -------
    float
        Divide it by the number of labels for the mean over pairs of row and label.

    Raises
    ------
    DataError
        For numbers outside 0..1, matrices that do not fit, and where there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import brier
    >>> brier(np.array([[0.5, 0.5]]), np.array([[1, 0]]))
    0.5
    """
    matrix = check_truth(truth)
    if not matrix.shape[0]:
        raise DataError("there is nothing to measure", why="the matrices have no rows")
    given = check_probabilities(scores, *matrix.shape)
    keys, values = values_by_key(given)
    true = true_keys(matrix)
    values = values.astype(np.float64)
    total = float((values**2).sum())
    if keys is None:
        total += float((1 - 2 * values[true]).sum())
    else:
        place = np.searchsorted(keys, true)
        stored = place < len(keys)
        stored[stored] = keys[place[stored]] == true[stored]
        total += float((1 - 2 * values[place[stored]]).sum()) + int((~stored).sum())
    return total / int(matrix.shape[0])
