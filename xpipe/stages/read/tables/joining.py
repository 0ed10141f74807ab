"""All staged rows together, in one unit: ids are unique, labels and groups get numbers, rows get splits.

Holds no parsing, and no texts in memory: hashes of ids, and groups where they matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.engine.messages import FileEntry, Finished, Unit, write_entry
from xpipe.errors import DataError
from xpipe.formats.names import read_names
from xpipe.ground.checked_json import dump_json
from xpipe.stages.arrays import write_array
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.tables.beside import read_group_labels, read_label_names
from xpipe.stages.read.tables.checking import check_groups, check_ids, check_rows
from xpipe.stages.read.tables.numbering import number_names, to_rows
from xpipe.stages.read.tables.raw_labels import count_labels
from xpipe.stages.read.tables.sources import Sources
from xpipe.stages.read.tables.splitting import hold_out
from xpipe.stages.read.tables.staged_rows import Staged, names_in
from xpipe.stages.read.tables.staging import GROUPS, read_staged

LABEL_KEYS, GROUP_KEYS = "joined/labels.json", "joined/groups.json"  # sorted names; their places are their numbers


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
    check_rows(shared)
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
        check_groups(folder, shared, given)
    keys = sorted(names_in(folder, shared, "labels").union(*(labels for labels, _ in given.values())))
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


def _train_groups(folder: str, shared: Staged) -> tuple[sp.csr_matrix, list[str]]:
    """(rows x groups, names of the groups) of all training rows, those that will be held out included."""
    groups = sorted(names_in(folder, shared, "groups", ["train"]))
    pointers, numbers = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for each in shared.of_split("train"):
        found = to_rows(read_staged(folder, each.path, [GROUPS]).column(GROUPS), number_names(groups))
        pointers.append(found.indptr[1:] + pointers[-1][-1])
        numbers.append(found.indices)
    indices = np.concatenate(numbers)
    ones = np.ones(len(indices), np.float32)
    indptr = np.concatenate(pointers)
    return sp.csr_matrix((ones, indices, indptr), (len(indptr) - 1, len(groups))), groups


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
