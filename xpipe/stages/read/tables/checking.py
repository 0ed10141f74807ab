"""What must hold for all rows together: every split has rows, ids are unique, groups have labels. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from xpipe.errors import DataError
from xpipe.formats import table_cells as cells
from xpipe.stages.arrays import read_array
from xpipe.stages.read.tables.staged_rows import Staged, StagedRows, names_in
from xpipe.stages.read.tables.staging import GROUPS, ID, ids_path, place_of_row, read_staged


def check_rows(shared: Staged) -> None:
    """Raise DataError for a split without rows."""
    for source in shared.sources.splits:
        if not shared.count(source.split):
            raise DataError(
                "a table without rows", where=source.files[0].path, why=f"data.{source.split} names it",
                fix="check that the right file was exported",
            )  # fmt: skip


def check_ids(folder: str, shared: Staged) -> None:
    """Raise DataError where an id is there twice, in one split or in two."""
    pieces = list(dict.fromkeys(each.piece for each in shared.rows))
    hashes = np.concatenate([read_array(folder, ids_path(piece)) for piece in pieces])
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    twins = np.unique(np.concatenate([order[same], order[same + 1]]))
    seen: dict[str, tuple[StagedRows, int]] = {}
    for each, row, text in _ids_at(folder, shared, twins):  # in the order of the rows
        if text in seen:
            column = str(shared.sources.train.id)
            places = [
                place_of_row(some.file, shared.sources.columns_of(some.split), some.first_in_file + at, column)
                for some, at in (seen[text], (each, row))
            ]
            raise DataError(
                f"the id {cells.shown(text)} is there twice", where=places[1], why=f"first: {places[0]}",
                fix="ids name rows: give every row its own, or leave `id` out",
            )  # fmt: skip
        seen[text] = (each, row)


def _ids_at(folder: str, shared: Staged, rows: np.ndarray) -> Iterator[tuple[StagedRows, int, str]]:
    """(staged file, row in it, id) of some rows, counted over all splits, ascending."""
    start = 0
    for each in shared.rows:
        inside = rows[(rows >= start) & (rows < start + each.rows)] - start
        start += each.rows
        if len(inside):
            ids = read_staged(folder, each.path, [ID]).column(ID).take(pa.array(inside)).to_pylist()
            yield from ((each, int(row), text) for row, text in zip(inside, ids, strict=True))


def check_groups(folder: str, shared: Staged, given: dict[str, tuple[list[str], str]]) -> None:
    """Raise DataError for a group of training rows without labels, and for labels of a group that no row is in."""
    sources = shared.sources
    assert sources.group_labels is not None
    for group in sorted(names_in(folder, shared, "groups", ["train"]) - set(given)):
        each, row = next(
            (each, row)
            for each in shared.of_split("train")
            for row, own in enumerate(read_staged(folder, each.path, [GROUPS]).column(GROUPS).to_pylist())
            if group in own
        )
        raise DataError(
            f"the group {cells.shown(group)} has no labels",
            where=place_of_row(each.file, sources.train, each.first_in_file + row, sources.train.group),
            why=f"{sources.group_labels.path} has no row for it", fix="add the row, or leave the cell empty",
        )  # fmt: skip
    unknown = set(given) - names_in(folder, shared, "groups")
    if unknown:
        group = next(name for name in given if name in unknown)  # the first in the file
        more = f"; {len(unknown) - 1:,} more groups have none" if len(unknown) > 1 else ""
        raise DataError(
            f"labels of the unknown group {cells.shown(group)}", where=given[group][1],
            why=f"no row of the tables is in it{more}", fix="remove the row, or check the spelling of the group",
        )  # fmt: skip
