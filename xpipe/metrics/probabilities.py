"""Probabilities of labels, checked, and looked up by pairs of row and label.

Holds no measure of calibration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.errors import DataError
from xpipe.ground.sparse_rows import entry_rows
from xpipe.metrics.predictions import Predictions, check_scores


def true_keys(matrix: Any) -> np.ndarray:
    """row * n_labels + label of the true pairs, ascending."""
    return np.asarray(entry_rows(matrix.indptr) * matrix.shape[1] + matrix.indices)


def among(wanted: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Which of the wanted keys are in a list that ascends, bool. `numpy.isin` would sort the list again.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics.probabilities import among
    >>> among(np.array([7, 2, 3]), np.array([2, 5, 7])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    found: np.ndarray = ascending[places] == wanted
    return found


def values_by_key(given: Predictions) -> tuple[np.ndarray | None, np.ndarray]:
    """(keys as in `true_keys`, ascending; their values). keys is None where all pairs have values.

    Raises DataError for repeated pairs.
    """
    if given.is_dense:
        return None, given.values
    keys = entry_rows(given.indptr) * given.n_labels + given.indices
    values = given.values[: len(keys)]
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        twins = np.flatnonzero(np.diff(keys) == 0)
        if len(twins):
            row, label = divmod(int(keys[twins[0]]), given.n_labels)
            raise DataError(
                f"scores have label {label} twice", where=f"row {row}", fix="keep one score per label and row"
            )
    return keys, values


def check_probabilities(scores: Any, n_rows: int | None, n_labels: int) -> Predictions:
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
