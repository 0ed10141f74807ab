"""Whitened rows, groups and kinship on a device: laid out once, and kept from chunk to chunk of labels.

Holds no rounds (`_rounds_cupy`) and no labels. The rows of a group lie together, once row by row for scores, once
feature by feature for sums, so that sums over a group have one fixed order and no two threads write one number. Arrays
on the device come from an array module (xp = cupy, or the stand-in of the tests).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xpipe.eagle._pieces_cupy import Absorbing
from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import Whitened
from xpipe.ground.sparse_rows import entries_of_rows, entry_rows, row_pointers

ENTRIES_AT_ONCE = 1 << 20  # entries that are sorted together while they are laid out
ENTRY_BYTES, MEMBER_BYTES = 30, 20  # on the device, per entry of a row in a group, and per member of a group
KEPT_SHARE = 0.5  # of the free memory of a device that kept rows may take: rounds need the rest


class Counts(NamedTuple):
    """What the host knows of each group, so that it need not ask the device.

    members, entries (of their rows), columns (features that they have), kin (numbers that leave it out; 0: too large).
    longest: the most entries of a row.
    """

    members: np.ndarray
    entries: np.ndarray
    columns: np.ndarray
    kin: np.ndarray
    longest: np.ndarray


class ByRow(NamedTuple):
    """Entries of the rows of groups, row by row. first: where each member's row begins, from its group's start on."""

    first: Any
    feature: Any
    value: Any
    times: Any  # how often an entry absorbs, see `Absorbing`


class ByColumn(NamedTuple):
    """The same entries, feature by feature, with the place of the member.

    starts: where the columns of each group begin. first: where each column begins, from its group's start on.
    """

    member: Any
    value: Any
    times: Any
    starts: Any
    first: Any
    feature: Any


@dataclass(frozen=True)
class DeviceRows:
    """All that rounds read. Arrays are on the device, but for `counts`."""

    xp: Any
    counts: Counts
    n_samples: int
    n_features: int
    member_starts: Any  # samples of group g: samples[member_starts[g] : member_starts[g + 1]]
    samples: Any
    entry_starts: Any
    by_row: ByRow
    by_column: ByColumn
    coordinates: Any
    influence: Any
    kin_starts: Any  # -1 where the group is too large
    kin_values: Any
    absorbing: Absorbing  # for members of groups

    @property
    def rank(self) -> int:
        return int(self.coordinates.shape[1])


def lay_out(xp: Any, rows: Whitened, members: Lists, kinship: Kinship) -> DeviceRows:
    """Bring rows to the device. Every whitened row has an entry at least: that of the mean."""
    sizes, lengths = np.diff(members.starts), np.diff(rows.sparse.indptr)
    own = lengths[members.items]
    before = row_pointers(own)
    entry_starts = before[members.starts]
    longest = np.zeros(len(sizes), np.int64)
    np.maximum.at(longest, entry_rows(members.starts), own)
    tables = Absorbing(np, int(max(longest.max(initial=0), sizes.max(initial=0))))
    n_entries, n_columns = int(before[-1]), np.zeros(len(sizes), np.int64)
    kinds = (np.int32, np.float32, np.int8, np.int32, np.float32, np.int8)
    entries = [xp.zeros(n_entries, dtype=kind) for kind in kinds]
    columns = [[xp.zeros(0, dtype=np.int32)] for _ in range(2)]
    for start, stop in _parts(entry_starts):
        found = _sorted_entries(rows, members, start, stop, tables)
        inside = slice(int(entry_starts[start]), int(entry_starts[stop]))
        for target, part in zip(entries, (*found.by_row, *found.by_column), strict=True):
            target[inside] = xp.asarray(part)
        for parts, part in zip(columns, found.columns, strict=True):
            parts.append(xp.asarray(part))
        n_columns[start:stop] = found.n_columns
    kin = np.where(kinship.starts >= 0, sizes**2, 0)
    first, feature = map(xp.concatenate, columns)
    by_column = ByColumn(entries[3], entries[4], entries[5], xp.asarray(row_pointers(n_columns)), first, feature)
    return DeviceRows(
        xp=xp,
        counts=Counts(sizes, np.diff(entry_starts), n_columns, kin, longest),
        n_samples=len(rows.influence),
        n_features=rows.n_features,
        member_starts=xp.asarray(members.starts),
        samples=xp.asarray(members.items),
        entry_starts=xp.asarray(entry_starts),
        by_row=ByRow(xp.asarray(before[:-1] - np.repeat(entry_starts[:-1], sizes)), *entries[:3]),
        by_column=by_column,
        coordinates=xp.asarray(rows.coordinates),
        influence=xp.asarray(rows.influence),
        kin_starts=xp.asarray(kinship.starts),
        kin_values=xp.asarray(kinship.values if len(kinship.values) else np.zeros(1, np.float32)),
        absorbing=Absorbing(xp, int(sizes.max(initial=0))),
    )


class SortedEntries(NamedTuple):
    """Entries of the rows of some groups, in both orders, and their columns; on the host."""

    by_row: tuple[np.ndarray, np.ndarray, np.ndarray]  # feature, value, times
    by_column: tuple[np.ndarray, np.ndarray, np.ndarray]  # member, value, times
    columns: tuple[np.ndarray, np.ndarray]  # first, feature
    n_columns: np.ndarray  # of each group


def _sorted_entries(rows: Whitened, members: Lists, start: int, stop: int, tables: Absorbing) -> SortedEntries:
    """The entries of groups start to stop - 1."""
    starts = members.starts[start : stop + 1] - members.starts[start]
    found = entries_of_rows(rows.sparse.indptr, members.items[members.starts[start] : members.starts[stop]])
    of_member, group_starts = entry_rows(found.indptr), found.indptr[starts]
    of_group = entry_rows(group_starts)
    features, values = rows.sparse.indices[found.places].astype(np.int32), rows.sparse.values[found.places]
    places = np.arange(len(of_member)) - found.indptr[of_member]
    by_row = (features, values, tables.times(places, np.diff(found.indptr)[of_member]))
    order = np.lexsort((features, of_group))  # stable: members stay in their order
    sorted_features = features[order]  # groups lie where they lay before
    is_first = np.ones(len(order), bool)
    is_first[1:] = (of_group[1:] != of_group[:-1]) | (sorted_features[1:] != sorted_features[:-1])
    begins, column = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    times = tables.times(np.arange(len(order)) - begins[column], np.diff(begins, append=len(order))[column])
    member = (of_member - starts[of_group])[order].astype(np.int32)
    first = (begins - group_starts[of_group[begins]]).astype(np.int32)
    n_columns = np.bincount(of_group[begins], minlength=stop - start)
    return SortedEntries(by_row, (member, values[order], times), (first, sorted_features[begins]), n_columns)


def _parts(entry_starts: np.ndarray) -> list[tuple[int, int]]:
    """Consecutive groups whose entries are sorted together: (first, one after the last)."""
    begins = np.flatnonzero(np.diff(entry_starts[:-1] // ENTRIES_AT_ONCE, prepend=-1)).tolist()
    return list(zip(begins, [*begins[1:], len(entry_starts) - 1], strict=True))


def bytes_needed(n_entries: int, n_members: int, n_samples: int, rank: int, n_kin: int) -> int:
    """About what `lay_out` takes on the device. n_entries: of the rows of all members of groups."""
    return ENTRY_BYTES * n_entries + MEMBER_BYTES * n_members + 4 * (rank + 1) * n_samples + 4 * n_kin


def free_bytes(xp: Any) -> int:
    """The free memory of the device: what no process has taken, and what this process has taken and given back."""
    return int(xp.cuda.runtime.memGetInfo()[0]) + int(xp.get_default_memory_pool().free_bytes())


class Keeper:
    """The rows that this process keeps on its device: the last ones, until others take their place."""

    def __init__(self) -> None:
        self.key: tuple[str, ...] | None = None
        self.rows: DeviceRows | None = None
        self.lock = threading.Lock()  # tasks of one worker may run in several threads

    def keep(
        self, xp: Any, key: tuple[str, ...], n_bytes: Callable[[], int], make: Callable[[], DeviceRows]
    ) -> DeviceRows | None:
        """The rows with this key: those that are kept, or else those that `make` gives, which are kept then.

        None where they would take too much of what is free. Whether rows are kept changes no byte of any result.
        """
        with self.lock:
            if self.key != key:
                self.key = self.rows = None  # the old rows make room
                if n_bytes() <= KEPT_SHARE * free_bytes(xp):
                    self.rows = make()
                self.key = key
            return self.rows


keeper = Keeper()
