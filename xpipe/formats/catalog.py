"""Datasets by name: the published statistics of the usual XMC sets, and how well given data agrees with them.

Holds no reading of files: rows come in as CSR arrays, part by part.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.ground.sparse import Triple, to_triple

AVERAGE_TOLERANCE = 0.02  # published averages are rounded, and preprocessing differs between copies of a set
SPLITS = ("train", "test", "dev")


@dataclass(frozen=True)
class Published:
    """What the literature says about a dataset; None where it says nothing."""

    name: str
    title: str
    n_features: int | None
    n_labels: int
    n_train: int
    n_test: int
    n_dev: int
    samples_per_label: float | None
    labels_per_sample: float
    features_per_sample: float | None
    samples_per_label_splits: tuple[str, ...] = ("train",)  # the splits that samples_per_label counts
    unlabelled_train_rows: int | None = None
    source: str = "the XMC repository"

    def rows(self, split: str) -> int:
        """Published number of rows of a split; 0 where there is no such split."""
        return {"train": self.n_train, "test": self.n_test, "dev": self.n_dev}[split]


PUBLISHED = {
    each.name: each
    for each in (
        # 25.73 samples per label = (15,539 + 3,809) * 5.31 / 3,993: both splits; the sets below count train alone
        Published("eurlex-4k", "EURLex-4K", 5_000, 3_993, 15_539, 3_809, 0, 25.73, 5.31, 236.8,
                  samples_per_label_splits=("train", "test"), unlabelled_train_rows=28),
        Published("wiki10-31k", "Wiki10-31K", 101_938, 30_938, 14_146, 6_616, 0, 8.52, 18.64, 673.45),
        Published("amazoncat-13k", "AmazonCat-13K", 203_882, 13_330, 1_186_239, 306_782, 0, 448.57, 5.04, 71.24),
        Published("wikilshtc-325k", "WikiLSHTC-325K", 1_617_899, 325_056, 1_778_351, 587_084, 0, 17.46, 3.19, 42.15),
        Published("eurlex57k", "EURLEX57K", None, 4_271, 45_000, 6_000, 6_000, None, 5.07, None,
                  source="Chalkidis et al., ACL 2019; features depend on who made them"),
    )
}  # fmt: skip


def plain_name(name: str) -> str:
    """`EURLex-4K`, `eurlex_4k` and `eurlex-4k` are one name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def lookup(name: str, *, also: Iterable[str] = ()) -> Published:
    """The published statistics of a dataset, spelled as people spell it.

    `also` are further names to offer as close matches. Raises ConfigError for a name that is not in the catalog.
    """
    for known in PUBLISHED.values():
        if plain_name(known.name) == plain_name(name):
            return known
    offered = [*PUBLISHED, *also]
    plain = {plain_name(each): each for each in offered}
    close = [plain[match] for match in difflib.get_close_matches(plain_name(name), list(plain), n=3, cutoff=0.5)]
    raise ConfigError(
        f"no dataset is called {name!r}",
        why="known names: " + ", ".join(offered),
        fix="did you mean " + " or ".join(close) + "?" if close else "give a folder with its own files instead",
    )


@dataclass(frozen=True)
class SplitStatistics:
    """What was found in one split."""

    rows: int
    feature_entries: int
    label_entries: int
    rows_without_labels: int
    rows_without_features: int
    labels_without_positives: int


@dataclass(frozen=True)
class Statistics:
    """What was found in a dataset; `splits` by name, averages over the splits they name."""

    n_features: int
    n_labels: int
    splits: Mapping[str, SplitStatistics]
    labels_without_positives: int  # in no split at all

    def rows(self, split: str) -> int:
        return self.splits[split].rows if split in self.splits else 0

    def total(self, quantity: str, splits: Iterable[str] | None = None) -> int:
        """A count of SplitStatistics added up over the splits (all of them unless told)."""
        chosen = self.splits if splits is None else [split for split in splits if split in self.splits]
        return sum(getattr(self.splits[split], quantity) for split in chosen)

    @property
    def labels_per_sample(self) -> float:
        return self.total("label_entries") / max(self.total("rows"), 1)

    @property
    def features_per_sample(self) -> float:
        return self.total("feature_entries") / max(self.total("rows"), 1)

    def samples_per_label(self, splits: Iterable[str] = ("train",)) -> float:
        return self.total("label_entries", splits) / max(self.n_labels, 1)

    def to_dict(self) -> dict:
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
    seen: np.ndarray  # labels with a positive, ascending: a header may declare more labels than memory can list
    rows: int = 0
    feature_entries: int = 0
    label_entries: int = 0
    rows_without_labels: int = 0
    rows_without_features: int = 0


@dataclass
class StatisticsCounter:
    """Adds up statistics part by part, so that no matrix has to be whole in memory."""

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


def statistics(splits: Mapping[str, tuple]) -> Statistics:
    """Statistics of whole matrices: `{"train": (X, Y), "test": (X, Y)}` in scipy CSR, all of one width."""
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


@dataclass(frozen=True)
class Row:
    """One line of the comparison `xpipe check` prints; `ok` is None where nothing is published."""

    quantity: str
    published: float | None
    found: float
    ok: bool | None
    note: str = ""


def compare(published: Published | None, found: Statistics) -> list[Row]:
    """Found against published, quantity by quantity: counts exactly, averages within 2 %; None: nothing to compare."""

    def said(quantity: str) -> Any:
        return getattr(published, quantity) if published else None

    rows = [
        _count("features", said("n_features"), found.n_features),
        _count("labels", said("n_labels"), found.n_labels),
    ]
    for split in SPLITS:
        if found.rows(split) or (published and published.rows(split)):
            rows.append(_count(f"{split} rows", published.rows(split) if published else None, found.rows(split)))
    counted = published.samples_per_label_splits if published else ("train",)
    counting = f"counts {' and '.join(counted)}"
    without_positives = found.splits["train"].labels_without_positives if "train" in found.splits else found.n_labels
    rows += [
        _average("labels per sample", said("labels_per_sample"), found.labels_per_sample),
        _average("features per sample", said("features_per_sample"), found.features_per_sample),
        _average("samples per label", said("samples_per_label"), found.samples_per_label(counted), counting),
        _count(
            "train rows without labels",
            said("unlabelled_train_rows"),
            found.total("rows_without_labels", ["train"]),
        ),
        _count("rows without features", None, found.total("rows_without_features")),
        _count("labels without a training positive", None, without_positives),
    ]
    return rows


def guess(found: Statistics, dir_name: str = "") -> Published | None:
    """The published dataset these data claim to be: by the folder's name, else by their exact shape; else None."""
    folder = plain_name(re.split(r"[/\\]", dir_name.rstrip("/\\"))[-1])
    by_length = sorted(PUBLISHED.values(), key=lambda each: -len(each.name))
    for known in by_length:
        if folder and folder.startswith(plain_name(known.name)):
            return known
    for known in by_length:
        same_width = known.n_features in (None, found.n_features) and known.n_labels == found.n_labels
        if same_width and all(found.rows(split) in (0, known.rows(split)) for split in SPLITS) and found.rows("train"):
            return known
    return None


def _count(quantity: str, published: int | None, found: int) -> Row:
    if published is None:
        return Row(quantity, None, found, None, "nothing published")
    return Row(quantity, published, found, published == found, "" if published == found else f"{found - published:+,}")


def _average(quantity: str, published: float | None, found: float, note: str = "") -> Row:
    if published is None:
        return Row(quantity, None, found, None, "nothing published")
    off = found / published - 1
    ok = abs(off) <= AVERAGE_TOLERANCE
    return Row(quantity, published, found, ok, "; ".join(filter(None, [note, "" if ok else f"{off:+.1%}"])))


def _split_order(item: tuple[str, _Tally]) -> tuple[int, str]:
    return (SPLITS.index(item[0]) if item[0] in SPLITS else len(SPLITS), item[0])
