"""Whether the files of a folder fit each other: rows, widths, groups, names and filters, in one place for all readers.

Holds no reading of rows. Stage read, `read_dataset` and `xpipe check` call the same functions, so each refuses what the
others refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.formats.names import Names, is_id_list, read_filter_labels, read_names
from xpipe.ground import files


class Shape(NamedTuple):
    """What all files agree on; n_groups is None where no labels of groups are given."""

    rows: dict[str, int]
    n_features: int
    n_labels: int
    n_groups: int | None


def is_group_ids(role: str, path: str) -> bool:
    """Whether a file of groups has one id a line; a membership file may be a matrix instead."""
    return role == "group_ids" or (role == "membership" and is_id_list(path))


def index_base_of(role: str, index_base: int, label_base: int) -> int:
    """From where the columns of a file count: groups count from 0, labels and features as the user says."""
    return {"labels": label_base, "group_labels": label_base, "membership": 0}.get(role, index_base)


def fit_together(folder: str, sources: Mapping[str, Mapping[str, Any]]) -> Shape:
    """The shape of a dataset from `rows`, `columns` (and `labels`, of files that hold both) of each `SPLIT-ROLE`.

    `mode` "ids" marks lists of group ids, which need not reach the last group. Raises DataError where files disagree,
    and where there is nothing to train on.
    """
    rows: dict[str, dict[str, int]] = {}
    widths: dict[str, dict[str, int]] = {"features": {}, "labels": {}, "groups": {}}
    ids: dict[str, int] = {}
    for unit, facts in sources.items():
        split, role = unit.split("-", 1)
        if role == "group_labels":
            widths["groups"][f"group_labels of {split}"] = facts["rows"]
            widths["labels"][f"group_labels of {split}"] = facts["columns"]
            continue
        rows.setdefault(split, {})[role] = facts["rows"]
        if role in ("samples", "emitted"):
            widths["features"][split], widths["labels"][split] = facts["columns"], facts["labels"]
        elif role == "group_ids" or facts.get("mode") == "ids":
            ids[f"group ids of {split}"] = facts["columns"]
        else:
            kind = {"features": "features", "labels": "labels", "membership": "groups"}[role]
            widths[kind][f"{role} of {split}"] = facts["columns"]
    labelled = [size for name, size in widths["groups"].items() if name.startswith("group_labels")]
    for name, size in ids.items():
        if labelled and size > labelled[0]:
            widths["groups"][name] = size
    problems = []
    for split, counts in rows.items():
        if len(set(counts.values())) > 1:
            problems.append(f"{split}: " + ", ".join(f"{role} has {count:,} rows" for role, count in counts.items()))
    for kind, found in widths.items():
        if len(set(found.values())) > 1:
            problems.append(f"{kind}: " + ", ".join(f"{name} has {width:,}" for name, width in found.items()))
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
        n_groups=labelled[0] if labelled else None,
    )


def check_trainable(folder: str, shape: Shape) -> None:
    """Raise DataError where a pipeline would have nothing to learn from."""
    if not shape.rows.get("train"):
        there = ", ".join(f"{split} ({n_rows:,} rows)" for split, n_rows in shape.rows.items())
        raise DataError(
            "there are no training rows", where=folder, why=f"the folder holds {there}",
            fix="add train.txt, trn_X_Xf.txt or X.trn.npz; `xpipe evaluate --truth` takes a test split alone",
        )  # fmt: skip


def names_beside(folder: str, layout: Any, shape: Shape, encoding: str = "utf-8") -> dict[str, Names]:
    """Names of labels and features, as many as there are; layout: anything with `label_names` and `feature_names`."""
    found = {}
    for key, name, count in (
        ("labels", layout.label_names, shape.n_labels),
        ("features", layout.feature_names, shape.n_features),
    ):
        if name:
            found[key] = read_names(files.join(folder, name), count=count, encoding=encoding)
    return found


def filters_beside(folder: str, split: Any, n_rows: int, n_labels: int) -> np.ndarray | None:
    """Pairs of row and label that metrics leave out; rows count those of the split, dropped ones included."""
    if not split.filter_labels:
        return None
    return read_filter_labels(files.join(folder, split.filter_labels), n_rows=n_rows, n_labels=n_labels)
