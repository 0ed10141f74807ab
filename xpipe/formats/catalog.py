"""Datasets by name: the published statistics of the usual XMC sets, and how well given data agrees with them.

Holds no reading of files and no counting: that is `statistics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from xpipe.errors import ConfigError
from xpipe.formats.file_names import SPLITS
from xpipe.formats.statistics import SplitStatistics, Statistics, StatisticsCounter, statistics
from xpipe.ground.close_match import did_you_mean

__all__ = [
    "PUBLISHED",
    "SPLITS",
    "Published",
    "Row",
    "SplitStatistics",
    "Statistics",
    "StatisticsCounter",
    "compare",
    "guess",
    "lookup",
    "plain_name",
    "statistics",
]

AVERAGE_TOLERANCE = 0.02  # published averages are rounded, and preprocessing differs between copies of a set


@dataclass(frozen=True)
class Published:
    """The statistics that the literature gives of a dataset; None where it gives none.

    samples_per_label_splits: the splits that `samples_per_label` counts.
    """

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
    samples_per_label_splits: tuple[str, ...] = ("train",)
    unlabelled_train_rows: int | None = None
    source: str = "the XMC repository"

    def rows(self, split: str) -> int:
        """The published number of rows of a split; 0 where there is no such split."""
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
    """A name without case and punctuation: `EURLex-4K`, `eurlex_4k` and `eurlex-4k` are one name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def lookup(name: str, *, also: Iterable[str] = ()) -> Published:
    """The published statistics of a dataset.

    Parameters
    ----------
    name : str
        In any spelling: `EURLex-4K`, `eurlex_4k` and `eurlex-4k` are one name.
    also : iterable of str
        Further names that the message offers as close matches.

    Returns
    -------
    Published
        The dataset of the catalog.

    Raises
    ------
    ConfigError
        For a name that is not in the catalog.

    Examples
    --------
    >>> from xpipe.formats.catalog import lookup
    >>> lookup("EURLex-4K").n_labels
    3993
    """
    for known in PUBLISHED.values():
        if plain_name(known.name) == plain_name(name):
            return known
    offered = [*PUBLISHED, *also]
    hint = did_you_mean(name, offered, most=3, cutoff=0.5, plain=plain_name)
    raise ConfigError(
        f"no dataset is called {name!r}",
        why="known names: " + ", ".join(offered),
        fix=hint or "give a folder with its own files instead",
    )


@dataclass(frozen=True)
class Row:
    """One line of the comparison that `xpipe check` prints; `ok` is None where nothing is published."""

    quantity: str
    published: float | None
    found: float
    ok: bool | None
    note: str = ""


def compare(published: Published | None, found: Statistics) -> list[Row]:
    """Compare statistics with the published ones: counts must be equal, averages within 2 %.

    Parameters
    ----------
    published : Published, optional
        None gives rows without anything to compare.
    found : Statistics
        Of the data at hand.

    Returns
    -------
    list of Row
        One row per quantity.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.formats.catalog import compare, statistics
    >>> found = statistics({"train": (sp.csr_matrix([[1.0, 0.0]]), sp.csr_matrix([[1.0]]))})
    >>> [row.found for row in compare(None, found) if row.quantity == "labels per sample"]
    [1.0]
    """

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
    """The published dataset that the data claims to be, by the folder's name, else by its exact shape; else None."""
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
    """The row of a quantity that must be equal."""
    if published is None:
        return Row(quantity, None, found, None, "nothing published")
    return Row(quantity, published, found, published == found, "" if published == found else f"{found - published:+,}")


def _average(quantity: str, published: float | None, found: float, note: str = "") -> Row:
    """The row of a quantity that must be within AVERAGE_TOLERANCE."""
    if published is None:
        return Row(quantity, None, found, None, "nothing published")
    off = found / published - 1
    ok = abs(off) <= AVERAGE_TOLERANCE
    return Row(quantity, published, found, ok, "; ".join(filter(None, [note, "" if ok else f"{off:+.1%}"])))
