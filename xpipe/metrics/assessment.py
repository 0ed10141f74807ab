"""All figures of calibration as JSON values: ECE, ACE, reliability table, by label frequency, and rows without labels.

Holds no arithmetic of its own (`calibration`, `calibration_groups`, `confidence`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.metrics.calibration import check_bins, quantile_error, tabulate, top_predictions
from xpipe.metrics.calibration_groups import group_predictions
from xpipe.metrics.confidence import auroc, max_confidence, mean_max_confidence
from xpipe.metrics.options import BINS, CALIBRATION_K
from xpipe.metrics.truth import check_truth


def assess(
    scores: Any, truth: Any, k: int = CALIBRATION_K, *, bins: int = BINS, frequency: np.ndarray | None = None
) -> dict[str, Any]:
    """Assess the calibration of probabilities, with all figures as JSON values.

    ece, ace, reliability, by_frequency and mean_max_confidence are those of the rows with labels. Rows without labels
    count as out of distribution: zero_label_rows, zero_label_confidence (their mean maximum), auroc (how well
    confidence separates them).

    Parameters
    ----------
    scores, truth, k, bins
        As in `reliability`; k is 5 by default.
    frequency : ndarray of int, shape (n_labels,), optional
        As in `calibration_by_frequency`.

    Returns
    -------
    dict

    Raises
    ------
    DataError, ConfigError
        As in `reliability`.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import assess
    >>> figures = assess(np.array([[0.9, 0.1], [0.4, 0.3]]), np.array([[1, 0], [0, 0]]), k=1)
    >>> round(figures["ece"], 3), figures["zero_label_rows"], figures["auroc"]
    (0.1, 1, 1.0)
    """
    check_bins(bins)
    true = check_truth(truth)
    labelled = np.diff(true.indptr) > 0
    inside, outside = (sp.csr_matrix(scores)[np.flatnonzero(which)] for which in (labelled, ~labelled))
    figures: dict[str, Any] = {"calibration_k": k}
    if not inside.nnz:  # nothing is predicted
        return figures
    own = true[np.flatnonzero(labelled)]
    found = top_predictions(inside, own, k)
    table = tabulate(found.confidence, found.hits, bins)
    figures |= {"ece": table.ece, "ace": quantile_error(found.confidence, found.hits, bins)}
    figures["mean_max_confidence"] = mean_max_confidence(inside)
    if outside.shape[0]:
        figures["zero_label_rows"] = outside.shape[0]
        figures["zero_label_confidence"] = mean_max_confidence(outside)
        figures["auroc"] = auroc(max_confidence(inside), max_confidence(outside))
    groups = group_predictions(found, own, frequency, bins=bins)
    return {**figures, "reliability": table.rows(), "by_frequency": [dataclasses.asdict(group) for group in groups]}
