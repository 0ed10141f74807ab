"""`predict_input`: one table for any input format, whatever the blocks and the cluster; nothing half written."""

from __future__ import annotations

import gzip
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import xpipe
from xpipe.cli.progress import Progress
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_xmc, write_sparse, write_svmlight, write_xmc
from xpipe.stages.predict import predicting
from xpipe.stages.predict.predicting import PredictOptions, predict_input

COLUMNS = ["row", "id", "rank", "label", "name", "score"]


def predict(run, place, out, model="tree", **options):
    with Progress(mode="quiet") as progress:
        return predict_input(str(run), str(place), str(out), model, PredictOptions(**options), progress)


@pytest.fixture(scope="module")
def whole(predict_run, predict_data, tmp_path_factory):
    """The table of the test split, as bytes."""
    out = tmp_path_factory.mktemp("whole") / "predictions.parquet"
    predict(predict_run, predict_data, out, k=3)
    return out.read_bytes()


def test_the_table_has_what_the_model_predicts(predict_run, predict_data, tmp_path):
    out = tmp_path / "deeper" / "predictions.parquet"
    summary = predict(predict_run, predict_data, out, k=3)
    table = pq.ParquetFile(out).read()
    assert table.column_names == COLUMNS
    X, _ = read_xmc(str(predict_data / "test.txt"))
    ranked = xpipe.load(str(predict_run), model="tree").rank(X, k=3)
    rows, places = np.nonzero(ranked.labels >= 0)
    assert table["row"].to_pylist() == rows.tolist()
    assert table["rank"].to_pylist() == (places + 1).tolist()
    assert table["label"].to_pylist() == ranked.labels[rows, places].tolist()
    assert table["name"].to_pylist() == [f"label {label}" for label in ranked.labels[rows, places]]
    assert table["score"].to_numpy().tolist() == ranked.scores[rows, places].tolist()
    assert set(table["id"].to_pylist()) == {None}
    assert (summary.rows, summary.predictions, summary.model) == (50, len(rows), "tree")
    assert [path.name for path in out.parent.iterdir()] == ["predictions.parquet"]  # no scratch is left


@pytest.mark.parametrize("form", ["test.txt", "test.txt.gz", "X.tst.npz", "X.parquet", "tst_X_Xf.txt", "test.svm"])
def test_every_format_gives_the_same_bytes(predict_run, predict_data, tmp_path, whole, form):
    X, Y = read_xmc(str(predict_data / "test.txt"))
    place = tmp_path / form
    if form == "test.txt":
        write_xmc(str(place), X, Y)
    elif form == "test.txt.gz":
        place.write_bytes(gzip.compress((predict_data / "test.txt").read_bytes()))
    elif form == "test.svm":
        write_svmlight(str(place), X, Y, index_base=0)
    else:
        write_sparse(str(place), X)
    predict(predict_run, place, tmp_path / "out.parquet", k=3)
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_workers_change_no_byte(predict_run, predict_data, tmp_path, whole, workers):
    address = workers()[1:-1].split(": ", 1)[1]
    predict(predict_run, predict_data, tmp_path / "out.parquet", k=3, cluster=address)
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_a_head_and_a_split(predict_run, predict_data, tmp_path):
    name = next(path.parent.name for path in (predict_run / "models").glob("*/model.safetensors"))
    summary = predict(predict_run, predict_data, tmp_path / "out.parquet", name, k=2, split="train")
    assert (summary.rows, summary.predictions) == (120, 240)
    emitted = predict(predict_run, predict_run / "heads", tmp_path / "again.parquet", name, k=2)
    assert emitted.rows == 50


def test_a_threshold_leaves_out_what_is_below_it(predict_run, predict_data, tmp_path):
    predict(predict_run, predict_data, tmp_path / "all.parquet", k=5)
    scores = pq.ParquetFile(tmp_path / "all.parquet").read()["score"].to_numpy()
    middle = float(np.median(scores))
    predict(predict_run, predict_data, tmp_path / "some.parquet", k=5, threshold=middle)
    kept = pq.ParquetFile(tmp_path / "some.parquet").read()["score"].to_numpy()
    assert kept.tolist() == scores[scores >= np.float32(middle)].tolist()
    predict(predict_run, predict_data, tmp_path / "none.parquet", k=5, threshold=1.0)
    empty = pq.ParquetFile(tmp_path / "none.parquet").read()
    assert (empty.column_names, empty.num_rows) == (COLUMNS, int((scores >= 1).sum()))


def test_mistakes_leave_nothing(predict_run, predict_data, tmp_path, monkeypatch):
    out = tmp_path / "out.parquet"
    narrow = tmp_path / "narrow.npz"
    write_sparse(str(narrow), read_xmc(str(predict_data / "test.txt"))[0][:, :30])
    with pytest.raises(DataError, match="they have 30 features, the model tree was trained on 40"):
        predict(predict_run, narrow, out)
    with pytest.raises(DataError, match="no such input"):
        predict(predict_run, tmp_path / "nowhere", out)
    with pytest.raises(ConfigError, match="no split 'dev'"):
        predict(predict_run, predict_data, out, split="dev")
    with pytest.raises(ConfigError, match="no cluster 'lokal'"):
        predict(predict_run, predict_data, out, cluster="lokal")
    with pytest.raises(ConfigError, match="`threshold`"):
        predict(predict_run, predict_data, out, threshold=2.0)

    def fail(*_):
        raise DataError("the disk is full")

    monkeypatch.setattr(predicting, "join_blocks", fail)
    with pytest.raises(DataError, match="full"):
        predict(predict_run, predict_data, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["narrow.npz"]


def test_a_stand_in_says_so(predict_run, predict_data, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(predict_run, run)
    assert not predict(run, predict_data, tmp_path / "real.parquet").synthetic
    (run / "results.json").write_text(
        (run / "results.json").read_text().replace('"synthetic": false', '"synthetic": true')
    )
    assert predict(run, predict_data, tmp_path / "out.parquet").synthetic
    told = [
        pq.ParquetFile(tmp_path / name).schema_arrow.metadata.get(b"synthetic")
        for name in ("real.parquet", "out.parquet")
    ]
    assert told == [None, b"true"]


def test_a_damaged_run_is_named(predict_run, predict_data, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(predict_run, broken)
    (broken / "results.json").write_text('{"synthetic": false, "pipeline": {"data": {"dir": 7}, "cluster": {}}}')
    with pytest.raises(DataError, match="settings of the run"):
        predict(broken, predict_data, tmp_path / "out.parquet")
