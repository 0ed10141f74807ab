"""Verdicts as columns: rows taken, parts joined, Parquet there and back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.argmaxability.oracles import all_sets
from xpipe.argmaxability import Verdicts, check, verify
from xpipe.argmaxability import verdicts as storing
from xpipe.argmaxability.verdicts import read_verdicts, write_verdicts
from xpipe.errors import DataError


@pytest.fixture(scope="module")
def verified():
    W = np.random.default_rng(0).standard_normal((6, 2))
    Y = all_sets(6)
    return W, Y, verify(W, Y)


def same(a: Verdicts, b: Verdicts) -> bool:
    return all(
        np.array_equal(getattr(a, field.name), getattr(b, field.name), equal_nan=field.name == "points")
        for field in dataclasses.fields(a)
    )


def test_take_and_concatenate_are_inverse(verified):
    _, _, verdicts = verified
    parts = [verdicts.take(np.arange(0, 10)), verdicts.take(np.arange(10, 10)), verdicts.take(np.arange(10, 64))]
    assert same(Verdicts.concatenate(parts), verdicts)
    twice = verdicts.take([5, 5, 0])
    assert np.array_equal(twice.multipliers_of(1)[1], verdicts.multipliers_of(5)[1])
    assert twice.status.tolist() == verdicts.status[[5, 5, 0]].tolist()
    assert not same(verdicts.take(np.arange(64)[::-1]), verdicts)


def test_parquet_there_and_back(tmp_path, verified):
    W, Y, verdicts = verified
    path = str(tmp_path / "verdicts.parquet")
    write_verdicts(path, verdicts, Y.indptr, Y.indices)
    found = read_verdicts(path)
    assert same(found, verdicts)
    assert check(W, Y, found).all()
    first = (tmp_path / "verdicts.parquet").read_bytes()
    write_verdicts(path, verdicts, Y.indptr, Y.indices)
    assert (tmp_path / "verdicts.parquet").read_bytes() == first
    table = pq.read_table(path)
    assert table["labels"][3].as_py() == [0, 1]
    assert table["status"].to_pylist() == verdicts.status.tolist()
    missing = np.flatnonzero(np.isnan(verdicts.points[:, 0]))
    assert table["point"].null_count == len(missing) > 0


def test_no_sets_there_and_back(tmp_path, verified):
    _, Y, verdicts = verified
    path = str(tmp_path / "none.parquet")
    write_verdicts(path, verdicts.take([]), Y.indptr[:1], Y.indices[:0])
    assert len(read_verdicts(path)) == 0
    assert read_verdicts(path).points.shape == (0, 2)


def test_other_tables_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match="does not hold verdicts"):
        read_verdicts(str(tmp_path / "other.parquet"))
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read_verdicts(str(tmp_path / "text.parquet"))


def test_rows_of_few_sets_are_written_a_group_at_a_time(verified, tmp_path, monkeypatch):
    _, Y, verdicts = verified
    member = np.random.default_rng(0).integers(0, 64, 50)
    write_verdicts(str(tmp_path / "whole.parquet"), verdicts.take(member), Y[member].indptr, Y[member].indices)
    monkeypatch.setattr(storing, "ROW_GROUP", 7)
    write_verdicts(str(tmp_path / "groups.parquet"), verdicts, Y.indptr, Y.indices, member)
    assert pq.ParquetFile(tmp_path / "groups.parquet").num_row_groups == 8
    assert pq.read_table(tmp_path / "groups.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    assert same(read_verdicts(str(tmp_path / "groups.parquet")), verdicts.take(member))


def test_bare_verdicts_count_the_same(verified):
    _, _, verdicts = verified
    bare = verdicts.bare().take([3, 3, 40])
    assert bare.points.shape == (3, 0)
    assert bare.status.tolist() == verdicts.status[[3, 3, 40]].tolist()
    assert bare.one_argmaxable.tolist() == verdicts.one_argmaxable[[3, 3, 40]].tolist()
    assert len(bare.multipliers_of(2)[0]) == 0


def replaced(table, name, values):
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t.drop_columns(["point"]),
        lambda t: t.append_column("point", t["point"]),
        lambda t: replaced(t, "status", ["maybe"] * 64),
        lambda t: replaced(t, "status", list(range(64))),
        lambda t: replaced(t, "radius_lower", [None] * 64),
        lambda t: replaced(t, "radius_upper", ["x"] * 64),
        lambda t: replaced(t, "set", list(range(64))[::-1]),
        lambda t: replaced(t, "exact", [True] * 64),
        lambda t: replaced(t, "point", [[1.0]] * 64),
        lambda t: replaced(t, "point", [[1.0, None]] * 64),
        lambda t: replaced(t, "multipliers", [[1.0] * 9] * 64),
        lambda t: replaced(t, "multipliers", [1.0] * 64),
        lambda t: replaced(t, "multiplier_labels", [[-1]] * 64),
        lambda t: replaced(t, "multiplier_tails", [[1.0] * 9] * 64),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"d": b"99999999999999999999999"}),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"d": b"7"}),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"d": b"-1"}),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"eps": b"nan"}),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"box": b"0"}),
        lambda t: t.replace_schema_metadata({b"xpipe.verdicts": b"2"}),
        lambda t: t.replace_schema_metadata({b"xpipe.verdicts": b"\xff"}),
    ],
)
def test_tables_of_other_shapes_are_refused(tmp_path, verified, spoil):
    _, Y, verdicts = verified
    path = str(tmp_path / "v.parquet")
    pq.write_table(spoil(verdicts.to_table(Y.indptr, Y.indices)), path)
    with pytest.raises(DataError) as error:
        read_verdicts(path)
    assert path in str(error.value)


def test_tables_of_the_first_format_are_read(tmp_path, verified):
    _, Y, verdicts = verified
    table = verdicts.to_table(Y.indptr, Y.indices).drop_columns(["exact", "point_tail", "multiplier_tails"])
    table = table.replace_schema_metadata({**table.schema.metadata, b"xpipe.verdicts": b"1"})
    assert same(Verdicts.from_table(table), verdicts)
