"""Calibration by label frequency: whether probabilities of rare labels can be believed as those of frequent ones.

Holds no bins of its own (`calibration`); groups of labels are those of `breakdown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.metrics.breakdown import groups_of_labels
from xpipe.metrics.calibration import TopPredictions, check_bins, tabulate, top_predictions
from xpipe.metrics.options import BINS
from xpipe.metrics.truth import check_truth


@dataclass(frozen=True)
class CalibrationGroup:
    """Predictions of labels of similar frequency.

    Attributes
    ----------
    labels : int
        The number of labels.
    frequency : tuple of int
        The largest and the smallest frequency of a label of the group.
    predicted : int
        Predictions of these labels among the k most probable ones.
    confidence, accuracy, ece : float or None
        Of these predictions: mean probability, share that is correct, ECE; None where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import calibration_by_frequency
    >>> P, Y = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[1, 0], [0, 1]])
    >>> [round(group.accuracy, 2) for group in calibration_by_frequency(P, Y, np.array([7, 1]), k=2, groups=2)]
    [0.5, 0.5]
    """

    labels: int
    frequency: tuple[int, int]
    predicted: int
    confidence: float | None
    accuracy: float | None
    ece: float | None


def calibration_by_frequency(
    scores: Any,
    truth: Any,
    frequency: np.ndarray | None = None,
    k: int = 1,
    *,
    groups: int = 10,
    bins: int = BINS,
    threads: int | None = None,
) -> list[CalibrationGroup]:
    """Measure the calibration of groups of labels of similar frequency, the most frequent first.

    Parameters
    ----------
    scores, truth, k, bins, threads
        As in `reliability`.
    frequency : ndarray of int, shape (n_labels,), optional
        Of each label, best in the training rows. Default: in the rows measured.
    groups : int, default 10
        How many groups of equally many labels, as in `break_down`.

    Returns
    -------
    list of CalibrationGroup

    Raises
    ------
    DataError, ConfigError
        As in `reliability`, and if there is not one frequency per label.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import calibration_by_frequency
    >>> (group,) = calibration_by_frequency(np.array([[0.9, 0.2]]), np.array([[1, 0]]), k=2, groups=1)
    >>> group.predicted, round(group.ece, 2)
    (2, 0.15)
    """
    check_bins(bins)
    true = check_truth(truth)
    return group_predictions(top_predictions(scores, true, k, threads=threads), true, frequency, groups, bins)


def group_predictions(
    found: TopPredictions, true: sp.csr_matrix, frequency: np.ndarray | None, groups: int = 10, bins: int = BINS
) -> list[CalibrationGroup]:
    """`calibration_by_frequency` of predictions that are ranked already."""
    n_labels = true.shape[1]
    counts = np.bincount(true.indices, minlength=n_labels) if frequency is None else np.asarray(frequency)
    parts = groups_of_labels(counts, n_labels, groups)
    group_of = np.empty(n_labels, dtype=np.int64)
    for number, labels in enumerate(parts):
        group_of[labels] = number
    of_prediction = group_of[found.labels]
    result = []
    for number, labels in enumerate(parts):
        own = np.flatnonzero(of_prediction == number)
        confidence, hits = found.confidence[own], found.hits[own]
        some = len(own) > 0
        result.append(
            CalibrationGroup(
                labels=len(labels),
                frequency=(int(counts[labels[0]]), int(counts[labels[-1]])),
                predicted=len(own),
                confidence=float(confidence.mean()) if some else None,
                accuracy=float(hits.mean()) if some else None,
                ece=tabulate(confidence, hits, bins).ece if some else None,
            )
        )
    return result
