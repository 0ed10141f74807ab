"""Stage assign on a GPU, with the stand-in for cupy: rows are uploaded once per worker, the backend is in the key."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests import array_module as stand_in
from tests.samples import bytes_below, digests, write_dataset, write_pipeline
from tests.stages.small_chunks import SMALL_CHUNK, run_assign
from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.eagle import device_rounds, device_rows, plan
from xpipe.engine import execute
from xpipe.errors import BackendError
from xpipe.formats.parquet import read_split
from xpipe.ground.backend import Backend
from xpipe.stages import label_chunks
from xpipe.stages.assign.stage import STAGE, AssignParams

GPU = Backend("gpu", "the stand-in of the tests", "gpu", "none")
GROUPS = {"random": "group={rule: random, size: 4}", "alike": "group={rule: kmeans, depth: 4, noise: 0.0}"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", stand_in.array_module)
    monkeypatch.setattr(device_rows.keeper, "key", None)
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", SMALL_CHUNK)


@pytest.fixture
def uploads(monkeypatch):
    """How many samples each upload of rows had."""
    found, lay_out = [], device_rows.lay_out

    def noted(xp, rows, *others):
        found.append(len(rows.influence))
        return lay_out(xp, rows, *others)

    monkeypatch.setattr(plan, "lay_out", noted)
    monkeypatch.setattr("xpipe.eagle.rounds.lay_out", noted)
    return found


def run_on_gpu(folder, data, *overrides):
    folder.mkdir(exist_ok=True)
    path = write_pipeline(folder, data, cluster="none")
    overrides = ("report=none", "assign.method=discriminative", "emit.formats=[parquet]", *overrides)
    with Progress(mode="quiet") as progress:
        return execute.run(config.load(path, overrides), progress, GPU, concluding=False)


def owners_in(folder):
    return read_split(str(folder / "runs" / "sample" / "tree"), "train")[1]


def same_owners(found, expected):
    """But for a few chances that rounding moves over the threshold."""
    both = (found > 0).multiply(expected > 0).astype(bool)
    assert both.sum() >= 0.998 * max(found.nnz, expected.nnz)
    np.testing.assert_allclose(found[both], expected[both], atol=2e-3)


@pytest.mark.parametrize("groups", GROUPS)
def test_rows_are_uploaded_once_and_owners_are_those_of_the_cpu(tmp_path, data, uploads, groups):
    results = run_on_gpu(tmp_path / "gpu", data, GROUPS[groups])
    assert uploads == [300]  # one chunk after the other found all samples there
    (tmp_path / "cpu").mkdir()
    expected = run_assign(tmp_path / "cpu", data, "discriminative", GROUPS[groups])
    assert len(uploads) == 1
    keys, others = digests(results), digests(expected)
    assert keys["assign"][0] != others["assign"][0]
    assert keys["group"] == others["group"]
    on_gpu, on_cpu = owners_in(tmp_path / "gpu"), owners_in(tmp_path / "cpu")
    same_owners(on_gpu, on_cpu)


def test_what_fits_and_what_stays_on_the_cpu_change_no_byte_that_they_should_not(tmp_path, data, uploads, monkeypatch):
    reference = run_on_gpu(tmp_path / "kept", data)
    monkeypatch.setattr(device_rows.keeper, "key", None)
    monkeypatch.setattr(device_rows, "KEPT_SHARE", 0.0)
    uploads.clear()
    chunked = run_on_gpu(tmp_path / "chunked", data)
    assert len(uploads) > 3  # each chunk brought its own rows
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", 10**9)
    whole = run_on_gpu(tmp_path / "whole", data)
    for found, name in ((chunked, "chunked"), (whole, "whole")):
        assert digests(found)["emit"] == digests(reference)["emit"]
        assert bytes_below(tmp_path / name / "runs" / "sample") == bytes_below(tmp_path / "kept" / "runs" / "sample")


def test_long_labels_get_rows_on_the_host_too(tmp_path, data, uploads, monkeypatch):
    """A chunk with a label for the CPU whitens rows although the device has them."""
    on_device = []

    def noted(n_groups):
        on_device.extend((n_groups <= 35).tolist())
        return n_groups <= 35

    monkeypatch.setattr(device_rounds, "in_step", noted)
    monkeypatch.setattr(plan, "in_step", noted)
    run_on_gpu(tmp_path / "mixed", data)
    assert set(on_device) == {True, False}
    assert uploads == [300]
    run_assign(tmp_path, data, "discriminative")
    same_owners(owners_in(tmp_path / "mixed"), owners_in(tmp_path))


def test_a_worker_without_the_device_gives_an_error_that_says_so(tmp_path, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match="this process cannot use one"):
        run_on_gpu(tmp_path / "none", data)


@pytest.mark.parametrize(("method", "differs"), [("baseline", False), ("discriminative", True), ("auto", True)])
def test_the_backend_is_in_the_key_where_it_changes_bytes(method, differs):
    assert STAGE.uses_backend(AssignParams(method=method)) is differs
