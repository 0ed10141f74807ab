"""Stage vectorize in pipelines: rows as scikit-learn makes them, further columns, same bytes from any files, ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import digests, run_pipeline
from tests.stages.read.test_tables import stored
from tests.tables import recipes, table_pipeline, write_group_labels, write_table
from xpipe.errors import ConfigError
from xpipe.formats import write_sparse
from xpipe.formats.parquet import read_split
from xpipe.stages.matrices import MatrixRef, load_matrix, open_matrix
from xpipe.text import TableVectorizer

TRAIN, TEST = recipes(50), recipes(18, first=100, seed=1)
SECTIONS = ("vectorize: {min_df: 2, max_df: 0.9}", "group: {rule: given}", "emit: {row_group: 8}")
COLUMNS = {"price": "number", "colour": "category"}


def text_of(row):
    return "\n".join(filter(None, [row["title"], row["description"]]))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, results) of a run over Parquet tables with further columns."""
    folder = tmp_path_factory.mktemp("run")
    data = {"train": write_table(folder / "a.parquet", TRAIN), "test": write_table(folder / "b.parquet", TEST)}
    data = {**{name: str(path) for name, path in data.items()}, "columns": COLUMNS}
    return folder, run_pipeline(table_pipeline(folder, data, *SECTIONS))


def test_features_are_those_of_scikit_learn_and_of_the_columns(run):
    sklearn = pytest.importorskip("sklearn.feature_extraction.text")
    folder, _ = stored(run[1], "vectorize")
    peer = sklearn.TfidfVectorizer(min_df=2, max_df=0.9, sublinear_tf=True)
    wanted = peer.fit_transform([text_of(row) for row in TRAIN])
    X = load_matrix(MatrixRef(folder, "features"))
    n_terms = wanted.shape[1]
    assert abs(X[:, :n_terms] - wanted).max() < 1e-6
    names = ["price", "price is missing", "colour=green", "colour=red", "colour is missing"]
    assert TableVectorizer.load(f"{folder}/vectorizer/vectorizer").columns.names() == names
    own = X[:, n_terms:].toarray()
    assert own[:, 0] == pytest.approx([(row["price"] or 0) / 10 for row in TRAIN])
    assert own[:, 1].tolist() == [float(row["price"] is None) for row in TRAIN]
    for place, colour in ((2, "green"), (3, "red"), (4, None)):
        assert own[:, place].tolist() == [float(row["colour"] == colour) for row in TRAIN]


def test_the_vectorizer_of_a_run_gives_the_stored_rows(run):
    folder, _ = stored(run[1], "vectorize")
    vectorizer = TableVectorizer.load(f"{run[0]}/runs/table/vectorizer")
    texts = pa.array([text_of(row) for row in TEST])
    numbers = {"price": pa.array([row["price"] for row in TEST], pa.float64())}
    found = vectorizer.transform(texts, numbers, {"colour": pa.array([row["colour"] for row in TEST], pa.string())})
    stored_rows = open_matrix(MatrixRef(folder, "features"), "test").load()
    assert found.shape == (18, vectorizer.n_features)
    assert np.array_equal(found.indices, stored_rows.indices)
    assert np.array_equal(found.data, stored_rows.values)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_other_files_give_the_same_datasets(run, ending, tmp_path):
    for number, rows in enumerate((TRAIN[:11], TRAIN[11:])):
        write_table(tmp_path / f"train{number}.{ending}", rows)
    test = write_table(tmp_path / f"test.{ending}", TEST)
    data = {"train": f"{tmp_path}/train?.{ending}", "test": str(test), "columns": COLUMNS}
    results = run_pipeline(table_pipeline(tmp_path, data, *SECTIONS))
    for stage in ("vectorize", "group", "emit"):
        assert digests(results)[stage] == digests(run[1])[stage]


def test_emitted_rows_have_ids_and_groups_in_any_order(run):
    own = {row["sku"]: row for row in [*TRAIN, *TEST]}
    for dataset, split, n_rows in (("tree", "train", 50), ("heads", "train", 50), ("heads", "test", 18)):
        parts = sorted(Path(run[0], "runs/table", dataset, "rows", f"split={split}").glob("*.parquet"))
        rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts]).to_pylist()
        assert len(rows) == n_rows
        first = 0 if split == "train" else 100
        assert all(row["id"] == f"s{row['sample'] + first}" for row in rows)
        assert all(row["group"] == [own[row["id"]]["brand"]] for row in rows)
    assert [row["sample"] for row in rows] == list(range(18))
    X, _ = read_split(f"{run[0]}/runs/table/heads", "train")
    assert X.shape[0] == 50


def test_rows_without_labels_are_dropped_with_their_ids(run):
    path = Path(run[0], "table.yaml")
    run_pipeline(path, "group=null", "emit.rows_without_labels=drop", f"out={run[0]}/runs/dropped")
    parts = sorted(Path(run[0], "runs/dropped/tree/rows/split=train").glob("*.parquet"))
    ids = [text for part in parts for text in pq.ParquetFile(part).read()["id"].to_pylist()]
    assert ids == [row["sku"] for row in TRAIN if row["tags"]]


def test_groups_of_the_table_are_given_groups(run):
    folder, _ = stored(run[1], "group")
    Y1, Y2 = (load_matrix(MatrixRef(folder, name)) for name in ("membership", "group_labels"))
    Y = load_matrix(MatrixRef(stored(run[1])[0], "labels"))
    assert Y1.shape == (50, 13)
    assert ((Y1.T @ Y) > 0).toarray().tolist() == (Y2 > 0).toarray().tolist()


def test_labels_of_groups_alone_are_enough(tmp_path):
    data = {
        "train": str(write_table(tmp_path / "train.jsonl", TRAIN)),
        "group_labels": str(write_group_labels(tmp_path / "brands.csv", TRAIN)),
        "labels": None,
    }
    results = run_pipeline(table_pipeline(tmp_path, data, "vectorize: {min_df: 1}", "emit: {datasets: [tree]}"))
    _, Y = read_split(f"{tmp_path}/runs/table/tree")
    assert results["stages"][-1]["summary"]["labels_from"].startswith("every label of a sample's groups")
    assert (np.diff(Y.indptr) > 0).all()


def test_texts_by_line_become_features(tmp_path):
    (tmp_path / "X.trn.txt").write_text("pea soup\nrye bread\npea bread\n")
    write_sparse(str(tmp_path / "Y.trn.npz"), sp.csr_matrix(np.eye(3, dtype=np.float32)))
    path = tmp_path / "raw.yaml"
    path.write_text(
        f"{{name: raw, data: {{dir: {tmp_path}}}, vectorize: {{min_df: 1, max_df: 1.0}}, emit: {{datasets: [tree]}}, "
        f"cluster: none, backend: cpu, out: {tmp_path}/runs/raw}}"
    )
    run_pipeline(path)
    X, Y = read_split(f"{tmp_path}/runs/raw/tree")
    assert X.shape == (3, 4)
    assert Y.toarray().tolist() == np.eye(3).tolist()


def test_columns_alone_are_enough_and_a_vocabulary_that_is_empty_is_not(tmp_path):
    train = str(write_table(tmp_path / "train.csv", TRAIN))
    data = {"train": train, "text": None, "columns": {"colour": "category"}}
    results = run_pipeline(table_pipeline(tmp_path, data, "vectorize: {}"))
    assert results["stages"][1]["summary"]["n_features"] == 3
    with pytest.raises(ConfigError, match="min_df"):
        run_pipeline(table_pipeline(tmp_path, {"train": train}, "vectorize: {min_df: 40}"))


def test_options_out_of_range_are_told_with_their_line(tmp_path):
    train = str(write_table(tmp_path / "train.csv", TRAIN))
    with pytest.raises(ConfigError, match=r"table\.yaml:3: `vectorize` is not right: `ngrams` must not go down"):
        run_pipeline(table_pipeline(tmp_path, {"train": train}, "vectorize: {ngrams: [2, 1]}"))
