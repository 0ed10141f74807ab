"""From files to results: every format of true labels and scores, and the command line as a user meets it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import random_matrices, run_pipeline, run_xpipe, write_dataset, write_pipeline
from xpipe import metrics
from xpipe.cli.metric_tables import describe_rows
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_xmc, write_sparse, write_svmlight
from xpipe.formats.convert import convert
from xpipe.formats.parquet import read_split
from xpipe.synth.stand_in import synthesize

N_LABELS = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of XMC text, with scores of the test rows beside it."""
    folder = write_dataset(tmp_path_factory.mktemp("data") / "set")
    _, Y = read_xmc(str(folder / "test.txt"))
    S = sp.random(*Y.shape, 0.5, "csr", np.float32, random_state=np.random.default_rng(1))
    S = sp.csr_matrix(S + Y * np.float32(0.3))
    sp.save_npz(folder.parent / "scores.npz", S)
    write_sparse(str(folder.parent / "scores.parquet"), S)
    write_sparse(str(folder.parent / "scores.txt"), S)
    return folder


@pytest.fixture(scope="module")
def expected(data):
    _, train = read_xmc(str(data / "train.txt"))
    _, Y = read_xmc(str(data / "test.txt"))
    q = metrics.inverse_propensity(metrics.label_frequency(train), train.shape[0], a=0.55, b=1.5)
    return metrics.measure(sp.load_npz(data.parent / "scores.npz"), Y, 5, inverse_propensity=q)


def check(results: dict, expected: metrics.Measured, *, propensity: bool) -> None:
    for name, values in results["metrics"].items():
        np.testing.assert_allclose(values, getattr(expected, name), atol=1e-6, err_msg=name)
    assert ("psp" in results["metrics"]) == propensity
    for name in ("tied_rows", "short_rows", "rows_without_labels"):
        assert results[name] == getattr(expected, name)
    json.dumps(results, allow_nan=False)


@pytest.mark.parametrize("form", ["scores.npz", "scores.parquet", "scores.txt"])
def test_scores_in_every_format(data, expected, form):
    results = metrics.evaluate(data / "test.txt", data.parent / form, train=data / "train.txt", propensity=(0.55, 1.5))
    check(results, expected, propensity=True)
    assert results["propensity"] == {"a": 0.55, "b": 1.5}
    assert results["frequency_from"] == "training rows"
    assert results["intervals"]["precision"][0][0] < results["metrics"]["precision"][0]
    assert sum(group["labels"] for group in results["by_frequency"]) == N_LABELS


@pytest.mark.parametrize("form", ["xmc", "split", "npz", "svmlight", "parquet"])
def test_truth_in_every_format(tmp_path, data, expected, form):
    options = {"n_features": 40, "n_labels": N_LABELS, "index_base": 1} if form == "svmlight" else {}
    written = convert(str(data), str(tmp_path / "set"), form)
    folder = metrics.evaluate(tmp_path / "set", data.parent / "scores.npz", dataset="EURLex-4K", **options)
    check(folder, expected, propensity=True)
    name = {"xmc": "test.txt", "split": "tst_X_Y.txt", "svmlight": "test.svm"}.get(form, f"Y.tst.{form}")
    assert any(path.endswith(name) for path in written)
    one_file = metrics.evaluate(tmp_path / "set" / name, data.parent / "scores.npz", resamples=0, **options)
    check(one_file, expected, propensity=False)
    assert one_file["intervals"] is None
    assert one_file["frequency_from"] == "the rows measured"


def test_files_without_headers(tmp_path, expected, data):
    lines = (data / "test.txt").read_text().split("\n", 1)[1]
    (tmp_path / "test.txt").write_text(lines)
    X, Y = read_xmc(str(data / "test.txt"))
    write_svmlight(str(tmp_path / "test.svm"), X, Y, index_base=1, label_base=1)
    sizes = {"n_features": 40, "n_labels": N_LABELS}
    check(metrics.evaluate(tmp_path / "test.txt", data.parent / "scores.npz", **sizes), expected, propensity=False)
    based = metrics.evaluate(tmp_path / "test.svm", data.parent / "scores.npz", index_base=1, label_base=1, **sizes)
    check(based, expected, propensity=False)


def test_an_emitted_dataset_brings_its_propensities(tmp_path, data):
    run_pipeline(write_pipeline(tmp_path, data))
    folder = tmp_path / "runs" / "sample" / "tree"
    _, Y = read_split(str(folder), "test")
    write_sparse(str(tmp_path / "perfect.npz"), Y)
    results = metrics.evaluate(folder, tmp_path / "perfect.npz", k=N_LABELS)
    assert results["labels"] == N_LABELS - 1  # one without positives was filtered
    assert results["propensity"] == {"a": 0.55, "b": 1.5}
    assert results["metrics"]["psp"][-1] == pytest.approx(1)
    assert results["frequency_from"] == "training rows"
    part = next((folder / "rows" / "split=test").glob("*.parquet"))
    with pytest.raises(DataError, match="one part of an emitted dataset"):
        metrics.evaluate(part, tmp_path / "perfect.npz")


def test_parquet_that_others_write(tmp_path, data, expected):
    S = sp.load_npz(data.parent / "scores.npz")
    order = np.random.default_rng(0).permutation(S.shape[0])
    rows = [(S[row].indices[::-1].tolist(), S[row].data[::-1].astype(float).tolist()) for row in order]
    columns = {"sample": order, "indices": [labels for labels, _ in rows], "values": [values for _, values in rows]}
    table = pa.table(columns, schema=None)  # list<int64> and list<double>
    pq.write_table(table, tmp_path / "scores.parquet", row_group_size=17)
    results = metrics.evaluate(data / "test.txt", tmp_path / "scores.parquet", resamples=0)
    check(results, expected, propensity=False)
    pq.write_table(table.drop(["sample"]).take(np.argsort(order)), tmp_path / "plain.parquet")
    check(metrics.evaluate(data / "test.txt", tmp_path / "plain.parquet", resamples=0), expected, propensity=False)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"indices": [[0]], "scores": [[1.0]]}, "the columns are indices, scores"),
        ({"indices": [[0, 1]], "values": [[1.0]]}, "different lengths"),
        ({"indices": [[12]], "values": [[1.0]]}, "label 12, but labels are 0..11"),
        ({"indices": [[-1]], "values": [[1.0]]}, "label -1, but labels are 0..11"),
        ({"indices": [[0]], "values": [[None]]}, "a null among the scores"),
        ({"indices": [None], "values": [[1.0]]}, "a null among the scores"),
        ({"indices": [[0]], "values": [[float("nan")]]}, "not finite as float32: nan"),
        ({"indices": [[3, 3]], "values": [[1.0, 2.0]]}, "has an entry twice"),
        ({"indices": [["a"]], "values": [[1.0]]}, "cannot be read as lists of numbers"),
        ({"indices": [[0], [1]], "values": [[1.0], [1.0]], "sample": [0, 0]}, "sample 0 where 1 should be"),
        ({"indices": [[0]], "values": [[1.0]]}, "1 rows x 12 labels, true labels 80 x 12"),
    ],
)
def test_wrong_parquet(tmp_path, data, columns, words):
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    with pytest.raises(DataError) as caught:
        metrics.evaluate(data / "test.txt", tmp_path / "scores.parquet")
    assert words in str(caught.value)
    assert "scores.parquet" in str(caught.value)
    assert caught.value.fix


def test_wrong_files_and_options(tmp_path, data):
    truth, scores = data / "test.txt", data.parent / "scores.npz"
    write_sparse(str(tmp_path / "wide.parquet"), sp.csr_matrix((80, 13), dtype=np.float32))
    write_sparse(str(tmp_path / "train_X_Y.txt"), sp.csr_matrix((9, 13), dtype=np.float32))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not for long")
    bad = sp.load_npz(scores)
    bad.data[0] = np.nan
    sp.save_npz(tmp_path / "nan.npz", bad)
    for arguments, options, kind, words in [
        ((truth, tmp_path / "nan.npz"), {}, DataError, "not finite"),
        ((truth, tmp_path / "wide.parquet"), {}, DataError, "over 13 labels, true labels over 12"),
        ((truth, tmp_path / "broken.parquet"), {}, DataError, "not a whole Parquet file"),
        ((truth, tmp_path / "nowhere.parquet"), {}, DataError, "no such file"),
        ((data, scores), {"split": "dev"}, DataError, "it has train, test"),
        ((truth, scores), {"train": tmp_path / "train_X_Y.txt"}, DataError, "not the same labels"),
        ((truth, scores), {"dataset": "EURLex-4K"}, ConfigError, "need the labels of the training rows"),
        ((truth, scores), {"dataset": "EURLex-4K", "propensity": (1, 1)}, ConfigError, "given twice"),
        ((truth, scores), {"dataset": "nobody's"}, ConfigError, "no usual propensity constants"),
    ]:
        with pytest.raises(kind) as caught:
            metrics.evaluate(*arguments, **options)
        assert words in str(caught.value)


def test_filters_thresholds_and_removed_rows(tmp_path, data):
    truth, scores = data / "test.txt", data.parent / "scores.npz"
    _, Y = read_xmc(str(truth))
    rows, labels = Y.nonzero()
    (tmp_path / "filter.txt").write_text(f"{rows[0]} {labels[0]}\n{rows[5]} {labels[5]}\n0 3\n")
    results = metrics.evaluate(
        truth, scores, filter_labels=tmp_path / "filter.txt", remove_empty=True, threshold=0.5, resamples=10
    )
    assert (results["filter_pairs"], results["filtered_true"]) == (3, 2)
    assert results["rows_measured"] == 80 - results["rows_without_labels"]
    assert results["rows_removed"] == results["rows_without_labels"] > 0
    pairs = [[rows[0], labels[0]], [rows[5], labels[5]], [0, 3]]
    by_hand = metrics.f1_above(sp.load_npz(scores), Y, 0.5, filter_labels=pairs, remove_empty=True)
    assert results["threshold"] == {"threshold": 0.5, **by_hand._asdict()}


def test_the_command(tmp_path, data, expected):
    arguments = ["evaluate", "--truth", data / "test.txt", "--scores", data.parent / "scores.npz"]
    out = tmp_path / "results.json"
    options = ["--train", data / "train.txt", "--propensity", "0.55", "1.5", "--threshold", "0.5", "--out", out]
    code, output = run_xpipe(*arguments, *options)
    assert code == 0, output
    check(json.loads(out.read_text()), expected, propensity=True)
    for name in ("precision", "psp", "ndcg", "coverage"):
        assert f"{100 * getattr(expected, name)[2]:.2f}" in output
    for words in ("PSnDCG", "with 95% intervals", "labels by frequency in training rows", "scores from 0.5 on"):
        assert words in output
    assert f"{expected.rows_without_labels} rows without true labels: counted as misses" in output
    assert "no PSP" not in output
    code, output = run_xpipe(*arguments, "--resamples", "0", "-k", "2", "--remove-empty")
    assert code == 0, output
    assert "no PSP: it needs training labels (--train)" in output
    assert "left out" in output
    assert "@3" not in output


def test_stand_ins_are_called_synthetic(tmp_path):
    synthesize("tiny", str(tmp_path / "tiny"), 0)
    _, Y = read_xmc(str(tmp_path / "tiny" / "test.txt"))
    write_sparse(str(tmp_path / "scores.npz"), Y)
    assert metrics.evaluate(tmp_path / "tiny", tmp_path / "scores.npz", resamples=0)["synthetic"]
    code, output = run_xpipe("evaluate", "--truth", tmp_path / "tiny" / "test.txt", "--scores", tmp_path / "scores.npz")
    assert code == 0, output
    assert "SYNTHETIC" in output
    assert "100.00" in output


def test_an_error_of_the_command(tmp_path, data):
    write_sparse(str(tmp_path / "short.npz"), sp.csr_matrix((79, N_LABELS), dtype=np.float32))
    code, output = run_xpipe("evaluate", "--truth", data / "test.txt", "--scores", tmp_path / "short.npz")
    assert code == 3
    assert "scores are 79 rows x 12 labels, true labels 80 x 12" in output
    assert "Traceback" not in output


def test_odd_rows_are_named(tmp_path):
    _, Y = random_matrices(30)
    write_sparse(str(tmp_path / "Y.npz"), Y)
    write_sparse(str(tmp_path / "ones.npz"), sp.csr_matrix(np.ones(Y.shape, np.float32)))
    write_sparse(str(tmp_path / "none.npz"), sp.csr_matrix(Y.shape, dtype=np.float32))
    ties = describe_rows(metrics.evaluate(tmp_path / "Y.npz", tmp_path / "ones.npz", resamples=0))
    assert "30 rows where equal scores decide about the 5 best: smaller label numbers first" in ties
    short = describe_rows(metrics.evaluate(tmp_path / "Y.npz", tmp_path / "none.npz", resamples=0))
    assert "30 rows with fewer than 5 predictions: the rest are misses" in short
    assert not any("equal scores" in line for line in short)
