"""Metrics by label frequency: from the tenth of the labels that is most frequent to the tenth that is rarest.

Holds no counting of rows: `measuring` has counted them for each label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpipe.errors import DataError
from xpipe.metrics.measuring import Measured


@dataclass(frozen=True)
class Group:
    """Labels of similar frequency, measured at k.

    Attributes
    ----------
    labels : int
        The number of labels.
    frequency : tuple of int
        The largest and the smallest frequency of a label of the group.
    true, predicted, hits : int
        Occurrences in the rows measured: of true labels, of predictions, of correct predictions.
    precision, recall, f1 : float
        Of these occurrences.
    covered : float
        Share of the labels with true rows that are predicted correctly at least once.
    share_of_precision : float
        Hits per row and rank; over all groups these add up to P@k.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import break_down, measure
    >>> measured = measure(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[1, 0], [0, 1]]), k=1)
    >>> frequent, rare = break_down(measured, np.array([7, 1]), groups=2)
    >>> frequent.frequency, frequent.hits, rare.covered
    ((7, 7), 1, 0.0)
    """

    labels: int
    frequency: tuple[int, int]
    true: int
    predicted: int
    hits: int
    precision: float
    recall: float
    f1: float
    covered: float
    share_of_precision: float


def break_down(measured: Measured, frequency: np.ndarray | None = None, *, groups: int = 10) -> list[Group]:
    """Measure groups of labels of similar frequency, the most frequent first.

    Parameters
    ----------
    measured : Measured
        From `measure`; groups are measured at its k.
    frequency : ndarray of int, shape (n_labels,), optional
        Of each label, best in the training rows. Default: in the rows measured. Labels of the same frequency are
        ordered by their number.
    groups : int, default 10
        How many groups of equally many labels; fewer where there are fewer labels.

    Returns
    -------
    list of Group

    Raises
    ------
    DataError
        If there is not one frequency per label.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import break_down, measure
    >>> measured = measure(np.array([[0.9, 0.1]]), np.array([[1, 0]]), k=1)
    >>> [group.precision for group in break_down(measured, groups=1)]
    [1.0]
    """
    true = measured.labels.true
    counts = true if frequency is None else np.asarray(frequency)
    predicted, hits = measured.labels.predicted[:, -1], measured.labels.hits[:, -1]
    found = []
    for labels in groups_of_labels(counts, measured.n_labels, groups):
        n_true, n_predicted, n_hits = (int(each[labels].sum()) for each in (true, predicted, hits))
        found.append(
            Group(
                labels=len(labels),
                frequency=(int(counts[labels[0]]), int(counts[labels[-1]])),
                true=n_true,
                predicted=n_predicted,
                hits=n_hits,
                precision=n_hits / max(n_predicted, 1),
                recall=n_hits / max(n_true, 1),
                f1=2 * n_hits / max(n_predicted + n_true, 1),
                covered=int((hits[labels] > 0).sum()) / max(int((true[labels] > 0).sum()), 1),
                share_of_precision=n_hits / measured.n_rows / measured.k,
            )
        )
    return found


def groups_of_labels(frequency: np.ndarray, n_labels: int, groups: int) -> list[np.ndarray]:
    """Groups of equally many labels of similar frequency, the most frequent first; fewer where labels are fewer.

    Raises DataError if there is not one frequency per label.
    """
    if frequency.shape != (n_labels,):
        raise DataError(
            f"frequencies have shape {frequency.shape}, but there are {n_labels:,} labels",
            fix="count the labels of the same dataset: xpipe.metrics.label_frequency(Y)",
        )
    order = np.argsort(-frequency, kind="stable")
    return np.array_split(order, min(groups, n_labels)) if n_labels else []
