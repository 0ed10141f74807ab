"""Counts of a dataset, added up part by part: rows, features, labels, and what is empty.

Holds no reading of files, and no comparison with published numbers: that is `catalog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.file_names import SPLITS
from xpipe.ground.sparse import Triple, to_triple


@dataclass(frozen=True)
class SplitStatistics:
    """Counts of one split."""

    rows: int
    feature_entries: int
    label_entries: int
    rows_without_labels: int
    rows_without_features: int
    labels_without_positives: int


@dataclass(frozen=True)
class Statistics:
    """Counts of a dataset, by split. labels_without_positives: labels that no row of any split has."""

    n_features: int
    n_labels: int
    splits: Mapping[str, SplitStatistics]
    labels_without_positives: int

    def rows(self, split: str) -> int:
        """The rows of a split; 0 where there is no such split."""
        return self.splits[split].rows if split in self.splits else 0

    def total(self, quantity: str, splits: Iterable[str] | None = None) -> int:
        """The sum of a field of SplitStatistics over some splits, by default over all."""
        chosen = self.splits if splits is None else [split for split in splits if split in self.splits]
        return sum(getattr(self.splits[split], quantity) for split in chosen)

    @property
    def labels_per_sample(self) -> float:
        """The mean number of labels of a row, over all splits."""
        return self.total("label_entries") / max(self.total("rows"), 1)

    @property
    def features_per_sample(self) -> float:
        """The mean number of features of a row, over all splits."""
        return self.total("feature_entries") / max(self.total("rows"), 1)

    def samples_per_label(self, splits: Iterable[str] = ("train",)) -> float:
        """The mean number of rows that have a label, over some splits."""
        return self.total("label_entries", splits) / max(self.n_labels, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for results.json."""
        return {
            "n_features": self.n_features,
            "n_labels": self.n_labels,
            "labels_per_sample": round(self.labels_per_sample, 4),
            "features_per_sample": round(self.features_per_sample, 4),
            "samples_per_label_in_train": round(self.samples_per_label(), 4),
            "labels_without_positives": self.labels_without_positives,
            "splits": {split: vars(found).copy() for split, found in self.splits.items()},
        }


@dataclass
class _Tally:
    """Counts of one split so far. seen: labels with a positive, ascending (a header may declare very many labels)."""

    seen: np.ndarray
    rows: int = 0
    feature_entries: int = 0
    label_entries: int = 0
    rows_without_labels: int = 0
    rows_without_features: int = 0


@dataclass
class StatisticsCounter:
    """Adds up statistics part by part, so that no whole matrix has to be in memory."""

    n_features: int
    n_labels: int
    _tallies: dict[str, _Tally] = field(default_factory=dict)

    def add(self, split: str, features: Triple, labels: Triple) -> None:
        """Count some rows of a split; the order of the parts does not matter. Raises DataError where rows disagree."""
        if features.n_rows != labels.n_rows:
            raise DataError(f"features have {features.n_rows:,} rows, labels {labels.n_rows:,}", where=f"split {split}")
        tally = self._tallies.setdefault(split, _Tally(np.zeros(0, dtype=np.int32)))
        label_counts, feature_counts = np.diff(labels.indptr), np.diff(features.indptr)
        tally.rows += features.n_rows
        tally.feature_entries += int(feature_counts.sum())
        tally.label_entries += int(label_counts.sum())
        tally.rows_without_labels += int(np.count_nonzero(label_counts == 0))
        tally.rows_without_features += int(np.count_nonzero(feature_counts == 0))
        used = labels.indices[labels.indptr[0] : labels.indptr[-1]]
        largest = int(used.max(initial=-1))
        if largest >= self.n_labels:
            raise DataError(
                f"label {largest} is outside 0..{self.n_labels - 1}",
                where=f"split {split}",
                fix="give the number of labels the files really have",
            )
        tally.seen = np.union1d(tally.seen, used)

    def result(self) -> Statistics:
        """The statistics of everything added so far."""
        splits = {
            split: SplitStatistics(
                tally.rows,
                tally.feature_entries,
                tally.label_entries,
                tally.rows_without_labels,
                tally.rows_without_features,
                self.n_labels - len(tally.seen),
            )
            for split, tally in sorted(self._tallies.items(), key=_split_order)
        }
        anywhere = np.unique(np.concatenate([np.zeros(0, np.int32), *(tally.seen for tally in self._tallies.values())]))
        return Statistics(self.n_features, self.n_labels, splits, self.n_labels - len(anywhere))


def statistics(splits: Mapping[str, tuple[sp.csr_matrix, sp.csr_matrix]]) -> Statistics:
    """The statistics of whole matrices.

    Parameters
    ----------
    splits : mapping of str to (csr_matrix, csr_matrix)
        Features and labels of each split, `{"train": (X, Y), "test": (X, Y)}`; all splits have the same widths.

    Returns
    -------
    Statistics
        Counts of each split.

    Raises
    ------
    DataError
        Where the splits differ in width, or there is none.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.formats.catalog import statistics
    >>> X, Y = sp.csr_matrix([[1.0, 0.0], [0.0, 2.0]]), sp.csr_matrix([[1.0, 1.0], [1.0, 0.0]])
    >>> statistics({"train": (X, Y)}).labels_per_sample
    1.5
    """
    shapes = {(X.shape[1], Y.shape[1]) for X, Y in splits.values()}
    if len(shapes) != 1:
        raise DataError(
            "the splits differ in width" if shapes else "there is no split to count",
            why=f"features x labels: {sorted(shapes)}" if shapes else "",
            fix="read them with the dimensions of one dataset",
        )
    counter = StatisticsCounter(*shapes.pop())
    for split, (X, Y) in splits.items():
        counter.add(split, to_triple(X), to_triple(Y))
    return counter.result()


def _split_order(item: tuple[str, _Tally]) -> tuple[int, str]:
    """The order of splits: train, test, dev, then others by name."""
    return (SPLITS.index(item[0]) if item[0] in SPLITS else len(SPLITS), item[0])
