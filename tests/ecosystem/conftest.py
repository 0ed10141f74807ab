"""A small run whose datasets the tools of the ecosystem open, and whose results they track."""

from __future__ import annotations

import os

import pytest

from tests.samples import run_pipeline, write_dataset, write_pipeline

TRAIN, TEST = 80, 20

# `make test-ecosystem` has an environment in which all of these tools are; `make test` has some of them.
if not os.environ.get("XPIPE_TEST_ECOSYSTEM"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("ecosystem")
    path = write_pipeline(folder, write_dataset(folder / "data", n_train=TRAIN, n_test=TEST))
    run_pipeline(path, "group=null", "emit.formats=[parquet]", "emit.card={title: My data, license: CC0-1.0}")
    return folder / "runs" / "sample"
