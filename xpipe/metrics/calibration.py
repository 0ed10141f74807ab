"""Calibration of probabilities: ECE of the top k, reliability tables, maximum confidence, AU-ROC, Brier score.

Holds no ranking (that is `predictions`) and no head: probabilities come as a scipy sparse matrix, whose missing entries
are labels of probability 0, or as an array of floats, both rows x labels.

With (c, h) the confidences of the k most probable labels of every row and whether each is a true label, in bins of
equal width (lo, hi], 0 in the first:

    ECE@k  = sum over bins of  share of predictions in the bin * |mean of h - mean of c|
    MMC    = mean over rows of the largest probability
    AU-ROC = P(confidence inside > confidence outside) + P(equal) / 2, a row drawn from each
    Brier  = mean over rows of  sum over labels of (probability - [label is true])^2

A row without true labels makes every prediction of it a miss. A label that is not stored is no prediction: it enters
neither ECE nor the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.metrics.predictions import Predictions, check_k, check_scores, rank_checked
from xpipe.metrics.truth import check_truth, make_filters


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram as a table, one entry a bin.

    edges float64 [bins + 1]; count int64 [bins]: predictions; confidence, accuracy float64 [bins]: their mean
    confidence and the share of them that is right, nan where a bin is empty. ece: expected calibration error in 0..1.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    ece: float

    def rows(self) -> list[dict[str, float | int | None]]:
        """The bins as plain JSON values; None where a bin is empty."""
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


def assess(scores: Any, truth: Any, k: int = 4, *, bins: int = 10) -> dict[str, Any]:
    """How far confidences can be believed, as plain JSON values; arguments as in `reliability`.

    ece, reliability and mean_max_confidence are of the rows with labels. Where there are rows without any, they count
    as out of distribution: zero_label_rows, zero_label_confidence (their mean maximum), auroc of telling them apart.
    """
    true = check_truth(truth)
    labelled = np.diff(true.indptr) > 0
    inside, outside = (sp.csr_matrix(scores)[np.flatnonzero(which)] for which in (labelled, ~labelled))
    facts: dict[str, Any] = {"calibration_k": k}
    if not inside.nnz:  # nothing is predicted that could be believed
        return facts
    found = reliability(inside, true[np.flatnonzero(labelled)], k, bins=bins)
    facts |= {"ece": found.ece, "mean_max_confidence": mean_max_confidence(inside)}
    if outside.shape[0]:
        facts["zero_label_rows"] = outside.shape[0]
        facts["zero_label_confidence"] = mean_max_confidence(outside)
        facts["auroc"] = auroc(max_confidence(inside), max_confidence(outside))
    return {**facts, "reliability": found.rows()}


def ece(scores: Any, truth: Any, k: int = 1, *, bins: int = 10, threads: int | None = None) -> float:
    """Expected calibration error of the k most probable labels of each row; arguments as in `reliability`."""
    return reliability(scores, truth, k, bins=bins, threads=threads).ece


def reliability(scores: Any, truth: Any, k: int = 1, *, bins: int = 10, threads: int | None = None) -> Reliability:
    """The k most probable labels of each row, by confidence, in bins of equal width.

    scores: probabilities rows x labels, sparse or dense; equal ones: smaller label first. truth: rows x labels, sparse
    or dense; what is not 0 is true. Raises DataError for numbers outside 0..1, for matrices that do not fit and where
    nothing is predicted, ConfigError for k or bins below 1.
    """
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise ConfigError(f"`bins` must be a whole number from 1 on, got {bins!r}", fix="10 is usual")
    confidence, hits = top_confidences(scores, truth, k, threads=threads)
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, confidence, bins) / count
        accuracy = np.bincount(place, hits, bins) / count
    filled = count > 0
    gaps = np.abs(accuracy[filled] - mean[filled])
    return Reliability(edges, count, mean, accuracy, float((count[filled] * gaps).sum() / count.sum()))


def top_confidences(scores: Any, truth: Any, k: int, *, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(confidence float64, hit bool) of each of the up to k most probable labels of every row, row by row."""
    k, threads = check_k(k), check_threads(threads)
    matrix = check_truth(truth)
    given = _check_probabilities(scores, *matrix.shape)
    ranked = rank_checked(given, k, make_filters(None, *matrix.shape), threads).labels
    rows, places = np.nonzero(ranked >= 0)
    if not len(rows):
        raise DataError("there is nothing to measure", why="no label of any row has a probability")
    wanted = rows * np.int64(matrix.shape[1]) + ranked[rows, places]
    keys, values = _by_key(given)
    confidence = values[wanted] if keys is None else values[np.searchsorted(keys, wanted)]
    return confidence.astype(np.float64), np.isin(wanted, _true_keys(matrix))


def max_confidence(scores: Any) -> np.ndarray:
    """The largest probability of each row, float64 [n_rows]; 0 where no label has one."""
    given = _check_probabilities(scores, None, scores.shape[1] if getattr(scores, "ndim", 0) == 2 else 0)
    if given.is_dense:
        return given.values.reshape(given.n_rows, given.n_labels).max(axis=1, initial=0).astype(np.float64)
    found = np.zeros(given.n_rows)
    filled = np.flatnonzero(np.diff(given.indptr))
    if len(filled):  # reduceat would give an empty row its neighbour's first value
        found[filled] = np.maximum.reduceat(given.values, given.indptr[filled])
    return found


def mean_max_confidence(scores: Any) -> float:
    """MMC: how sure the predictions are on average; low on out-of-distribution rows is what one hopes for."""
    found = max_confidence(scores)
    if not len(found):
        raise DataError("there is nothing to measure", why="the matrix has no rows")
    return float(found.mean())


def auroc(inside: Any, outside: Any) -> float:
    """Area under the ROC curve of telling rows `inside` from rows `outside` by their confidence.

    inside, outside: confidences float [n], such as `max_confidence` of in- and out-of-distribution rows; equal ones
    count half. 1: every row inside is surer than every row outside; 0.5: no telling. Raises DataError for nan and
    where one of them is empty.
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
    """Brier score; arguments as in `reliability`. Divide by the number of labels for the mean over pairs."""
    matrix = check_truth(truth)
    if not matrix.shape[0]:
        raise DataError("there is nothing to measure", why="the matrices have no rows")
    given = _check_probabilities(scores, *matrix.shape)
    keys, values = _by_key(given)
    true = _true_keys(matrix)
    values = values.astype(np.float64)
    total = float((values**2).sum())
    if keys is None:
        total += float((1 - 2 * values[true]).sum())
    else:
        place = np.searchsorted(keys, true)
        stored = place < len(keys)
        stored[stored] = keys[place[stored]] == true[stored]
        total += float((1 - 2 * values[place[stored]]).sum()) + int((~stored).sum())
    return total / matrix.shape[0]


def _true_keys(matrix: Any) -> np.ndarray:
    """row * n_labels + label of the true pairs, ascending."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def _by_key(given: Predictions) -> tuple[np.ndarray | None, np.ndarray]:
    """(keys as in `_true_keys`, ascending, their values); keys None: every pair. Raises DataError for twins."""
    if given.is_dense:
        return None, given.values
    rows = np.repeat(np.arange(given.n_rows, dtype=np.int64), np.diff(given.indptr))
    keys = rows * given.n_labels + given.indices
    values = given.values[: len(keys)]
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        twins = np.flatnonzero(np.diff(keys) == 0)
        if len(twins):
            row, label = divmod(int(keys[twins[0]]), given.n_labels)
            raise DataError(f"scores have label {label} twice", where=f"row {row}", fix="keep one a label and row")
    return keys, values


def _check_probabilities(scores: Any, n_rows: int | None, n_labels: int) -> Predictions:
    """Checked scores. Raises DataError unless they are a matrix of numbers in 0..1."""
    given = check_scores(scores, n_rows, n_labels)
    if given.lists is not None or given.lowest < 0:
        raise DataError("calibration needs probabilities of labels", fix="a sparse matrix or an array, rows x labels")
    bad = np.flatnonzero(~((given.values >= 0) & (given.values <= 1)))
    if len(bad):
        at = int(bad[0])
        row = at // n_labels if given.is_dense else int(np.searchsorted(given.indptr, at, side="right")) - 1
        label = at % n_labels if given.is_dense else int(given.indices[at])
        raise DataError(
            f"a probability is {given.values[at]}",
            where=f"row {row}, label {label}",
            fix="give probabilities in 0..1, not scores or logits: head.probabilities(...)",
        )
    if not given.is_dense and len(given.indices):
        low, high = int(given.indices.min()), int(given.indices.max())
        if low < 0 or high >= n_labels:
            raise DataError(f"scores name label {low if low < 0 else high}, but labels are 0..{n_labels - 1}")
    return given
