"""Which tables a section `data` names, and which of their columns are what. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xpipe.errors import DataError
from xpipe.formats.file_names import SPLITS
from xpipe.formats.table_files import TableFile, find_tables
from xpipe.formats.tables import TableColumns
from xpipe.ground import files

if TYPE_CHECKING:
    from xpipe.stages.read.params import DataParams

GROUP, LABELS, LABEL, NAME = "group", "labels", "label", "name"  # columns of the tables beside


@dataclass(frozen=True)
class SplitSource:
    """The files of one split before rows are held out.

    matrix: of texts by line, the file with the labels of its rows.
    """

    split: str
    files: tuple[TableFile, ...]
    matrix: str | None = None


@dataclass(frozen=True)
class Sources:
    """All files that the section names, and what their columns are.

    train, held_out: the columns of training rows and of rows of other splits. Labels of groups are those of training
    rows; rows of other splits may then still have labels of their own. group_labels, label_names: the tables beside.
    names: of texts by line, the file of label names. holdout: the share of training rows that become test rows.
    """

    splits: tuple[SplitSource, ...]
    train: TableColumns
    held_out: TableColumns
    group_labels: TableFile | None = None
    label_names: TableFile | None = None
    names: str | None = None
    holdout: float | None = None

    @property
    def grouped(self) -> bool:
        """Whether labels are known for groups of training rows, not for the rows."""
        return self.group_labels is not None

    @property
    def held_out_names(self) -> tuple[str, ...]:
        """The splits besides train."""
        return ("test",) if self.holdout else tuple(each.split for each in self.splits if each.split != "train")

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits whose rows have labels of their own."""
        own = () if self.grouped else ("train",)
        return own + (self.held_out_names if self.held_out.labels or self.splits[0].matrix else ())

    def columns_of(self, split: str) -> TableColumns:
        """What the columns of a split's files are, before rows are held out."""
        if split == "train" and not (self.holdout and self.grouped):
            return self.train
        return self.held_out


def sources_of(params: DataParams) -> Sources:
    """The files and columns of a section. Raises DataError where a file is missing or no table."""
    if params.train is None:
        return _raw_sources(params)
    named = {"train": params.train, "test": params.test, "dev": params.dev}
    splits = [
        SplitSource(split, find_tables(paths, what=f"data.{split}"))
        for split in SPLITS
        if (paths := named[split]) is not None
    ]
    _check_apart(splits)
    beside = {
        key: find_tables(path, what=f"data.{key}")
        for key, path in (("group_labels", params.group_labels), ("label_names", params.label_names))
        if path is not None
    }
    for key, found in beside.items():
        if len(found) > 1:
            raise DataError(f"data.{key} must be one file", where=found[1].path)
    all_columns = columns_of(params, params.labels)
    return Sources(
        tuple(splits),
        columns_of(params, None) if params.group_labels else all_columns,
        all_columns,
        group_labels=beside["group_labels"][0] if "group_labels" in beside else None,
        label_names=beside["label_names"][0] if "label_names" in beside else None,
        holdout=params.holdout,
    )


def columns_of(params: DataParams, labels: str | None) -> TableColumns:
    """What the columns of the tables are; labels: the column of labels, where they are read."""
    text = (params.text,) if isinstance(params.text, str) else tuple(params.text or ())
    kinds = params.columns or {}
    return TableColumns(
        id=params.id,
        text=text,
        labels=labels,
        separator=params.separator,
        group=params.group,
        numbers=tuple(sorted(name for name, kind in kinds.items() if kind == "number")),
        categories=tuple(sorted(name for name, kind in kinds.items() if kind == "category")),
        delimiter=params.delimiter,
    )


def _check_apart(splits: list[SplitSource]) -> None:
    """Raise DataError where a file belongs to two splits."""
    seen: dict[str, str] = {}
    for each in splits:
        for file in each.files:
            if file.path in seen:
                raise DataError(f"data.{seen[file.path]} and data.{each.split} name the same file", where=file.path)
            seen[file.path] = each.split


def _raw_sources(params: DataParams) -> Sources:
    """The files of a folder of texts by line."""
    from xpipe.formats.layout import recognise
    from xpipe.formats.table_raw import TEXT

    layout = recognise(files.local(str(params.dir)), format=params.format)
    splits = []
    for split, found in layout.splits.items():
        if found.membership or found.group_labels:
            name = str(found.membership or found.group_labels)
            raise DataError(
                "texts by line are read with labels of samples only", where=files.join(layout.folder, name),
                fix="write a table with the columns text and group, and another with group and labels",
            )  # fmt: skip
        path = files.join(layout.folder, str(found.texts))
        compression = "gzip" if path.endswith(".gz") else None
        matrix = files.join(layout.folder, str(found.labels))
        splits.append(SplitSource(split, (TableFile(path, "lines", compression),), matrix))
    if not splits or splits[0].split != "train":
        raise DataError("the data has no training rows", where=layout.folder, fix="name the training texts X.trn.txt")
    names = files.join(layout.folder, layout.label_names) if layout.label_names else None
    columns = TableColumns(text=(TEXT,))
    return Sources(tuple(splits), columns, columns, names=names)
