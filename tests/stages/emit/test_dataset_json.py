"""labels.parquet and dataset.json: propensities and bias by their formulas, every documented fact in its place."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from xpipe.engine.messages import FileEntry
from xpipe.ground import files
from xpipe.metrics.propensity import propensity_formula
from xpipe.stages.arrays import write_array
from xpipe.stages.emit.dataset_json import (
    DatasetSize,
    Provenance,
    WrittenDataset,
    describe_dataset,
    initial_bias,
    label_names,
)
from xpipe.stages.emit.facts import EmitFacts, EmitInputs, LabelSource, LabelSurvey, OrderEffect, SignChanges
from xpipe.stages.emit.label_survey import FREQUENCY
from xpipe.stages.emit.params import EmitParams
from xpipe.stages.emitted_paths import label_vectors_path, rows_path
from xpipe.stages.matrices import MatrixRef


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


SURVEY = LabelSurvey(
    rows={"train": 9, "test": 4},
    labels_kept=3,
    labels_filtered=2,
    k=2,
    k_percentiles={"50": 1.0},
    labels_per_row=1.25,
    unseen={"test": 6},
    empty_rows={"train": 1, "test": 0},
    drops_empty_rows=False,
)
PROVENANCE = Provenance(inputs={"features": "digest"}, parameters={"k": [1]}, seed=3, versions={"xpipe": "1"})


@pytest.fixture
def shared(tmp_path):
    write_array(str(tmp_path / "emit"), FREQUENCY, np.array([4, 0, 1, 0, 7]))
    labels = MatrixRef(str(tmp_path / "read"), "labels")
    inputs = EmitInputs(
        features=MatrixRef(str(tmp_path / "read"), "features"),
        train_labels=LabelSource(labels, None, "none", "the labels as read"),
        held_out_labels=labels,
        names=MatrixRef(str(tmp_path / "read"), "names"),
        synthetic=True,
        n_features=20,
        n_labels=5,
        splits=("train", "test"),
        seed=3,
        params=EmitParams(propensity_a=0.5, propensity_b=1.0),
    )
    return EmitFacts(inputs, SURVEY)


def unit(dataset: str) -> WrittenDataset:
    parts = [
        FileEntry(
            rows_path(dataset, split, index), 10 * rows, f"digest {split} {index}", split=split, rows=rows,
            dataset=dataset,
        )
        for split, index, rows in (("train", 0, 5), ("train", 1, 4), ("test", 0, 4))
    ]  # fmt: skip
    return WrittenDataset(dataset, 0, tuple(parts), (), PROVENANCE)


def describe(tmp_path, shared, written: WrittenDataset) -> tuple[dict, pl.DataFrame, DatasetSize]:
    folder = str(tmp_path / "emit")
    finished = describe_dataset(folder, written, shared)
    labels, dataset_json, card, croissant = finished.files
    assert labels.path == f"datasets/{written.name}/labels.parquet"
    assert dataset_json.path == f"datasets/{written.name}/dataset.json"
    assert {card.path, croissant.path} == {
        f"datasets/{written.name}/{name}" for name in ("README.md", "croissant.json")
    }
    for entry in finished.files:
        path = files.join(folder, entry.path)
        assert entry.sha256 == files.sha256(path)
        assert entry.bytes == files.size(path)
    about = json.loads(files.read_bytes(files.join(folder, dataset_json.path)))
    assert about["labels"] == {"path": "labels.parquet", "sha256": labels.sha256}
    return about, pl.read_parquet(files.join(folder, labels.path)), finished.result


def test_labels_map_back(tmp_path, shared):
    files.write_bytes(str(tmp_path / "read/names/labels.json"), json.dumps(["a", "b", "c", "d", "ä"]).encode())
    assert label_names(shared.inputs.names) == ["a", "b", "c", "d", "ä"]
    _, labels, _ = describe(tmp_path, shared, unit("tree"))
    assert labels.drop("inverse_propensity").rows() == [(0, 0, "a", 4), (1, 2, "c", 1), (2, 4, "ä", 7)]
    wanted = oracles.inverse_propensities([4, 1, 7], 9, 0.5, 1.0)
    np.testing.assert_allclose(labels["inverse_propensity"].to_numpy(), wanted, rtol=1e-12)


def test_labels_without_names(tmp_path, shared):
    assert label_names(shared.inputs.names) is None
    _, labels, _ = describe(tmp_path, shared, unit("heads"))
    assert labels["name"].to_list() == [None, None, None]


def test_the_facts_of_a_dataset(tmp_path, shared):
    about, _, size = describe(tmp_path, shared, unit("tree"))
    digest = about.pop("labels")["sha256"]
    assert len(digest) == 64
    assert about == {
        "format": "2",
        "dataset": "tree",
        "n_features": 20,
        "n_labels": 3,
        "n_original_labels": 5,
        "splits": {
            "train": {
                "rows": 9,
                "parts": [
                    {"path": "rows/split=train/part-00000.parquet", "rows": 5, "bytes": 50, "sha256": "digest train 0"},
                    {"path": "rows/split=train/part-00001.parquet", "rows": 4, "bytes": 40, "sha256": "digest train 1"},
                ],
            },
            "test": {
                "rows": 4,
                "parts": [
                    {"path": "rows/split=test/part-00000.parquet", "rows": 4, "bytes": 40, "sha256": "digest test 0"}
                ],
            },
        },
        "labels_from": "the labels as read",
        "label_scores": "none",
        "labels_a_row": 1.25,
        "k": 2,
        "k_percentiles": {"50": 1.0},
        "filtered": {
            "labels_without_positives": 2,
            "held_out_occurrences_of_these": {"test": 6},
            "rows_without_labels": {"action": "kept", "train": 1, "test": 0},
        },
        "propensity": {"a": 0.5, "b": 1.0},
        "rows_normalised": True,
        "shuffled": False,
        "synthetic": True,
        "provenance": {
            "inputs": {"features": "digest"},
            "parameters": {"k": [1]},
            "seed": 3,
            "versions": {"xpipe": "1"},
        },
    }
    assert size == DatasetSize({"train": 9, "test": 4}, 130)


def test_label_vectors_are_listed(tmp_path, shared):
    vectors = (FileEntry(label_vectors_path(0), 30, "digest vectors", rows=3),)
    about, _, size = describe(tmp_path, shared, replace(unit("tree"), vectors=vectors))
    part = {"path": "label_embedding/part-00000.parquet", "rows": 3, "bytes": 30, "sha256": "digest vectors"}
    assert about["label_embedding"] == {"parts": [part]}
    assert size.bytes == 130  # of the rows alone


def test_what_heads_has_besides(tmp_path, shared):
    about, _, _ = describe(tmp_path, shared, unit("heads"))
    assert about["rows_normalised"] is False
    assert about["shuffled"] is True
    assert about["label_order"] == "original"
    assert about["dft_initial_bias"] == pytest.approx(math.sqrt(3) * math.log(2))
    assert "sign_changes" not in about


def test_what_an_order_of_the_labels_does_is_told(tmp_path, shared):
    effect = OrderEffect(before=SignChanges(3.5, 5, 3), after=SignChanges(1.0, 2, 1))
    about, _, _ = describe(tmp_path, replace(shared, sign_changes=effect), unit("heads"))
    assert about["sign_changes"] == {
        "before": {"mean": 3.5, "largest": 5, "smallest_k": 3},
        "after": {"mean": 1.0, "largest": 2, "smallest_k": 1},
    }
