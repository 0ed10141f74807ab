"""One door for all models: the same predictions as the models themselves, by original label numbers and by names."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.sparse as sp

import xpipe
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_xmc
from xpipe.formats.parquet import read_about
from xpipe.heads import HeadModel, matrix_batches
from xpipe.trees import LabelTree

HEAD = "bsl"


@pytest.fixture(scope="module")
def X(predict_data):
    return read_xmc(str(predict_data / "test.txt"))[0]


def original_labels(run, dataset):
    from xpipe.formats.emitted import read_label_table

    return read_label_table(str(run / dataset)).original


def head_name(run):
    return next(path.parent.name for path in (run / "models").glob("*/model.safetensors"))


def test_a_tree_predicts_as_it_does_itself(predict_run, X):
    model = xpipe.load(str(predict_run), model="tree")
    found = model.predict(X, k=3)
    own = LabelTree.load(str(predict_run / "models" / "tree.npz")).predict(X, k=3)
    original = original_labels(predict_run, "tree")
    assert found.shape == (50, 12) == (50, read_about(str(predict_run / "tree"))["n_original_labels"])
    assert 3 not in found.indices  # never seen, so every later label has another number in the model
    expected = sp.csr_matrix((own.data, original[own.indices], own.indptr), shape=found.shape)
    assert (found != expected).nnz == 0
    assert found.has_sorted_indices
    assert model.kind == "tree"
    assert model.labels[5] == "label 5"
    assert len(model.labels) == 12


def test_a_head_predicts_as_it_does_itself(predict_run, X):
    name = head_name(predict_run)
    model = xpipe.load(str(predict_run), model=name)
    found = model.rank(X, k=2)
    own = HeadModel.load(str(predict_run / "models" / name)).rank(matrix_batches(X), 2)
    assert np.array_equal(found.labels, original_labels(predict_run, "heads")[own.labels])
    assert np.array_equal(found.scores, own.probabilities)
    assert model.kind == "head"
    assert model.predict(X, k=2).nnz == 100


def test_best_labels_by_name(predict_run, X):
    model = xpipe.load(str(predict_run), model="tree")
    best, ranked = model.best(X[:4], k=2), model.rank(X[:4], k=2)
    assert [[name for name, _ in row] for row in best] == [[f"label {n}" for n in row] for row in ranked.labels]
    assert all(row[0][1] >= row[1][1] for row in best)


def test_threads_and_other_rows_change_nothing(predict_run, X):
    model = xpipe.load(str(predict_run), model="tree")
    whole = model.predict(X, k=3, threads=2)
    assert (sp.vstack([model.predict(X[:7], 3, threads=1), model.predict(X[7:], 3)]).tocsr() != whole).nnz == 0
    assert model.predict(X[:0]).shape == (0, 12)


def test_a_model_by_its_path(predict_run, X, tmp_path):
    name = head_name(predict_run)
    for place in ("models/tree.npz", f"models/{name}", f"models/{name}/model.safetensors"):
        assert xpipe.load(str(predict_run / place)).labels[4] == "label 4"
    shutil.copy(predict_run / "models" / "tree.npz", tmp_path / "mine.npz")
    alone = xpipe.load(str(tmp_path / "mine.npz"))
    assert alone.name == "mine"
    assert alone.labels[4] == "4"
    assert not alone.has_names
    assert alone.predict(X, k=1).shape[1] == len(alone.labels) == 11  # its own numbers: label 3 is not among them


def test_mistakes(predict_run, X, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="has 2 models"):
        xpipe.load(str(predict_run))
    with pytest.raises(ConfigError, match="did you mean tree"):
        xpipe.load(str(predict_run), model="tre")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="is no run"):
        xpipe.load("empty")
    (tmp_path / "empty" / ".lock").touch()
    with pytest.raises(ConfigError, match="has not finished"):
        xpipe.load("empty")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "results.json").write_text("{}")
    with pytest.raises(ConfigError, match="did you mean mine"):
        xpipe.load("mime")
    with pytest.raises(ConfigError, match="trained no model"):
        xpipe.load("mine")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "table.json").write_text("{}")
    with pytest.raises(ConfigError, match="matrix of runs"):
        xpipe.load("sweep")
    with pytest.raises(DataError, match="no whole model"):
        xpipe.load(str(next((predict_run / "models").glob("*/weights.safetensors"))))
    model = xpipe.load(str(predict_run), model="tree")
    with pytest.raises(DataError, match="they have 39 features, the model tree was trained on 40"):
        model.predict(X[:, :39])
    with pytest.raises(ConfigError, match="not from texts"):
        model.predict(["a text"])
    with pytest.raises(ConfigError, match="sequence of texts"):
        model.predict("a text")
    with pytest.raises(ConfigError, match="`k` must be at least 1"):
        model.predict(X, k=0)


def test_files_that_do_not_fit_each_other(predict_run, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(predict_run, broken)
    other = LabelTree(n_trees=1).fit(sp.eye(5, 40, format="csr"), sp.eye(5, format="csr"))
    other.save(str(broken / "models" / "tree.npz"))
    with pytest.raises(DataError, match="is not of this dataset"):
        xpipe.load(str(broken), model="tree")
    (broken / "tree" / "labels.parquet").unlink()
    with pytest.raises(DataError, match=r"no tree/labels\.parquet"):
        xpipe.load(str(broken), model="tree")
