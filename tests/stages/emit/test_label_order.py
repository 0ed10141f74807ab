"""The order of labels in heads/: the same rows under other numbers, fewer sign changes, the same bytes anywhere."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from tests.argmaxability.test_ordering import shuffled_topics
from tests.samples import bytes_below, digests, run_pipeline, write_pipeline
from xpipe.argmaxability import order_labels, sign_changes
from xpipe.formats import write_xmc
from xpipe.formats.parquet import read_split
from xpipe.stages.emit.facts import OrderEffect, SignChanges
from xpipe.stages.emit.label_order import count_sign_changes

ORDERED = "emit.label_order=cooccurrence"
N_UNSEEN = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Topics whose labels are scattered; the first labels never occur in training; some rows have none."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, n_rows in (("train", 240), ("test", 60)):
        Y = sp.lil_matrix(shuffled_topics(n_topics=6, size=6, n_sets=n_rows))
        Y[:, :N_UNSEEN] = 0 if name == "train" else 1
        Y[::20] = 0
        X = sp.random(n_rows, 30, 0.2, "csr", np.float32, random_state=rng)
        write_xmc(str(folder / f"{name}.txt"), X, sp.csr_matrix(Y))
    return folder


def run(folder, data, *overrides, cluster="none"):
    path = write_pipeline(folder, data, cluster=cluster)
    return run_pipeline(path, "group=null", "emit.formats=[parquet, npz]", *overrides), folder / "runs" / "sample"


def original_rows(out, split):
    """Label sets of heads/ in the numbers they were read with."""
    Y = read_split(str(out / "heads"), split)[1]
    assert (Y.has_sorted_indices, Y.has_canonical_format) == (True, True)
    labels = pl.read_parquet(out / "heads" / "labels.parquet")
    assert labels["label"].to_list() == list(range(Y.shape[1]))
    numbers = labels["original_label"].to_numpy()
    return [sorted(numbers[row.indices].tolist()) for row in Y], labels


@pytest.mark.parametrize("rows", ["keep", "drop"])
def test_rows_read_back_by_original_label_are_those_without_an_order(tmp_path, data, rows):
    setting = f"emit.rows_without_labels={rows}"
    _, plain = run(tmp_path / "plain", data, setting)
    results, ordered = run(tmp_path / "ordered", data, setting, ORDERED)
    for split in ("train", "test"):
        wanted, plain_labels = original_rows(plain, split)
        found, labels = original_rows(ordered, split)
        assert found == wanted
        assert labels["original_label"].to_list() != plain_labels["original_label"].to_list()
        assert labels.sort("original_label").drop("label").equals(plain_labels.drop("label"))
    for top in ("tree", "npz"):  # only heads/ has another order
        for name, content in bytes_below(plain / top).items():
            if name != "dataset.json":  # its provenance names the parameter
                assert bytes_below(ordered / top)[name] == content
    before = read_split(str(plain / "heads"), "train")[1]
    after = read_split(str(ordered / "heads"), "train")[1]
    about = json.loads((ordered / "heads" / "dataset.json").read_text())
    assert about["label_order"] == "cooccurrence"
    assert about["sign_changes"] == asdict(OrderEffect(count_sign_changes(before), count_sign_changes(after)))
    assert sign_changes(after).mean() < 0.6 * sign_changes(before).mean()
    assert about["sign_changes"]["after"]["smallest_k"] < about["sign_changes"]["before"]["smallest_k"]
    plain_about = json.loads((plain / "heads" / "dataset.json").read_text())
    assert plain_about["label_order"] == "original"
    assert "sign_changes" not in plain_about
    assert about["dft_initial_bias"] == plain_about["dft_initial_bias"]
    summary = next(stage for stage in results["stages"] if stage["stage"] == "emit")["summary"]
    assert summary["sign_changes"] == about["sign_changes"]


def test_the_order_is_that_of_the_library(tmp_path, data):
    _, plain = run(tmp_path / "plain", data)
    _, ordered = run(tmp_path / "ordered", data, ORDERED)
    Y = read_split(str(plain / "tree"), "train")[1]  # in the order of the rows, as the stage reads them
    order = order_labels(Y)
    kept = pl.read_parquet(plain / "heads" / "labels.parquet")["original_label"].to_numpy()
    assert (pl.read_parquet(ordered / "heads" / "labels.parquet")["original_label"].to_numpy() == kept[order]).all()


def test_workers_and_chunks_change_no_byte(tmp_path, data, workers):
    reference, out = run(tmp_path / "one", data, ORDERED)
    found, other = run(tmp_path / "many", data, ORDERED, cluster=workers(chunk_rows=50))
    assert digests(found) == digests(reference)
    assert bytes_below(other) == bytes_below(out)


def test_sign_changes_in_words():
    Y = sp.csr_matrix(np.array([[0, 1, 0, 1, 0, 1], [1, 1, 0, 0, 0, 0]], dtype=np.float32))
    assert count_sign_changes(Y) == SignChanges(mean=3.0, largest=5, smallest_k=3)
    assert count_sign_changes(Y[:0]) == SignChanges(mean=0.0, largest=0, smallest_k=0)
