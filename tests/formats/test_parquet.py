"""Parquet: the documented schema to the letter, round trips, polars and DuckDB, and errors that name what is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import pairwise

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, finite_float32
from xpipe.errors import DataError
from xpipe.formats.parquet import (
    dataset_files,
    iterate_groups,
    iterate_rows,
    read_about,
    read_matrix,
    read_split,
    read_split_labels,
    write_dataset_part,
    write_labels,
    write_matrix,
)
from xpipe.ground.sparse import Triple, to_triple
from xpipe.ground.sparse_rows import slice_rows

on_disk = settings(deadline=None, max_examples=40)
DATASET = [
    ("sample", "int64"), ("indices", "list<element: int32>"), ("values", "list<element: float>"),
    ("labels", "list<element: int32>"), ("label_scores", "list<element: float>"),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("parquet")


def random_rows(n_rows, n_features=30, n_labels=9, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, 0.2, "csr", np.float32, random_state=rng)
    Y = sp.random(n_rows, n_labels, 0.2, "csr", np.float32, random_state=rng)
    return X, Y


def write_dataset(folder, X, Y, cuts, row_group=4, candidates=None) -> str:
    """An emitted dataset of one split, samples numbered from 100 on."""
    folder.mkdir(exist_ok=True)
    features, labels, parts = to_triple(X), to_triple(Y), []
    for index, (start, stop) in enumerate(pairwise(cuts)):
        path = f"split=train/part-{index:05d}.parquet"
        facts = write_dataset_part(
            str(folder / path), np.arange(start, stop) + 100, slice_rows(features, start, stop),
            slice_rows(labels, start, stop), n_features=X.shape[1], n_labels=Y.shape[1], row_group=row_group,
            candidates=None if candidates is None else slice_rows(to_triple(candidates), start, stop),
        )  # fmt: skip
        parts.append({"path": path, **facts})
    splits = {"train": {"rows": X.shape[0], "parts": parts}}
    about = {"n_features": X.shape[1], "n_labels": Y.shape[1], "splits": splits}
    if candidates is not None:
        about["candidates"] = candidates.nnz
    (folder / "dataset.json").write_text(json.dumps(about))
    return str(folder)


# ---------------------------------------------------------------- the emitted dataset


def test_the_schema_is_the_documented_one(tmp_path):
    X, Y = random_rows(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 10])
    (path,) = dataset_files(folder, "train")
    schema = pq.read_schema(path)
    assert [(field.name, str(field.type)) for field in schema] == DATASET
    metadata = {key: value for key, value in schema.metadata.items() if key != b"ARROW:schema"}
    assert metadata == {b"xpipe.format": b"1", b"n_features": b"30", b"n_labels": b"9"}


def test_row_groups_and_encodings(tmp_path):
    X, Y = random_rows(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 10], row_group=4)
    meta = pq.read_metadata(dataset_files(folder, "train")[0])
    assert [meta.row_group(group).num_rows for group in range(meta.num_row_groups)] == [4, 4, 2]
    columns = {meta.row_group(0).column(i).path_in_schema: meta.row_group(0).column(i) for i in range(meta.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    with_dictionary = {name for name, column in columns.items() if "RLE_DICTIONARY" in column.encodings}
    assert with_dictionary == {"indices.list.element", "labels.list.element"}


def test_facts_of_a_file_and_the_same_bytes_twice(tmp_path):
    X, Y = random_rows(10)
    for name in ("a", "b"):
        write_dataset(tmp_path / name, X, Y, [0, 10])
    (part,) = read_about(str(tmp_path / "a"))["splits"]["train"]["parts"]
    content = (tmp_path / "a" / part["path"]).read_bytes()
    assert part["rows"] == 10
    assert part["bytes"] == len(content)
    assert part["sha256"] == hashlib.sha256(content).hexdigest()
    assert (tmp_path / "b" / part["path"]).read_bytes() == content


@st.composite
def datasets(draw):
    n_rows = draw(st.integers(0, 8))
    X = draw(csr_matrices(n_rows=n_rows, values=finite_float32))
    Y = draw(csr_matrices(n_rows=n_rows, values=finite_float32))
    return X, Y, [0, *sorted(draw(st.lists(st.integers(0, n_rows), max_size=3))), n_rows], draw(st.integers(1, 9))


@on_disk
@given(datasets())
def test_written_is_read(place, dataset):
    X, Y, cuts, row_group = dataset
    shutil.rmtree(place / "d", ignore_errors=True)
    folder = write_dataset(place / "d", X, Y, cuts, row_group)
    found_X, found_Y = read_split(folder)
    for found, wanted in ((found_X, X), (found_Y, Y)):
        assert found.shape == wanted.shape
        assert found.data.dtype == np.float32
        assert oracles.rows_of(found) == oracles.rows_of(wanted)
    rows = list(iterate_rows(folder, "train"))
    assert [row.sample for row in rows] == [100 + row for row in range(X.shape[0])]
    for row, features, labels in zip(rows, oracles.rows_of(X), oracles.rows_of(Y), strict=True):
        assert dict(zip(row.indices.tolist(), row.values.tolist(), strict=True)) == features
        assert dict(zip(row.labels.tolist(), row.label_scores.tolist(), strict=True)) == labels


def test_labels_alone(tmp_path):
    X, Y = random_rows(11)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 5, 5, 11])
    both = read_split(folder)[1]
    alone = read_split_labels(folder)
    assert alone.shape == both.shape == Y.shape
    for name in ("indptr", "indices", "data"):
        assert (getattr(alone, name) == getattr(both, name)).all()


def test_a_row_group_at_a_time(tmp_path):
    X, Y = random_rows(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 3, 10], row_group=4)
    groups = list(iterate_groups(folder, "train"))
    assert [len(samples) for _, samples, _, _ in groups] == [3, 4, 3]
    assert groups[0][0]["n_labels"] == "9"


def test_polars_and_duckdb_read_the_same_numbers(tmp_path):
    X, Y = random_rows(50)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 20, 50])
    features, labels = oracles.rows_of(X), oracles.rows_of(Y)
    wanted = [
        (100 + row, list(features[row]), list(features[row].values()), list(labels[row]), list(labels[row].values()))
        for row in range(50)
    ]

    names = [name for name, _ in DATASET]
    frame = pl.read_parquet(f"{folder}/split=train/*.parquet").sort("sample")
    assert frame.select(names).rows() == wanted
    floats, whole = pl.List(pl.Float32), pl.List(pl.Int32)
    assert [frame.schema[name] for name in names] == [pl.Int64, whole, floats, whole, floats]

    source = f"read_parquet('{folder}/split=train/*.parquet', hive_partitioning = true)"
    with duckdb.connect() as database:
        assert database.execute(f"select {', '.join(names)} from {source} order by sample").fetchall() == wanted
        kinds = database.execute(f"describe select * from {source}").fetchall()
        assert [(name, kind) for name, kind, *_ in kinds] == [
            ("sample", "BIGINT"), ("indices", "INTEGER[]"), ("values", "FLOAT[]"), ("labels", "INTEGER[]"),
            ("label_scores", "FLOAT[]"), ("split", "VARCHAR"),
        ]  # fmt: skip
        total = database.execute(f"select sum(len(labels)) from {source}").fetchone()
        assert total == (Y.nnz,)


def test_labels(tmp_path):
    path = str(tmp_path / "labels.parquet")
    columns = {
        "label": np.arange(2, dtype=np.int32),
        "original_label": np.array([0, 3], np.int32),
        "name": ["ä", None],
        "frequency": np.array([5, 1]),
        "inverse_propensity": np.array([1.5, 2.5]),
    }
    assert write_labels(path, columns)["rows"] == 2
    assert [(field.name, str(field.type)) for field in pq.read_schema(path)] == [
        ("label", "int32"), ("original_label", "int32"), ("name", "string"), ("frequency", "int64"),
        ("inverse_propensity", "double"),
    ]  # fmt: skip
    assert pl.read_parquet(path).rows() == [(0, 0, "ä", 5, 1.5), (1, 3, None, 1, 2.5)]


# ---------------------------------------------------------------- plain matrices


@on_disk
@given(csr_matrices(values=finite_float32))
def test_a_matrix_is_read_as_it_was(place, matrix):
    path = str(place / "m.parquet")
    write_matrix(path, matrix)
    found = read_matrix(path)
    assert found.shape == matrix.shape
    assert oracles.rows_of(found) == oracles.rows_of(matrix)
    assert pq.read_schema(path).metadata[b"n_columns"] == str(matrix.shape[1]).encode()
    assert pq.read_table(path)["sample"].to_pylist() == list(range(matrix.shape[0]))


def test_the_features_of_a_dataset_file_are_a_matrix(tmp_path):
    X, Y = random_rows(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 10])
    found = read_matrix("file://" + dataset_files(folder, "train")[0])
    assert oracles.rows_of(found) == oracles.rows_of(X)
    assert found.shape == X.shape


def foreign(path, indices, values, width: bytes | None = b"5") -> str:
    """A matrix file as somebody else may write it."""
    table = pa.table(
        {
            "sample": pa.array(range(len(indices)), pa.int64()),
            "indices": pa.array(indices, pa.list_(pa.int32())),
            "values": pa.array(values, pa.list_(pa.float32())),
        }
    )
    pq.write_table(table.replace_schema_metadata({} if width is None else {"n_columns": width}), path)
    return str(path)


def test_a_foreign_file_is_sorted(tmp_path):
    found = read_matrix(foreign(tmp_path / "m", [[3, 1], [], [4]], [[3.0, 1.0], [], [4.0]]))
    assert found.indices.tolist() == [1, 3, 4]
    assert found.data.tolist() == [1, 3, 4]
    assert found.indptr.tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize(
    ("indices", "values", "width", "says"),
    [
        ([[0], [1, 2]], [[1.0], [1.0]], b"5", "indices and values of a row have different lengths"),
        ([[0, 1], [2]], [[1.0], [1.0, 1.0]], b"5", "indices and values of a row have different lengths"),
        ([[0], None], [[1.0], []], b"5", "a null among indices or values"),
        ([[0], [None]], [[1.0], [1.0]], b"5", "a null among indices or values"),
        ([[0], [1]], [[1.0], [None]], b"5", "a null among indices or values"),
        ([[0], [5]], [[1.0], [1.0]], b"5", "a column index outside 0..4"),
        ([[0], [-1]], [[1.0], [1.0]], b"5", "a column index outside 0..4"),
        ([[0, 0]], [[1.0, 1.0]], b"5", "an entry twice"),
        ([[0]], [[float("nan")]], b"5", "not finite"),
        ([[0]], [[1.0]], None, "without its number of columns"),
        ([[0]], [[1.0]], b"wide", "without its number of columns"),
    ],
)
def test_a_foreign_file_that_is_wrong(tmp_path, indices, values, width, says):
    path = foreign(tmp_path / "m", indices, values, width)
    with pytest.raises(DataError) as caught:
        read_matrix(path)
    assert says in caught.value.what
    assert path in caught.value.what + caught.value.where


def test_the_row_with_different_lengths_is_named(tmp_path):
    path = foreign(tmp_path / "m", [[0], [], [1, 2]], [[1.0], [], [1.0]])
    with pytest.raises(DataError) as caught:
        read_matrix(path)
    assert caught.value.where == f"{path}, row 2"


# ---------------------------------------------------------------- what is not ours


def test_wrong_columns_are_named(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"sample": [1], "indices": [["a"]], "more": [1.5]}), path)
    with pytest.raises(DataError, match="without the columns indices, values") as caught:
        read_matrix(str(path))
    assert caught.value.where == str(path)
    assert caught.value.why.startswith("it has sample int64, indices list<")
    assert "more double" in caught.value.why
    assert "values list<item: float>" in caught.value.fix


@pytest.mark.parametrize("harm", [lambda raw: b"", lambda raw: b"PAR1", lambda raw: raw[:-9], lambda raw: b"no" * 999])
def test_what_is_no_parquet_file(tmp_path, harm):
    path = tmp_path / "m.parquet"
    write_matrix(str(path), random_rows(5)[0])
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(DataError, match="not a whole Parquet file") as caught:
        read_matrix(str(path))
    assert caught.value.where == str(path)


def test_a_flipped_byte_inside_a_file_changes_no_number(tmp_path):
    """Pages carry checksums; what is no page holds no number."""
    path, matrix = tmp_path / "m.parquet", random_rows(60)[0]
    write_matrix(str(path), matrix)
    content, refused = path.read_bytes(), 0
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for position in range(4, footer, 5):
        changed = bytearray(content)
        changed[position] ^= 4
        path.write_bytes(changed)
        try:
            assert oracles.rows_of(read_matrix(str(path))) == oracles.rows_of(matrix)
        except DataError as error:
            assert "not a whole Parquet file" in error.what  # noqa: PT017 - either way is right
            refused += 1
    assert refused > footer / 5 / 2


def test_a_missing_file(tmp_path):
    X, Y = random_rows(5)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 5])
    (path,) = dataset_files(folder, "train")
    (tmp_path / "d/split=train/part-00000.parquet").unlink()
    with pytest.raises(DataError, match="a Parquet file is missing") as caught:
        read_split(folder)
    assert caught.value.where == path


def test_rows_that_do_not_agree_with_dataset_json(tmp_path):
    X, Y = random_rows(8)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 5, 8])
    about = read_about(folder)
    del about["splits"]["train"]["parts"][1]
    (tmp_path / "d/split=train/part-00001.parquet").unlink()
    (tmp_path / "d/dataset.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match="split 'train' has 5 rows") as caught:
        read_split(folder)
    assert caught.value.why == "dataset.json says 8"


def test_what_is_no_dataset(tmp_path):
    with pytest.raises(DataError, match="no emitted dataset in"):
        read_split(str(tmp_path))
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        read_split(str(tmp_path))
    for content in ("[]", "{}"):
        (tmp_path / "dataset.json").write_text(content)
        with pytest.raises(DataError, match="has not the expected content"):
            read_split(str(tmp_path))
    X, Y = random_rows(5)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 5])
    with pytest.raises(DataError, match="no split 'dev'") as caught:
        list(iterate_rows(folder, "dev"))
    assert caught.value.why == "it has train"


def test_more_entries_than_a_list_can_count():
    huge = Triple(np.array([0, 2**31]), np.zeros(0, np.int32), np.zeros(0, np.float32))
    with pytest.raises(DataError, match="2,147,483,648 entries in one file") as caught:
        write_dataset_part("never", np.zeros(1), huge, huge, n_features=1, n_labels=1, row_group=1)
    assert "part_rows" in caught.value.fix


def test_further_columns_are_the_same_bytes_however_they_are_chunked(tmp_path):
    ids = pa.array([f"{number:0500d}" for number in range(6000)])
    rows = Triple(np.zeros(6001, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    found = []
    for number, cuts in enumerate(([0, 6000], [0, 700, 4100, 6000])):
        chunks = pa.chunked_array([ids.slice(start, stop - start) for start, stop in pairwise(cuts)])
        path = str(tmp_path / f"{number}.parquet")
        sizes = {"n_features": 1, "n_labels": 1, "row_group": 6000}
        found.append(write_dataset_part(path, np.arange(6000), rows, rows, **sizes, beside={"id": chunks})["sha256"])
        assert pq.ParquetFile(path).read()["id"].to_pylist() == ids.to_pylist()
    assert found[0] == found[1]


# ---------------------------------------------------------------- candidates


def with_candidates(n_rows):
    X, Y = random_rows(n_rows)
    more = random_rows(n_rows, seed=1)[1]
    more = sp.csr_matrix(more - more.multiply(Y > 0), dtype=np.float32)
    more.eliminate_zeros()
    more.sort_indices()
    return X, Y, more


def test_candidates_are_labels_only_where_they_are_asked_for(tmp_path):
    X, Y, more = with_candidates(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 7, 10], candidates=more)
    assert oracles.rows_of(read_split(folder)[1]) == oracles.rows_of(Y)
    soft = [labels for _, _, _, labels in iterate_groups(folder, "train", soft=True)]
    both = [{**row, **likely} for row, likely in zip(oracles.rows_of(Y), oracles.rows_of(more), strict=True)]
    assert [row for labels in soft for row in oracles.rows_of(labels)] == both
    plain = write_dataset(tmp_path / "plain", X, Y, [0, 7, 10])
    labels = [labels for _, _, _, labels in iterate_groups(plain, "train", soft=True)]  # it has none
    assert [row for rows in labels for row in oracles.rows_of(rows)] == oracles.rows_of(Y)


def test_candidates_that_are_counted_must_be_there(tmp_path):
    X, Y, _ = with_candidates(10)
    folder = write_dataset(tmp_path / "d", X, Y, [0, 10])
    about = json.loads((tmp_path / "d" / "dataset.json").read_text())
    (tmp_path / "d" / "dataset.json").write_text(json.dumps({**about, "candidates": 3}))
    assert read_split(folder)[1].nnz == Y.nnz
    with pytest.raises(DataError, match="candidates"):
        list(iterate_groups(folder, "train", soft=True))
    (tmp_path / "d" / "dataset.json").write_text(json.dumps({**about, "candidates": -1}))
    with pytest.raises(DataError, match="candidates"):
        read_split(folder)
