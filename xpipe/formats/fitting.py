"""Whether the files of a dataset fit each other: rows, widths, groups, names and filter pairs.

Holds no reading of rows. Stage read, `read_dataset` and `xpipe check` call these functions, so that each refuses what
the others refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.formats.layout import Layout, SplitFiles
from xpipe.formats.names import Names, read_names
from xpipe.formats.row_numbers import read_filter_labels
from xpipe.ground import files

BOTH = ("samples", "emitted")  # roles of files with features and labels


@dataclass(frozen=True)
class FileSize:
    """The size of one file of a dataset.

    rows: those of the split; of role group_labels, the groups. widths: the number of columns of each matrix in the file
    (features, labels, membership, group_labels). is_id_list: whether it lists one group id per line, which need not
    reach the last group.
    """

    split: str
    role: str
    rows: int
    widths: Mapping[str, int]
    is_id_list: bool = False

    @property
    def spoken(self) -> str:
        """What messages call the file."""
        if self.role in BOTH:
            return self.split
        return f"{'group ids' if self.is_id_list else self.role} of {self.split}"


class Shape(NamedTuple):
    """The sizes on which all files agree; n_groups is None where no labels of groups are given."""

    rows: dict[str, int]
    n_features: int
    n_labels: int
    n_groups: int | None


def fit_together(folder: str, sizes: Iterable[FileSize]) -> Shape:
    """The shape of a dataset from the sizes of its files. Raises DataError where they disagree."""
    sizes = list(sizes)
    rows = _rows_by_role(sizes)
    n_groups = next((size.rows for size in sizes if size.role == "group_labels"), None)
    widths = {
        "features": _widths(sizes, "features"),
        "labels": _widths(sizes, "labels", "group_labels"),
        "groups": _group_counts(sizes, n_groups),
    }
    problems = [
        f"{split}: " + ", ".join(f"{role} has {count:,} rows" for role, count in counts.items())
        for split, counts in rows.items()
        if len(set(counts.values())) > 1
    ]
    problems += [
        f"{kind}: " + ", ".join(f"{name} has {width:,}" for name, width in found.items())
        for kind, found in widths.items()
        if len(set(found.values())) > 1
    ]
    if problems:
        raise DataError(
            "the files do not fit each other",
            where=folder,
            why="; ".join(problems),
            fix="all files of a split need the same rows, all splits the same features and labels",
        )
    return Shape(
        rows={split: next(iter(counts.values())) for split, counts in rows.items()},
        n_features=next(iter(widths["features"].values())),
        n_labels=next(iter(widths["labels"].values())),
        n_groups=n_groups,
    )


def _rows_by_role(sizes: list[FileSize]) -> dict[str, dict[str, int]]:
    """Rows of each split, by the role of the file; group labels have a row per group and do not count."""
    rows: dict[str, dict[str, int]] = {}
    for size in sizes:
        if size.role != "group_labels":
            rows.setdefault(size.split, {})[size.role] = size.rows
    return rows


def _widths(sizes: list[FileSize], *matrices: str) -> dict[str, int]:
    """The number of columns of some matrices, by the name of their file."""
    return {size.spoken: size.widths[name] for size in sizes for name in matrices if name in size.widths}


def _group_counts(sizes: list[FileSize], n_groups: int | None) -> dict[str, int]:
    """How many groups each file has. A list of group ids counts only where it names a group that has no labels."""
    counts = {}
    for size in sizes:
        if size.role == "group_labels":
            counts[size.spoken] = size.rows
        elif "membership" in size.widths:
            n_named = size.widths["membership"]
            if not size.is_id_list or (n_groups is not None and n_named > n_groups):
                counts[size.spoken] = n_named
    return counts


def check_trainable(folder: str, shape: Shape) -> None:
    """Raise DataError where a pipeline would have nothing to learn from."""
    if not shape.rows.get("train"):
        there = ", ".join(f"{split} ({n_rows:,} rows)" for split, n_rows in shape.rows.items())
        raise DataError(
            "there are no training rows", where=folder, why=f"the folder holds {there}",
            fix="add train.txt, trn_X_Xf.txt or X.trn.npz; `xpipe evaluate --truth` takes a test split alone",
        )  # fmt: skip


def names_beside(layout: Layout, shape: Shape, encoding: str = "utf-8") -> dict[str, Names]:
    """The names of labels and features, where the folder has them. Raises DataError where they are too many or few."""
    found = {}
    for key, name, count in (
        ("labels", layout.label_names, shape.n_labels),
        ("features", layout.feature_names, shape.n_features),
    ):
        if name:
            found[key] = read_names(files.join(layout.folder, name), count=count, encoding=encoding)
    return found


def filters_beside(folder: str, split: SplitFiles, n_rows: int, n_labels: int) -> np.ndarray | None:
    """The pairs of row and label that metrics leave out, int64 [n, 2]; n_rows counts dropped rows too."""
    if not split.filter_labels:
        return None
    return read_filter_labels(files.join(folder, split.filter_labels), n_rows=n_rows, n_labels=n_labels)
