"""The table owners/ at a worker: one part of samples at a time becomes rows of (sample, label, chance), by name.

Holds no assignment: it reads what the other steps of the stage wrote. Nothing here holds more than one part.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.eagle.chances import shifted
from xpipe.engine.messages import FileEntry, Finished
from xpipe.formats.owner_files import write_owners
from xpipe.formats.parquet_files import read_columns
from xpipe.formats.parts import read_part
from xpipe.ground import files
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import entry_rows, take_rows
from xpipe.stages.arrays import read_array
from xpipe.stages.assign.messages import RowsPart
from xpipe.stages.emitted_paths import OWNERS_FOLDER
from xpipe.stages.matrices import MatrixRef, load_group_matrix, open_matrix, part_path


@dataclass(frozen=True)
class OwnerFacts:
    """What all parts share.

    names, ids: where the data has them. shifts: the files that turn the posteriors of all labels into chances; none
    where the method gives no posteriors. with_chances: whether scores are chances as they are.
    """

    membership: MatrixRef
    group_labels: MatrixRef
    names: MatrixRef | None
    ids: MatrixRef | None
    shifts: tuple[str, ...]
    with_chances: bool
    n_labels: int


def write_owners_part(folder: str, unit: RowsPart, shared: OwnerFacts) -> Finished[None]:
    """Write the owners of one part of the samples to owners/part-*.parquet."""
    samples, owned = read_part(files.join(folder, part_path("assigned_labels", "train", unit.index)))
    rows = entry_rows(owned.indptr)
    membership = open_matrix(shared.membership, "train")
    members = membership.take(np.arange(unit.start, unit.start + unit.size))[1]
    groups = group_of_owners(members, load_group_matrix(shared.group_labels), owned)
    ids = ids_of_samples(shared, unit.index)
    columns = {
        "row": samples[rows],
        "id": pa.nulls(len(rows), pa.string()) if ids is None else ids.take(pa.array(rows)),
        "group": _named(groups, _names(shared.names, "groups"), otherwise=str),
        "label": owned.indices,
        "name": _named(owned.indices, _names(shared.names, "labels"), otherwise=lambda _: None),
        "chance": _chances(folder, owned, shared),
    }
    path = f"{OWNERS_FOLDER}/{OWNERS_FOLDER}/part-{unit.index:05d}.parquet"
    return Finished((FileEntry(path, **write_owners(files.join(folder, path), columns, shared.n_labels)),), None)


def ids_of_samples(shared: OwnerFacts, index: int) -> pa.Array | None:
    """The ids of the samples of a part, strings; None where the data has no ids, as matrices have none.

    This is the one place where owners/ gets its ids from: part `index` of the artifact `ids`, which has one row per
    sample, and a column `id` where the data has ids.
    """
    if shared.ids is None:
        return None
    path = files.join(shared.ids.folder, shared.ids.name, "split=train", f"part-{index:05d}.parquet")
    table = read_columns(path, fix="give the same command again")
    return table["id"].combine_chunks().cast(pa.string()) if "id" in table.column_names else None


def group_of_owners(members: Triple, group_labels: sp.csr_matrix, owned: Triple) -> np.ndarray:
    """For every owner, the first group of its sample that has the label, int64.

    members: groups of each sample; owned: labels of each sample, ascending.
    """
    if (np.diff(members.indptr) == 1).all():
        only: np.ndarray = members.indices[entry_rows(owned.indptr)].astype(np.int64)
        return only
    n_labels = max(group_labels.shape[1], 1)
    listed = Triple(group_labels.indptr.astype(np.int64), group_labels.indices, group_labels.data)
    allowed = take_rows(listed, members.indices)  # one row of labels per membership
    place = entry_rows(allowed.indptr)
    pairs = entry_rows(members.indptr)[place].astype(np.int64) * n_labels + allowed.indices
    groups = members.indices[place].astype(np.int64)
    order = np.lexsort((groups, pairs))
    wanted = entry_rows(owned.indptr).astype(np.int64) * n_labels + owned.indices
    first: np.ndarray = groups[order][np.searchsorted(pairs[order], wanted)]
    return first


def _chances(folder: str, owned: Triple, shared: OwnerFacts) -> np.ndarray | pa.Array:
    """The chance of every owner, float32; null where it is not known."""
    if shared.with_chances:
        return owned.values
    if not shared.shifts:
        return pa.nulls(len(owned.values), pa.float32())
    chances: np.ndarray = shifted(owned.values, _all_shifts(folder, shared.shifts)[owned.indices]).astype(np.float32)
    return chances


@lru_cache(maxsize=1)
def _all_shifts(folder: str, shifts: tuple[str, ...]) -> np.ndarray:
    """The shift of every label. Chunks have consecutive labels, in order. Kept per worker."""
    return np.concatenate([read_array(folder, path) for path in shifts])


@lru_cache(maxsize=4)
def _names(where: MatrixRef | None, what: str) -> tuple[str, ...] | None:
    """Names of labels or groups from the artifact `names`, where the data has them. Kept per worker."""
    path = None if where is None else files.join(where.folder, where.name, f"{what}.json")
    if path is None or not files.exists(path):
        return None
    return tuple(json.loads(files.read_bytes(path)))


def _named(numbers: np.ndarray, names: tuple[str, ...] | None, otherwise: Callable[[int], str | None]) -> pa.Array:
    """The name of each number; `otherwise(number)` where there are no names. Each name is made once."""
    different, places = np.unique(numbers, return_inverse=True)
    words = [names[number] if names else otherwise(number) for number in different.tolist()]
    return pa.array(words, pa.string()).take(pa.array(places))
