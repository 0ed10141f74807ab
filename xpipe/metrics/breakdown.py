"""Metrics by frequency of the labels: from the head, the tenth of the labels seen most often, to the tail.

Holds no counting of rows: that is `measuring`, whose counts by label come in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpipe.errors import DataError
from xpipe.metrics.measuring import Measured


@dataclass(frozen=True)
class Group:
    """Labels of like frequency, measured at k. Their shares of P@k add up to P@k over the groups.

    frequency: (most, least) of a label of the group. true, predicted, hits: occurrences in the rows measured. covered:
    share of the group's labels with true rows that are predicted rightly at least once.
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
    """The metrics at k of each of `groups` groups of equally many labels, the most frequent first.

    frequency: of each label, best in the training rows; None: in the rows measured. Of labels with the same frequency
    the one with the smaller number comes first. Fewer groups where there are fewer labels.
    """
    true, n_labels = measured.labels.true, measured.n_labels
    counts = true if frequency is None else np.asarray(frequency)
    if counts.shape != (n_labels,):
        raise DataError(
            f"frequencies have shape {counts.shape}, but there are {n_labels:,} labels",
            fix="count the labels of the same dataset: xpipe.metrics.label_frequency(Y)",
        )
    order = np.argsort(-counts, kind="stable")
    predicted, hits = measured.labels.predicted[:, -1], measured.labels.hits[:, -1]
    found = []
    for labels in np.array_split(order, min(groups, n_labels)) if n_labels else []:
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
