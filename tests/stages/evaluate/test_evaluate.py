"""Stage evaluate with several models: the library's metrics for each, whoever predicts; rows without labels apart."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import bytes_below, digests, run_pipeline, write_dataset, write_pipeline
from xpipe.formats import read_xmc
from xpipe.heads import HeadModel, matrix_batches
from xpipe.metrics import ace, assess, auroc, calibration_by_frequency, ece, label_frequency, max_confidence, measure

HEADS = (
    "train.heads=[{layer: bsl, dim: 3, width: 8, epochs: 2, batch_size: 64, calibrate: none}, "
    "{layer: quasibinary, width: 8, epochs: 2, batch_size: 64}]"
)
SETTINGS = ("group=null", "emit.formats=[parquet]", "train.tree.n_trees=1", HEADS, "evaluate.k=3")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", params=["original", "cooccurrence"])
def evaluated(request, tmp_path_factory, data):
    """(summary of the stage, run folder); heads/ in the order of the file, or in an order of its own."""
    folder = tmp_path_factory.mktemp("evaluated")
    results = run_pipeline(write_pipeline(folder, data), *SETTINGS, f"emit.label_order={request.param}")
    return results["stages"][-1]["summary"], folder / "runs" / "sample"


def predictions(out, data, values):
    """Scores of the quasibinary head in the numbers of the file, straight from the saved model."""
    X, Y = read_xmc(str(data / "test.txt"))
    model = HeadModel.load(str(out / "models" / "quasibinary"))
    found = model.predict(matrix_batches(X), 5, values=values).tocoo()
    original = pq.read_table(out / "heads" / "labels.parquet")["original_label"].to_numpy()
    return sp.csr_matrix((found.data, (found.row, original[found.col])), shape=Y.shape), Y


def test_every_model_has_the_metrics_of_the_library(evaluated, data):
    summary, out = evaluated
    assert [model["name"] for model in summary["models"]] == ["tree", "bsl-3", "quasibinary"]
    written = json.loads((out / "evaluation.json").read_text())
    assert [model["name"] for model in written["models"]] == ["tree", "bsl-3", "quasibinary"]
    assert written["models"][1]["parameters"]["head"] == 9 * 3 + 11 * 3
    logits, Y = predictions(out, data, "logits")
    expected = measure(logits, Y, k=3)
    own = written["models"][2]["metrics"]
    np.testing.assert_allclose(own["precision"], expected.precision, atol=1e-6)
    np.testing.assert_allclose(own["macro_f1"], expected.macro_f1, atol=1e-6)
    np.testing.assert_allclose(summary["models"][2]["ndcg"], expected.ndcg, atol=1e-5)


def test_calibration_is_of_rows_with_labels_and_others_are_told_apart(evaluated, data):
    summary, out = evaluated
    chances, Y = predictions(out, data, "probabilities")
    labelled = np.diff(Y.indptr) > 0
    assert 0 < (~labelled).sum() < len(labelled)
    own = summary["models"][2]
    assert own["ece"] == pytest.approx(ece(chances[labelled], Y[labelled], 5), abs=1e-9)
    assert own["ace"] == pytest.approx(ace(chances[labelled], Y[labelled], 5), abs=1e-9)
    sure = max_confidence(chances)
    assert own["auroc"] == pytest.approx(auroc(sure[labelled], sure[~labelled]), abs=1e-9)
    assert own["zero_label_rows"] == (~labelled).sum()
    assert own["zero_label_confidence"] == pytest.approx(sure[~labelled].mean(), abs=1e-9)
    written = json.loads((out / "evaluation.json").read_text())["models"][2]["calibration"]
    assert sum(line["count"] for line in written["reliability"]) == 5 * labelled.sum()
    train = read_xmc(str(data / "train.txt"))[1]
    groups = calibration_by_frequency(chances[labelled], Y[labelled], label_frequency(train), 5)
    assert [group["predicted"] for group in written["by_frequency"]] == [group.predicted for group in groups]
    assert [group["ece"] for group in written["by_frequency"]] == pytest.approx([group.ece for group in groups])


def test_workers_change_no_byte(data, tmp_path, workers):
    one = run_pipeline(write_pipeline(tmp_path / "one", data), *SETTINGS)
    many = run_pipeline(write_pipeline(tmp_path / "many", data, cluster=workers(chunk_rows=20)), *SETTINGS)
    assert digests(one)["evaluate"][1]["evaluation"] == digests(many)["evaluate"][1]["evaluation"]
    assert bytes_below(tmp_path / "one" / "runs" / "sample") == bytes_below(tmp_path / "many" / "runs" / "sample")


def test_hidden_labels_are_in_no_split_and_leave_rows_without_labels(data, tmp_path):
    plain = run_pipeline(write_pipeline(tmp_path / "plain", data), *SETTINGS[:2])
    hidden = run_pipeline(write_pipeline(tmp_path / "hidden", data), *SETTINGS[:2], "data.hide_labels=0.5")
    found = {}
    for name in ("plain", "hidden"):
        folder = tmp_path / name / "runs" / "sample" / "heads"
        found[name] = set(pq.read_table(folder / "labels.parquet")["original_label"].to_pylist())
    assert found["hidden"] < found["plain"]
    assert 4 <= len(found["plain"] - found["hidden"]) <= 6  # six of twelve, one of which no row has
    empty = [made["stages"][0]["summary"]["rows_without_labels"] for made in (plain, hidden)]
    assert empty[1] > empty[0]


def test_nothing_predicted_has_no_calibration():
    Y = sp.csr_matrix(np.eye(3, dtype=np.float32))
    assert assess(sp.csr_matrix((3, 3), dtype=np.float32), Y, 2) == {"calibration_k": 2}
