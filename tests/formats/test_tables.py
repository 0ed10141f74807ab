"""Table files as a library reads them: cells come back the same from every kind of file; folders, patterns, URLs."""

from __future__ import annotations

import csv
import io
import json

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpipe.errors import DataError
from xpipe.formats import TableColumns, TableFile, find_tables, iterate_table
from xpipe.formats.table_cells import labels_cell, number_cell

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
NAME = TEXT.map(str.strip).filter(lambda name: name and ";" not in name)
ROW = st.tuples(TEXT.filter(str.strip), st.none() | TEXT, st.lists(NAME, max_size=4), st.none() | NAME)
COLUMNS = TableColumns(id="i", text=("t", "u"), labels="l", separator=";", group="g", categories=("c",))
NAMES = ("i", "t", "u", "l", "g", "c")


def as_files(rows) -> dict[str, bytes]:
    """The same table as bytes of each kind of file."""
    records = [{"i": i, "t": "x", "u": u, "l": names, "g": g, "c": g} for i, u, names, g in rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, NAMES)
    writer.writeheader()
    writer.writerows({**record, "l": ";".join(record["l"])} for record in records)
    sink = io.BytesIO()
    schema = pa.schema([(name, pa.list_(pa.string()) if name == "l" else pa.string()) for name in NAMES])
    pq.write_table(pa.Table.from_pylist(records, schema=schema), sink)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    return {"csv": text.getvalue().encode(), "jsonl": lines.encode(), "parquet": sink.getvalue()}


@given(rows=st.lists(ROW, min_size=1, max_size=6, unique_by=lambda row: row[0]))
@settings(max_examples=60)
def test_cells_come_back_the_same_from_every_kind_of_file(rows, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    found = {}
    for kind, content in as_files(rows).items():
        (folder / f"cells.{kind}").write_bytes(content)
        batches = list(iterate_table(TableFile(str(folder / f"cells.{kind}"), kind), COLUMNS, batch_rows=4))
        assert [batch.first for batch in batches] == list(range(0, len(rows), 4))
        found[kind] = [
            row
            for batch in batches
            for row in zip(
                batch.ids.to_pylist(), batch.texts.to_pylist(), batch.labels.to_pylist(), batch.groups.to_pylist(),
                batch.categories["c"].to_pylist(), strict=True,
            )
        ]  # fmt: skip
    assert found["csv"] == found["jsonl"] == found["parquet"]
    assert [row[0] for row in found["csv"]] == [row[0] for row in rows]
    assert [row[2] for row in found["csv"]] == [sorted(set(names)) for _, _, names, _ in rows]
    assert [row[1] for row in found["csv"]] == ["\n".join(filter(None, ["x", more])) for _, more, _, _ in rows]


def test_files_are_read_in_the_order_of_their_names_or_as_listed(tmp_path):
    for name in ("b.csv", "a.csv", "_SUCCESS", ".hidden"):
        (tmp_path / name).write_text("t\nx\n")
    names = [file.path.rpartition("/")[2] for file in find_tables(str(tmp_path))]
    assert names == ["a.csv", "b.csv"]
    assert [file.path for file in find_tables(f"{tmp_path}/[ab].csv")] == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    listed = find_tables([f"{tmp_path}/b.csv", f"{tmp_path}/a.csv"])
    assert [file.path[-5:] for file in listed] == ["b.csv", "a.csv"]
    (tmp_path / "x[1].csv").write_text("t\nx\n")
    assert len(find_tables(f"{tmp_path}/x[1].csv")) == 1  # a file that has a pattern's name is that file


def test_a_missing_file_comes_with_a_close_match(tmp_path):
    (tmp_path / "items.csv").touch()
    with pytest.raises(DataError, match=r"did you mean items\.csv"):
        find_tables(f"{tmp_path}/item.csv", what="data.train")


def test_tables_of_other_file_systems(tmp_path):
    fs = fsspec.filesystem("memory")
    for kind, content in as_files([("a", None, ["x"], "g"), ("b", "u", [], None)]).items():
        with fs.open(f"/tables/in.{kind}", "wb") as stream:
            stream.write(content)
        (file,) = find_tables(f"memory://tables/in.{kind}")
        (rows,) = iterate_table(file, COLUMNS)
        assert rows.ids.to_pylist() == ["a", "b"]
    assert [file.kind for file in find_tables("memory://tables/*.csv")] == ["csv"]
    with pytest.raises(DataError, match="several kinds"):
        find_tables("memory://tables")


@pytest.mark.parametrize(
    ("cell", "labels"),
    [(None, []), ("", []), ("a; b ;a", ["a", "b"]), (["b", "a"], ["a", "b"]), (7, ["7"]), ([1, "x"], ["1", "x"])],
)
def test_labels_of_a_cell(cell, labels):
    assert labels_cell(cell, ";") == labels
    if isinstance(cell, list):
        assert labels_cell(json.dumps(cell), None) == labels


@pytest.mark.parametrize(
    ("cell", "number"),
    [("1e3", 1000.0), (" 2.5 ", 2.5), (".5", 0.5), ("", None), (None, None), (3, 3.0), (-0.25, -0.25)],
)
def test_numbers_of_a_cell(cell, number):
    assert number_cell(cell) == number


@pytest.mark.parametrize("cell", ["1_000", "0x1f", "nan", "inf", "1,5", True, "4e38", [1]])
def test_what_is_no_number(cell):
    with pytest.raises(ValueError, match="number"):
        number_cell(cell)
