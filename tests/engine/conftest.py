"""What tests of whole runs share: a small dataset, and a run of it that nobody disturbed."""

from __future__ import annotations

import pytest

from tests.samples import run_pipeline, write_dataset, write_pipeline


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write_pipeline(folder, data)
    return run_pipeline(path), folder, path
