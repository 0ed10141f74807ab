"""Tables beside the rows: labels of groups, and names of labels. Holds no rows of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from xpipe.errors import DataError
from xpipe.formats import table_cells as cells
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_records import check_columns, column_names, iterate_records
from xpipe.stages.read.tables.sources import GROUP, LABEL, LABELS, NAME, Sources


def group_labels_columns(sources: Sources) -> tuple[str, str]:
    """(column of groups, column of labels) of the table of group labels."""
    file = sources.group_labels
    assert file is not None
    have = list(column_names(file, sources.train.delimiter))
    group = _choose(file, have, [str(sources.train.group), GROUP], "data.group_labels")
    labels = _choose(file, have, [LABELS, sources.held_out.labels], "data.group_labels")
    return group, labels


def read_group_labels(sources: Sources) -> dict[str, tuple[list[str], str]]:
    """For each group its labels, and where they stand. Raises DataError for a group that is there twice or has none."""
    file = sources.group_labels
    assert file is not None
    group, labels = group_labels_columns(sources)
    labels_of = partial(cells.labels_cell, separator=sources.train.separator)
    found: dict[str, tuple[list[str], str]] = {}
    for name, own, place in _pairs(file, sources, (group, partial(_name, what="group")), (labels, labels_of)):
        if not own:
            raise DataError(
                f"the group {cells.shown(name)} has no labels", where=place,
                fix="give it labels; rows whose labels are not known are in no group",
            )  # fmt: skip
        if name in found:
            raise DataError(
                f"the group {cells.shown(name)} is there twice", where=place, why=f"first: {found[name][1]}",
                fix="one row per group, with all of its labels",
            )  # fmt: skip
        found[name] = (own, place)
    if not found:
        raise DataError("a table without rows", where=file.path, fix="one row per group")
    return found


def label_names_columns(sources: Sources) -> tuple[str, str]:
    """(column of labels, column of names) of the table of label names."""
    file = sources.label_names
    assert file is not None
    have = list(column_names(file, sources.train.delimiter))
    check_columns(file.path, have, [NAME], "data.label_names")
    others = [name for name in have if name != NAME]
    label = others[0] if len(others) == 1 else _choose(file, have, [LABEL, sources.held_out.labels], "data.label_names")
    return label, NAME


def read_label_names(sources: Sources) -> dict[str, str]:
    """The name of each label. Raises DataError for a label that is there twice, or has no name."""
    file = sources.label_names
    assert file is not None
    label, name = label_names_columns(sources)
    found: dict[str, str] = {}
    cell = partial(_name, what="label")
    for key, shown, place in _pairs(file, sources, (label, cell), (name, partial(_name, what="name"))):
        if key in found:
            raise DataError(f"the label {cells.shown(key)} is there twice", where=place, fix="one row per label")
        found[key] = shown
    return found


def _choose(file: TableFile, have: list[str], wanted: list[str | None], setting: str) -> str:
    """The first of some columns that a table has."""
    names = [name for name in wanted if name is not None]
    found = next((name for name in names if name in have), None)
    if found is None:
        check_columns(file.path, have, names[-1:], setting)
    return str(found)


def _name(value: Any, what: str) -> str:
    if value is None:
        raise cells.WrongCell(f"a {what} is missing")
    return cells.name_cell(value, what)


def _pairs(
    file: TableFile, sources: Sources, *wanted: tuple[str, Callable[[Any], Any]]
) -> Iterator[tuple[Any, Any, str]]:
    """(first cell, second cell, where the row is) of each row."""
    delimiter = sources.train.delimiter
    for records in iterate_records(file, [column for column, _ in wanted], delimiter=delimiter):
        for index in range(records.n_rows):
            found = []
            for column, cell in wanted:
                try:
                    found.append(cell(records.columns[column][index]))
                except cells.WrongCell as error:
                    raise DataError(str(error), where=records.place(index, column), fix=error.fix) from None
            yield found[0], found[1], records.place(index)
