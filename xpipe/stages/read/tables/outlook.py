"""What stage read will give for tables, what it needs and where it must fail, from names, headers and schemas.

Holds no reading of rows.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from xpipe.engine.stage import Estimate, Outlook
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.formats.table_records import check_columns, column_names
from xpipe.ground import files
from xpipe.stages.read.tables.sources import Sources, sources_of

if TYPE_CHECKING:
    from xpipe.formats.table_files import TableFile
    from xpipe.formats.tables import TableColumns
    from xpipe.stages.read.params import DataParams

MOST_LOOKED_AT = 64  # files of a split whose headers are looked at before the run; the others are checked while read
WORKER_BYTES = 220 * 2**20  # a worker process with numpy and Arrow, before it holds a row
USUAL_ROW = 4096  # bytes of a row of which nothing is known
COPIES = 6  # of the rows of a part while it is parsed: cells, joined texts, arrays, the file


def foresee(params: DataParams, outlook: Outlook) -> Outlook:
    """Splits, and rows as far as Parquet files state them. Raises DataError where a file is missing."""
    sources = sources_of(params)
    rows = {}
    for source in sources.splits:
        counted = [_stated_rows(file) for file in source.files]
        if None not in counted:
            rows[source.split] = sum(count for count in counted if count is not None)
    if sources.holdout:
        rows = {}
    splits = ("train", *sources.held_out_names)
    return dataclasses.replace(outlook, splits=splits, labelled=sources.labelled, rows=rows)


def _stated_rows(file: TableFile) -> int | None:
    """The rows of a Parquet file; None for files that do not state them."""
    if file.kind != "parquet" or not files.is_local(file.path):
        return None
    from xpipe.formats.table_parquet import group_rows

    return sum(group_rows(file))


def estimate(params: DataParams) -> Estimate:
    """Rows, where files state them; memory for the rows of a part."""
    sources = sources_of(params)
    listed = [file for source in sources.splits for file in source.files]
    rows = [_stated_rows(file) for file in listed]
    total = sum(count for count in rows if count is not None) if None not in rows else None
    a_row = USUAL_ROW if not total else max(USUAL_ROW, 4 * sum(files.size(file.path) for file in listed) // total)
    return Estimate(total, WORKER_BYTES + COPIES * a_row * params.part_rows)


def preflight(params: DataParams, outlook: Outlook) -> list[XpipeError]:
    """What must fail while the tables are read: columns that are not there, columns of several types."""
    sources = sources_of(params)
    problems: list[XpipeError] = []
    for check in (_check_files, _check_beside):
        try:
            check(sources)
        except XpipeError as error:
            problems.append(error)
    wanting = [name for name, section in outlook.sections.items() if section is not None and name != "data"]
    if wanting and outlook.sections.get("vectorize") is None:
        problems.append(
            ConfigError(
                "texts need the section `vectorize`", why=f"`{wanting[0]}` works on features",
                fix="add a line `vectorize: {}` for the defaults",
            )
        )  # fmt: skip
    return problems


def _check_files(sources: Sources) -> None:
    """Raise DataError where a file lacks a column, or has one in another type than the files before it."""
    types: dict[str, tuple[str, str]] = {}
    for source in sources.splits:
        columns = sources.columns_of(source.split)
        for file in source.files[:MOST_LOOKED_AT]:
            have = column_names(file, columns.delimiter)
            _check_has(file, columns, list(have), needs_group=source.split == "train")
            if file.kind == "parquet":
                _check_types(file, {name: have[name] for name in columns.wanted if name in have}, types)


def _check_has(file: TableFile, columns: TableColumns, have: list[str], needs_group: bool) -> None:
    """Raise DataError where a file lacks a wanted column. A file of JSON lines may lack it in its first records."""
    wanted = [name for name in columns.wanted if needs_group or name != columns.group]
    if file.kind == "jsonl" and (not have or any(name in have for name in wanted)):
        return  # no rows is told by the stage; keys that are null are often left out
    if file.kind in ("csv", "tsv"):
        from xpipe.formats.table_csv import check_delimiter

        check_delimiter(file, have, wanted, columns.delimiter)
    for name in wanted:
        check_columns(file.path, have, [name], columns.settings[name])


def _check_types(file: TableFile, found: dict[str, str], types: dict[str, tuple[str, str]]) -> None:
    """Raise DataError where a column has another type than in the files before."""
    for name, kind in found.items():
        before = types.setdefault(name, (_family(kind), file.path))
        if before[0] != _family(kind):
            raise DataError(
                f"the column {name!r} has several types", where=file.path,
                why=f"it is {kind} here, and {before[0]} in {before[1]}", fix="write all files with the same schema",
            )  # fmt: skip


def _family(kind: str) -> str:
    """What a type of Arrow holds, for comparing: sizes and encodings do not matter."""
    if kind.startswith("dictionary<values="):
        kind = kind.removeprefix("dictionary<values=").partition(",")[0]
    if "list<" in kind:
        return f"list of {_family(kind.partition(': ')[2].removesuffix('>').removesuffix(' not null'))}"
    plain = kind.removeprefix("large_").removesuffix("_view")
    if plain.removeprefix("u").startswith("int"):
        return "whole numbers"
    return {"float": "numbers", "double": "numbers", "halffloat": "numbers"}.get(plain, plain)


def _check_beside(sources: Sources) -> None:
    """Raise DataError where a table beside the rows lacks a column."""
    from xpipe.stages.read.tables.beside import group_labels_columns, label_names_columns

    if sources.group_labels is not None:
        group_labels_columns(sources)
    if sources.label_names is not None:
        label_names_columns(sources)
