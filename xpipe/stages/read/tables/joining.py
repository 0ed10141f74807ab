"""All staged rows together, in one unit: ids are unique, labels and groups get numbers, rows get splits.

Holds no parsing, and no texts in memory: hashes of ids, and groups where they matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.engine.messages import FileEntry, Finished, Unit, write_entry
from xpipe.errors import DataError
from xpipe.formats import table_cells as cells
from xpipe.formats.names import read_names
from xpipe.formats.table_files import TableFile
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.arrays import read_array, write_array
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.tables.beside import read_group_labels, read_label_names
from xpipe.stages.read.tables.numbering import number_names, to_rows
from xpipe.stages.read.tables.raw_labels import count_labels
from xpipe.stages.read.tables.sources import Sources
from xpipe.stages.read.tables.splitting import hold_out
from xpipe.stages.read.tables.staging import GROUPS, ID, ids_path, names_path, place_of_row, read_staged, staged_path

LABEL_KEYS, GROUP_KEYS = "joined/labels.json", "joined/groups.json"  # sorted names; their places are their numbers


@dataclass(frozen=True)
class StagedRows:
    """One staged file. split: before rows are held out. first: the number of its first row in its split.

    file, first_in_file: where its rows come from.
    """

    piece: str
    number: int
    split: str
    first: int
    rows: int
    file: TableFile
    first_in_file: int

    @property
    def path(self) -> str:
        """The file, below the stage's folder."""
        return staged_path(self.piece, self.number)


@dataclass(frozen=True)
class Staged:
    """All staged rows, in order. part_rows: rows of one part of the group labels."""

    sources: Sources
    rows: tuple[StagedRows, ...]
    seed: int
    part_rows: int

    def of_split(self, split: str) -> list[StagedRows]:
        """The staged files of a split, before rows are held out."""
        return [each for each in self.rows if each.split == split]

    def count(self, split: str) -> int:
        """The rows of a split, before rows are held out."""
        return sum(each.rows for each in self.of_split(split))


@dataclass(frozen=True)
class Joined:
    """What is known of all rows together.

    rows: of each split. n_groups: groups with training rows; None where no column says groups. unnamed: labels that
    data.label_names does not name, one of them being `example`.
    """

    rows: dict[str, int]
    n_labels: int
    n_groups: int | None
    unnamed: int = 0
    example: str = ""


def join_tables(folder: str, unit: Unit, shared: Staged) -> Finished[Joined]:
    """Check all rows together; write names, numbers of labels and groups, held-out rows, and labels of groups."""
    sources = shared.sources
    _check_rows(shared)
    if sources.train.id is not None:
        check_ids(folder, shared)
    if sources.splits[0].matrix is not None:
        return _join_raw(folder, shared)
    entries: list[FileEntry] = []
    rows, groups = {source.split: shared.count(source.split) for source in sources.splits}, None
    membership = None
    if sources.train.group is not None:
        membership, groups = _train_groups(folder, shared)
    if sources.holdout is not None:
        where = sources.splits[0].files[0].path
        held = hold_out(rows["train"], membership, sources.holdout, shared.seed, where)
        for split, mask in (("train", ~held), ("test", held)):
            entries.append(write_array(folder, rows_path(split), np.flatnonzero(mask)))
            rows[split] = int(mask.sum())
        if membership is not None and groups is not None:
            there = np.flatnonzero(membership[~held].getnnz(axis=0))  # groups with training rows
            groups = [groups[group] for group in there]
    given = read_group_labels(sources) if sources.grouped else {}
    if given:
        _check_groups(folder, shared, given)
    keys = sorted(_names_in(folder, shared, "labels").union(*(labels for labels, _ in given.values())))
    if not keys:
        raise DataError("no row has a label", where=sources.splits[0].files[0].path, fix="check data.labels")
    names, unnamed = _shown_names(sources, keys)
    entries.append(write_entry(folder, "names/labels.json", dump_json(names)))
    if sources.label_names is not None:
        entries.append(write_entry(folder, "names/label_keys.json", dump_json(keys)))
    entries.append(write_entry(folder, LABEL_KEYS, dump_json(keys)))
    if groups is not None:
        entries.append(write_entry(folder, "names/groups.json", dump_json(groups)))
        entries.append(write_entry(folder, GROUP_KEYS, dump_json(groups)))
    if given:
        assert groups is not None
        entries += _write_group_labels(folder, shared, [given[group][0] for group in groups], keys)
    n_groups = None if groups is None else len(groups)
    joined = Joined(rows, len(keys), n_groups, len(unnamed), unnamed[0] if unnamed else "")
    return Finished(tuple(entries), joined)


def rows_path(split: str) -> str:
    """Where the rows of a split are listed, where rows are held out."""
    return f"joined/rows-{split}.npy"


def _join_raw(folder: str, shared: Staged) -> Finished[Joined]:
    """Texts by line: their labels are numbers already."""
    rows = {source.split: shared.count(source.split) for source in shared.sources.splits}
    n_labels = count_labels(shared.sources, rows)
    path = shared.sources.names
    entries = () if path is None else (
        write_entry(folder, "names/labels.json", dump_json(read_names(path, count=n_labels).names)),
    )  # fmt: skip
    return Finished(entries, Joined(rows, n_labels, None))


def _check_rows(shared: Staged) -> None:
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


def _names_in(folder: str, shared: Staged, kind: str, splits: Iterable[str] | None = None) -> set[str]:
    """The names of labels or groups in the rows of some splits, or of all."""
    found: set[str] = set()
    for piece in dict.fromkeys(each.piece for each in shared.rows if splits is None or each.split in splits):
        found.update(json.loads(files.read_bytes(files.join(folder, names_path(piece))))[kind])
    return found


def _train_groups(folder: str, shared: Staged) -> tuple[sp.csr_matrix, list[str]]:
    """(rows x groups, names of the groups) of all training rows, those that will be held out included."""
    groups = sorted(_names_in(folder, shared, "groups", ["train"]))
    pointers, numbers = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for each in shared.of_split("train"):
        found = to_rows(read_staged(folder, each.path, [GROUPS]).column(GROUPS), number_names(groups))
        pointers.append(found.indptr[1:] + pointers[-1][-1])
        numbers.append(found.indices)
    indices = np.concatenate(numbers)
    ones = np.ones(len(indices), np.float32)
    indptr = np.concatenate(pointers)
    return sp.csr_matrix((ones, indices, indptr), (len(indptr) - 1, len(groups))), groups


def _check_groups(folder: str, shared: Staged, given: dict[str, tuple[list[str], str]]) -> None:
    """Raise DataError for a group of training rows without labels, and for labels of a group that no row is in."""
    sources = shared.sources
    assert sources.group_labels is not None
    for group in sorted(_names_in(folder, shared, "groups", ["train"]) - set(given)):
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
    unknown = set(given) - _names_in(folder, shared, "groups")
    if unknown:
        group = next(name for name in given if name in unknown)  # the first in the file
        more = f"; {len(unknown) - 1:,} more groups have none" if len(unknown) > 1 else ""
        raise DataError(
            f"labels of the unknown group {cells.shown(group)}", where=given[group][1],
            why=f"no row of the tables is in it{more}", fix="remove the row, or check the spelling of the group",
        )  # fmt: skip


def _shown_names(sources: Sources, keys: list[str]) -> tuple[list[str], list[str]]:
    """(the name of each label as people see it, labels that have no name of their own)."""
    if sources.label_names is None:
        return keys, []
    named = read_label_names(sources)
    if not any(key in named for key in keys):
        raise DataError(
            "no label of the tables has a name", where=sources.label_names.path,
            why=f"the tables have {', '.join(keys[:5])}; the names are those of {', '.join(list(named)[:5])}",
            fix="check data.label_names",
        )  # fmt: skip
    return [named.get(key, key) for key in keys], [key for key in keys if key not in named]


def _write_group_labels(folder: str, shared: Staged, labels: list[list[str]], keys: list[str]) -> list[FileEntry]:
    """Write the labels of each group (Y2) in parts."""
    lookup, entries = number_names(keys), []
    for index, start in enumerate(range(0, len(labels), shared.part_rows)):
        some = labels[start : start + shared.part_rows]
        rows = to_rows(pa.chunked_array([pa.array(some, pa.list_(pa.string()))]), lookup)
        numbers = np.arange(start, start + len(some))
        entries.append(write_matrix_part(folder, "group_labels", "train", index, numbers, rows))
    return entries
