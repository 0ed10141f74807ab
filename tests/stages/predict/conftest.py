"""One small run with a tree and a head, which all tests of this folder share."""

from __future__ import annotations

import pytest

from tests.samples import run_pipeline, write_dataset, write_pipeline

TRAIN = "train: {tree: {n_trees: 1}, heads: [{layer: bsl, dim: 4, width: 8, epochs: 1}]}\n"


@pytest.fixture(scope="session")
def predict_data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("predict-data"), n_train=120, n_test=50)


@pytest.fixture(scope="session")
def predict_run(tmp_path_factory, predict_data):
    """The folder of the run; label 3 is never seen in training, so labels are renumbered."""
    folder = tmp_path_factory.mktemp("predict-run")
    path = write_pipeline(folder, predict_data, TRAIN, part_rows=16)
    run_pipeline(path, "emit.formats=[parquet]", "group=null")
    return folder / "runs" / "sample"
