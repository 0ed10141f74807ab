"""New rows of a table, and texts, go through the vectorizer of the run that was made from tables."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import xpipe
from tests.samples import run_pipeline
from tests.stages.predict.test_predicting import predict
from xpipe.errors import ConfigError, DataError
from xpipe.text import TableVectorizer

WORDS = {"soup": "pea carrot broth pot", "bread": "rye flour dough oven", "salad": "leaf oil vinegar bowl"}


def write_items(path, n=60, seed=0):
    """Items whose words tell their label; every third has a price."""
    generator, rows = np.random.default_rng(seed), []
    for number in range(n):
        label = list(WORDS)[number % 3]
        words, price = generator.choice(WORDS[label].split(), 3), str(number) if number % 3 else ""
        rows.append([f"i{number:03d}", " ".join(words), label, f"brand {number // 6}", price])
    with open(path, "w", newline="") as stream:
        csv.writer(stream).writerows([["sku", "title", "tags", "brand", "price"], *rows])
    return rows


@pytest.fixture(scope="module", params=["", "  columns: {price: number}\n"], ids=["texts", "texts-and-numbers"])
def table_run(request, tmp_path_factory):
    """The folder of a run from a table, and the section with further columns."""
    folder = tmp_path_factory.mktemp("table-run")
    write_items(folder / "items.csv")
    (folder / "p.yaml").write_text(
        f"name: mine\nout: {folder}/run\ndata:\n  train: {folder}/items.csv\n  id: sku\n  text: title\n  labels: tags\n"
        f'  separator: ";"\n  group: brand\n  part_rows: 16\n{request.param}vectorize: {{min_df: 1}}\n'
        "emit: {datasets: [tree]}\ntrain: {tree: {n_trees: 1, calibrate: none}}\ncluster: none\n"
    )
    run_pipeline(folder / "p.yaml")
    return folder / "run", request.param


def test_a_table_gets_its_labels_by_id_and_name(table_run, tmp_path):
    run, _ = table_run
    rows = write_items(tmp_path / "new.csv", n=40, seed=1)
    summary = predict(run, tmp_path / "new.csv", tmp_path / "found.parquet", k=1)
    found = pq.ParquetFile(tmp_path / "found.parquet").read().to_pylist()
    assert (summary.rows, summary.predictions) == (40, 40)
    assert [each["id"] for each in found] == [row[0] for row in rows]
    assert [each["row"] for each in found] == list(range(40))
    assert np.mean([each["name"] == row[2] for each, row in zip(found, rows, strict=True)]) > 0.9


def test_every_kind_of_table_gives_the_same_bytes(table_run, tmp_path):
    run, _ = table_run
    rows = write_items(tmp_path / "new.csv", n=40, seed=1)
    columns = {"sku": 0, "title": 1, "price": 4}
    kept = [{name: row[at] or None for name, at in columns.items()} for row in rows]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    pq.write_table(pa.Table.from_pylist(kept), tmp_path / "new.parquet")
    made = set()
    for kind in ("csv", "jsonl", "parquet"):
        predict(run, tmp_path / f"new.{kind}", tmp_path / "found.parquet", k=2)
        made.add((tmp_path / "found.parquet").read_bytes())
    assert len(made) == 1


def test_the_features_are_those_of_the_run(table_run, tmp_path):
    """Predicting the training table is predicting the features that the run trained on."""
    run, _ = table_run
    predict(run, run.parent / "items.csv", tmp_path / "found.parquet", k=3)
    found = pq.ParquetFile(tmp_path / "found.parquet").read()
    stored = xpipe.formats.parquet.read_split(str(run / "tree"), "train")[0]
    best = xpipe.load(str(run)).rank(stored, 3)
    assert found.column("label").to_pylist() == best.labels[best.labels >= 0].tolist()
    np.testing.assert_allclose(found.column("score").to_numpy(), best.scores[best.labels >= 0], rtol=1e-5)


def test_texts_go_through_the_vectorizer(table_run):
    run, columns = table_run
    model, texts = xpipe.load(str(run)), ["pea broth", "rye dough"]
    if columns:
        with pytest.raises(ConfigError, match="not texts alone"):
            model.predict(texts)
        return
    X = TableVectorizer.load(str(run / "vectorizer")).transform(texts)
    assert (model.predict(texts, k=1) != model.predict(X, k=1)).nnz == 0
    assert [name for ((name, _),) in model.best(texts, k=1)] == ["soup", "bread"]


def test_a_wrong_table_is_refused_and_nothing_is_written(table_run, tmp_path):
    run, _ = table_run
    (tmp_path / "new.csv").write_text("sku,titel\nx,pea\n")
    with pytest.raises(DataError, match="title"):
        predict(run, tmp_path / "new.csv", tmp_path / "found.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_a_matrix_of_features_does_as_well(table_run, tmp_path):
    run, _ = table_run
    X = sp.csr_matrix((2, xpipe.load(str(run)).n_features), dtype=np.float32)
    xpipe.formats.npz.write_matrix(str(tmp_path / "rows.npz"), X)
    assert predict(run, tmp_path / "rows.npz", tmp_path / "found.parquet", k=1).rows == 2
