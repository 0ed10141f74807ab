"""Emitted datasets, opened by their folder with the tools that people have: `make test-ecosystem` installs them.

Where a tool is missing, its test is skipped. polars and DuckDB are in tests/stages/emit/test_cards.py.
"""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from tests.ecosystem.conftest import TEST, TRAIN
from xpipe.formats.parquet import read_split

both = pytest.mark.parametrize("dataset", ["tree", "heads"])


@both
def test_hugging_face_opens_the_folder(run, dataset, tmp_path):
    datasets = pytest.importorskip("datasets")
    found = datasets.load_dataset(str(run / dataset), cache_dir=str(tmp_path))
    assert {split: rows.num_rows for split, rows in found.items()} == {"train": TRAIN, "test": TEST}
    X, Y = read_split(str(run / dataset), "test")
    assert found["test"]["labels"][:] == [row.indices.tolist() for row in Y]
    np.testing.assert_array_equal(np.float32(found["test"][3]["values"]), X[3].data)
    labels = datasets.load_dataset(str(run / dataset), "labels", split="labels", cache_dir=str(tmp_path))
    assert labels.num_rows == Y.shape[1]


@both
def test_pandas_opens_the_rows(run, dataset):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(run / dataset / "rows")
    assert frame["split"].value_counts().to_dict() == {"train": TRAIN, "test": TEST}
    assert sorted(frame[frame["split"] == "train"]["sample"]) == list(range(TRAIN))


def test_dask_opens_the_rows(run):
    pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    rows = frames.read_parquet(str(run / "tree" / "rows"))
    assert rows["split"].value_counts().compute(scheduler="sync").to_dict() == {"train": TRAIN, "test": TEST}


def test_ray_opens_the_rows(run):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        assert ray.data.read_parquet(str(run / "tree" / "rows")).count() == TRAIN + TEST
    finally:
        ray.shutdown()


@both
def test_croissant_is_valid_and_leads_to_every_record(run, dataset, caplog):
    mlcroissant = pytest.importorskip("mlcroissant")
    with caplog.at_level(logging.WARNING):
        found = mlcroissant.Dataset(str(run / dataset / "croissant.json"))  # raises where it is not valid
        issues = found.metadata.ctx.issues
        assert not issues.errors
        assert all("recommended" in warning for warning in issues.warnings)  # what only the owner can tell
        records = list(found.records("rows"))
    assert "Could not match" not in caplog.text
    splits = [record["rows/split"].decode() for record in records]
    assert (splits.count("train"), splits.count("test")) == (TRAIN, TEST)
    _, Y = read_split(str(run / dataset), "test")
    test = {int(r["rows/sample"]): r for r in records if r["rows/split"] == b"test"}
    assert [list(test[sample]["rows/labels"]) for sample in range(TEST)] == [row.indices.tolist() for row in Y]
    about = json.loads((run / dataset / "dataset.json").read_text())
    assert len(list(found.records("labels"))) == about["n_labels"]
