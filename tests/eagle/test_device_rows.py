"""Rows on a device hold the entries of the host in both orders, and stay there until others need the room."""

from __future__ import annotations

import numpy as np
import pytest

from tests import array_module as stand_in
from tests.array_module import array_module as xp
from tests.eagle.samples import overlapping, planted, whitened
from xpipe.eagle import device_rows
from xpipe.eagle.device_rows import Keeper, bytes_needed, lay_out
from xpipe.eagle.kinship import kinship_of
from xpipe.eagle.problem import columns_of


@pytest.mark.parametrize("at_once", [1 << 20, 50])
def test_both_orders_hold_the_entries_of_every_group(monkeypatch, at_once):
    monkeypatch.setattr(device_rows, "ENTRIES_AT_ONCE", at_once)
    X, Y = planted(n_samples=120)
    Y1, _ = overlapping(Y)
    rows, members = whitened(X, 8, 1.0), columns_of(Y1)
    found = lay_out(xp, rows, members, kinship_of(rows, members, None, 1))
    starts, column_starts = found.entry_starts.get(), found.by_column.starts.get()
    indptr, indices, values = rows.sparse
    for group in range(Y1.shape[1]):
        samples = members.items[members.starts[group] : members.starts[group + 1]]
        expected = np.zeros((len(samples), rows.n_features), np.float32)
        for place, sample in enumerate(samples):
            expected[place, indices[indptr[sample] : indptr[sample + 1]]] = values[indptr[sample] : indptr[sample + 1]]
        inside = slice(starts[group], starts[group + 1])
        feature = found.by_row.feature.get()[inside]
        first = found.by_row.first.get()[members.starts[group] : members.starts[group + 1]]
        by_row = np.zeros_like(expected)
        place = np.searchsorted(first, np.arange(len(feature)), side="right") - 1
        by_row[place, feature] = found.by_row.value.get()[inside]
        assert (by_row == expected).all()
        columns = slice(column_starts[group], column_starts[group + 1])
        of_column, first = found.by_column.feature.get()[columns], found.by_column.first.get()[columns]
        assert np.array_equal(of_column, np.flatnonzero((expected != 0).any(axis=0)))
        by_column = np.zeros_like(expected)
        column = np.searchsorted(first, np.arange(len(feature)), side="right") - 1
        by_column[found.by_column.member.get()[inside], of_column[column]] = found.by_column.value.get()[inside]
        assert (by_column == expected).all()
        assert found.counts.columns[group] == len(of_column)
        assert found.counts.entries[group] == len(feature)


def test_what_is_kept_is_made_once_and_makes_room(monkeypatch):
    keeper, made = Keeper(), []

    def make():
        made.append(object())
        return made[-1]

    free = stand_in.MEMORY
    first = keeper.keep(xp, ("one",), lambda: free // 2, make)
    assert keeper.keep(xp, ("one",), lambda: free // 2, make) is first
    assert len(made) == 1
    assert keeper.keep(xp, ("two",), lambda: free // 2 + 1, make) is None  # rounds need room, too
    assert keeper.rows is None  # the old rows do not stay beside what is not kept
    assert keeper.keep(xp, ("one",), lambda: free // 2, make) is made[1]
    monkeypatch.setattr(stand_in, "MEMORY", free // 4)
    assert keeper.keep(xp, ("three",), lambda: free // 2, make) is None
    assert len(made) == 2


def test_the_forecast_of_memory_is_no_lower_than_what_is_taken():
    X, Y = planted(n_samples=400)
    Y1, _ = overlapping(Y)
    rows, members = whitened(X, 40, 1.0), columns_of(Y1)
    kinship = kinship_of(rows, members, None, 1)
    found = lay_out(xp, rows, members, kinship)
    arrays = [*found.by_row, *found.by_column, found.member_starts, found.samples, found.coordinates]
    arrays += [found.influence, found.kin_values, found.entry_starts, found.kin_starts]
    taken = sum(array.size * array.dtype.itemsize for array in arrays)
    n_entries = int(np.diff(rows.sparse.indptr)[members.items].sum())
    forecast = bytes_needed(n_entries, len(members.items), 400, rows.coordinates.shape[1], len(kinship.values))
    assert taken <= 1.1 * forecast
