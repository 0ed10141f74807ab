"""labels.parquet and dataset.json: propensities and bias by their formulas, every documented fact in its place."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from xpipe.ground import files
from xpipe.metrics.propensity import propensity_formula
from xpipe.stages.emit.dataset_json import describe_dataset, initial_bias, label_names
from xpipe.stages.emit.work import FREQUENCY


@given(st.lists(st.integers(1, 10**6), max_size=20), st.integers(1, 10**7), st.floats(0.1, 2), st.floats(0.1, 5))
def test_inverse_propensities(frequency, n_rows, a, b):
    found = propensity_formula(np.array(frequency, dtype=np.int64), n_rows, a, b)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, oracles.inverse_propensities(frequency, n_rows, a, b), rtol=1e-12, atol=1e-12)


def test_a_label_seen_once_has_the_inverse_propensity_log_n():
    """With N_l = 1 the powers cancel: 1 + (log N - 1) = log N, whatever A and B are."""
    for a, b in ((0.55, 1.5), (0.5, 0.4), (0.6, 2.6)):
        assert propensity_formula(np.array([1]), 15_539, a, b)[0] == pytest.approx(math.log(15_539), rel=1e-12)


@given(st.integers(2, 10**6), st.data())
def test_the_initial_bias_starts_training_at_k_of_n(n_labels, data):
    k = data.draw(st.integers(1, n_labels - 1))
    logit = initial_bias(n_labels, k) / math.sqrt(n_labels)
    assert 1 / (1 + math.exp(-logit)) == pytest.approx(k / n_labels, rel=1e-9)


@pytest.mark.parametrize(("n_labels", "k"), [(0, 0), (5, 0), (5, 5), (5, 6)])
def test_no_initial_bias_where_there_is_none(n_labels, k):
    assert initial_bias(n_labels, k) is None


FACTS = {
    "rows": {"train": 9, "test": 4},
    "labels_kept": 3,
    "k": 2,
    "k_percentiles": {"50": 1.0},
    "labels_a_row": 1.25,
    "filtered": {"labels_without_positives": 2},
}


@pytest.fixture
def shared(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([4, 0, 1, 0, 7]))
    files.write_bytes(str(tmp_path / "emit" / FREQUENCY), buffer.getvalue())
    return {
        "names": [str(tmp_path / "read"), "names"],
        "facts": FACTS,
        "params": {"propensity_a": 0.5, "propensity_b": 1.0, "label_order": "original"},
        "n_features": 20,
        "n_labels": 5,
        "train_labels": {"sentence": "the labels as read", "scores": "none"},
        "synthetic": True,
    }


def unit(dataset: str) -> dict:
    parts = [
        {"path": f"datasets/{dataset}/split={split}/part-{index:05d}.parquet", "split": split, "rows": rows,
         "bytes": 10 * rows, "sha256": f"digest {split} {index}", "dataset": dataset}
        for split, index, rows in (("train", 0, 5), ("train", 1, 4), ("test", 0, 4))
    ]  # fmt: skip
    return {"unit": dataset, "parts": parts, "provenance": {"seed": 3}}


def describe(tmp_path, shared, dataset: str) -> tuple[dict, pl.DataFrame, dict]:
    folder = str(tmp_path / "emit")
    entries, summary = describe_dataset(folder, unit(dataset), shared)
    assert [entry["path"] for entry in entries] == [
        f"datasets/{dataset}/labels.parquet",
        f"datasets/{dataset}/dataset.json",
    ]
    for entry in entries:
        path = files.join(folder, entry["path"])
        assert entry["sha256"] == files.sha256(path)
        assert entry["bytes"] == files.size(path)
    about = json.loads(files.read_bytes(files.join(folder, entries[1]["path"])))
    assert about["labels"] == {"path": "labels.parquet", "sha256": entries[0]["sha256"]}
    return about, pl.read_parquet(files.join(folder, entries[0]["path"])), summary


def test_labels_map_back(tmp_path, shared):
    files.write_bytes(str(tmp_path / "read/names/labels.json"), json.dumps(["a", "b", "c", "d", "ä"]).encode())
    assert label_names(shared) == ["a", "b", "c", "d", "ä"]
    _, labels, _ = describe(tmp_path, shared, "tree")
    assert labels.drop("inverse_propensity").rows() == [(0, 0, "a", 4), (1, 2, "c", 1), (2, 4, "ä", 7)]
    wanted = oracles.inverse_propensities([4, 1, 7], 9, 0.5, 1.0)
    np.testing.assert_allclose(labels["inverse_propensity"].to_numpy(), wanted, rtol=1e-12)


def test_labels_without_names(tmp_path, shared):
    assert label_names(shared) is None
    _, labels, _ = describe(tmp_path, shared, "heads")
    assert labels["name"].to_list() == [None, None, None]


def test_the_facts_of_a_dataset(tmp_path, shared):
    about, _, summary = describe(tmp_path, shared, "tree")
    digest = about.pop("labels")["sha256"]
    assert len(digest) == 64
    assert about == {
        "format": "1",
        "dataset": "tree",
        "n_features": 20,
        "n_labels": 3,
        "n_original_labels": 5,
        "splits": {
            "train": {
                "rows": 9,
                "parts": [
                    {"path": "split=train/part-00000.parquet", "rows": 5, "bytes": 50, "sha256": "digest train 0"},
                    {"path": "split=train/part-00001.parquet", "rows": 4, "bytes": 40, "sha256": "digest train 1"},
                ],
            },
            "test": {
                "rows": 4,
                "parts": [{"path": "split=test/part-00000.parquet", "rows": 4, "bytes": 40, "sha256": "digest test 0"}],
            },
        },
        "labels_from": "the labels as read",
        "label_scores": "none",
        "labels_a_row": 1.25,
        "k": 2,
        "k_percentiles": {"50": 1.0},
        "filtered": {"labels_without_positives": 2},
        "propensity": {"a": 0.5, "b": 1.0},
        "rows_normalised": True,
        "shuffled": False,
        "synthetic": True,
        "provenance": {"seed": 3},
    }
    assert summary == {"rows": {"train": 9, "test": 4}, "bytes": 130}


def test_what_heads_has_besides(tmp_path, shared):
    about, _, _ = describe(tmp_path, shared, "heads")
    assert about["rows_normalised"] is False
    assert about["shuffled"] is True
    assert about["label_order"] == "original"
    assert about["dft_initial_bias"] == pytest.approx(math.sqrt(3) * math.log(2))
