"""Calibration of probabilities: ECE and ACE of the k most probable labels, and reliability tables.

Holds no ranking (`predictions`), no head, and no groups of labels (`calibration_groups`). Probabilities are a scipy
sparse matrix, whose missing entries are labels of probability 0, or an array of floats, both rows x labels.

Let c be the confidences of the k most probable labels of every row, and h whether each of them is a true label. Bins
have equal width (lo, hi]; the first one includes 0.

    ECE@k  = sum over bins of  share of predictions in the bin * |mean of h - mean of c|
    ACE@k  = the same over bins of equally many predictions; equal confidences are in one bin

All predictions of a row without true labels are misses. A label that is not stored is no prediction: it enters neither
ECE nor the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.metrics.options import BINS
from xpipe.metrics.predictions import check_k, rank_checked
from xpipe.metrics.probabilities import among, check_probabilities, true_keys, values_by_key
from xpipe.metrics.truth import check_truth, make_filters


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram as a table, with one entry per bin.

    Attributes
    ----------
    edges : ndarray of float64, shape (bins + 1,)
        Edges of the bins.
    count : ndarray of int64, shape (bins,)
        Predictions in each bin.
    confidence, accuracy : ndarray of float64, shape (bins,)
        Mean confidence of these predictions, and the share of them that is correct; nan where a bin is empty.
    ece : float
        Expected calibration error in 0..1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import reliability
    >>> table = reliability(np.array([[0.9, 0.0], [0.8, 0.0]]), np.array([[1, 0], [0, 1]]), bins=2)
    >>> table.count.tolist(), float(table.accuracy[1]), round(table.ece, 3)
    ([0, 2], 0.5, 0.35)
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    ece: float

    def rows(self) -> list[dict[str, float | int | None]]:
        """One dict of JSON values per bin; None where a bin is empty."""
        return [
            {
                "from": float(self.edges[place]),
                "to": float(self.edges[place + 1]),
                "count": int(count),
                "confidence": float(self.confidence[place]) if count else None,
                "accuracy": float(self.accuracy[place]) if count else None,
            }
            for place, count in enumerate(self.count)
        ]


def ece(scores: Any, truth: Any, k: int = 1, *, bins: int = BINS, threads: int | None = None) -> float:
    """Compute the expected calibration error of the k most probable labels of each row.

    Parameters
    ----------
    scores, truth, k, bins, threads
        As in `reliability`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    DataError, ConfigError
        As in `reliability`.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import ece
    >>> round(ece(np.array([[0.9, 0.0], [0.8, 0.0]]), np.array([[1, 0], [0, 1]]), bins=2), 3)
    0.35
    """
    return reliability(scores, truth, k, bins=bins, threads=threads).ece


def ace(scores: Any, truth: Any, k: int = 1, *, bins: int = BINS, threads: int | None = None) -> float:
    """Compute the adaptive calibration error of the k most probable labels of each row.

    It is the ECE over bins of equally many predictions, so that no bin is nearly empty. Confidences that are all small,
    as those of many labels, are in one bin of the ECE and in many of the ACE.

    Parameters
    ----------
    scores, truth, k, bins, threads
        As in `reliability`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    DataError, ConfigError
        As in `reliability`.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import ace
    >>> round(ace(np.array([[0.9, 0.0], [0.8, 0.0]]), np.array([[1, 0], [0, 1]]), bins=2), 3)
    0.45
    """
    check_bins(bins)
    found = top_predictions(scores, truth, k, threads=threads)
    return quantile_error(found.confidence, found.hits, bins)


def quantile_error(confidence: np.ndarray, hits: np.ndarray, bins: int) -> float:
    """ACE of predictions: their confidences, and whether each is correct."""
    first_equal = np.searchsorted(np.sort(confidence), confidence, side="left")
    place = first_equal * bins // len(confidence)
    return float(np.abs(np.bincount(place, hits) - np.bincount(place, confidence)).sum() / len(confidence))


def reliability(scores: Any, truth: Any, k: int = 1, *, bins: int = BINS, threads: int | None = None) -> Reliability:
    """Sort the k most probable labels of each row into bins of confidence, and count how many are correct.

    Parameters
    ----------
    scores : scipy sparse matrix or ndarray of float, shape (n_rows, n_labels)
        Probabilities. Ties: smaller label first.
    truth : scipy sparse matrix or ndarray, shape (n_rows, n_labels)
        True labels: the entries that are not 0.
    k : int, default 1
        Labels per row.
    bins : int, default 10
        Bins of equal width.
    threads : int, optional
        Default: one per usable core. The number changes no byte of the result.

    Returns
    -------
    Reliability

    Raises
    ------
    DataError
        For numbers outside 0..1, matrices that do not fit, and where nothing is predicted.
    ConfigError
        If k or bins is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import reliability
    >>> reliability(np.array([[0.9, 0.2]]), np.array([[1, 0]]), k=2, bins=2).count.tolist()
    [1, 1]
    """
    check_bins(bins)
    found = top_predictions(scores, truth, k, threads=threads)
    return tabulate(found.confidence, found.hits, bins)


def check_bins(bins: int) -> None:
    """Raise ConfigError unless it is a number of bins."""
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise ConfigError(f"`bins` must be a whole number from 1 on, got {bins!r}", fix="10 is usual")


def tabulate(confidence: np.ndarray, hits: np.ndarray, bins: int) -> Reliability:
    """The table of predictions: their confidences, and whether each is correct."""
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, confidence, bins) / count
        accuracy = np.bincount(place, hits, bins) / count
    filled = count > 0
    gaps = np.abs(accuracy[filled] - mean[filled])
    return Reliability(edges, count, mean, accuracy, float((count[filled] * gaps).sum() / count.sum()))


class TopPredictions(NamedTuple):
    """The up to k most probable labels of all rows, row by row: label, confidence (float64), whether it is correct."""

    labels: np.ndarray
    confidence: np.ndarray
    hits: np.ndarray


def top_predictions(scores: Any, truth: Any, k: int, *, threads: int | None = None) -> TopPredictions:
    """The up to k most probable labels of every row. Raises DataError where there are none."""
    k, threads = check_k(k), check_threads(threads)
    matrix = check_truth(truth)
    given = check_probabilities(scores, *matrix.shape)
    ranked = rank_checked(given, k, make_filters(None, *matrix.shape), threads).labels
    rows, places = np.nonzero(ranked >= 0)
    if not len(rows):
        raise DataError("there is nothing to measure", why="no label of any row has a probability")
    labels = ranked[rows, places]
    wanted = rows * np.int64(matrix.shape[1]) + labels
    keys, values = values_by_key(given)
    confidence = values[wanted] if keys is None else values[np.searchsorted(keys, wanted)]
    return TopPredictions(labels, confidence.astype(np.float64), among(wanted, true_keys(matrix)))
