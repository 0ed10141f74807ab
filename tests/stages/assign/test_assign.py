"""Stage assign gives the answer of the library, with any workers and however often it is killed."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from tests.engine.test_interruptions import kill
from tests.samples import bytes_below, digests, run_pipeline, start_xpipe, write_dataset, write_pipeline
from tests.stages.small_chunks import SMALL_CHUNK, run_assign
from tests.waiting import wait_for
from xpipe.eagle import impute
from xpipe.eagle.options import ImputeOptions
from xpipe.formats import read_xmc, write_sparse
from xpipe.formats.parquet import iterate_groups, read_about, read_split
from xpipe.ground.sparse import normalise_rows, to_matrix, to_triple
from xpipe.ground.sparse_rows import concatenate
from xpipe.grouping import kmeans_groups, random_groups
from xpipe.stages import label_chunks
from xpipe.stages.assign.stage import STAGE as ASSIGN
from xpipe.stages.assign.stage import AssignParams

METHODS = ["baseline", "eagle0", "eagle", "centred", "discriminative", "auto"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", SMALL_CHUNK)


@pytest.mark.parametrize("method", METHODS)
def test_the_stage_is_the_library(tmp_path, data, method):
    results = run_assign(tmp_path, data, method)
    X, Y = read_xmc(str(data / "train.txt"))
    X = to_matrix(normalise_rows(to_triple(X)), X.shape[1])
    expected = impute(X, *random_groups(Y, 4, 0), method)
    kept = np.flatnonzero(expected.labels.getnnz(axis=0))
    _, emitted = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    assert np.array_equal(emitted.indptr, expected.labels[:, kept].indptr)
    assert np.array_equal(emitted.indices, expected.labels[:, kept].indices)
    scores = expected.scores[:, kept].data
    if expected.trace["method"] == "discriminative":
        np.testing.assert_allclose(emitted.data, scores, atol=1e-6)
    else:  # the stage gives chances where the library gives similarities
        order = np.argsort(scores, kind="stable")
        assert (np.diff(emitted.data[order]) >= 0).all()
        assert (emitted.data > 0).all()
        assert (emitted.data <= 1).all()
        assert emitted.data.mean() == pytest.approx((expected.labels > 0).multiply(Y).sum() / len(scores), abs=0.15)
    summary = next(stage for stage in results["stages"] if stage["stage"] == "assign")["summary"]
    if expected.candidates is not None:
        groups = iterate_groups(str(tmp_path / "runs" / "sample" / "tree"), "train", soft=True)
        soft = concatenate([labels for _, _, _, labels in groups])
        wanted = expected.soft_labels[:, kept]
        assert np.array_equal(soft.indptr, wanted.indptr)
        assert np.array_equal(soft.indices, wanted.indices)
        np.testing.assert_allclose(soft.values, wanted.data, atol=1e-6)
        assert summary["candidates"] == expected.candidates.nnz == wanted.nnz - emitted.nnz
    hits = expected.labels.multiply(Y).sum()
    assert summary["precision"] == pytest.approx(hits / expected.labels.nnz, abs=1e-4)
    assert summary["recall"] == pytest.approx(hits / Y.nnz, abs=1e-4)


@pytest.mark.parametrize("method", ["centred", "auto"])
def test_workers_and_chunks_change_no_byte(tmp_path, data, monkeypatch, method, workers):
    reference = run_assign(tmp_path / "one", data, method)
    for number, cluster in enumerate([workers(chunk_rows=3), "none"]):
        monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", 10**9)
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run_assign(folder, data, method, cluster=cluster)
        assert digests(found)["emit"] == digests(reference)["emit"]
        assert bytes_below(folder / "runs" / "sample") == bytes_below(tmp_path / "one" / "runs" / "sample")


def test_calibrations_of_labels_are_the_same_with_any_workers_and_chunks(tmp_path, data, monkeypatch, workers):
    """Where members are alike, a chunk needs groups that carry none of its labels."""
    alike = "group={rule: kmeans, depth: 4, noise: 0.0}"
    reference = run_assign(tmp_path / "one", data, "discriminative", alike)
    summary = next(stage for stage in reference["stages"] if stage["stage"] == "assign")["summary"]
    assert summary["choice"]["crowd"]["weight"] == 0
    assert summary["choice"]["calibration"][3] > 0  # offsets of labels have a spread
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", 10**9)
    (tmp_path / "two").mkdir()
    found = run_assign(tmp_path / "two", data, "discriminative", alike, cluster=workers(chunk_rows=3))
    assert digests(found)["emit"] == digests(reference)["emit"]
    X, Y = read_xmc(str(data / "train.txt"))
    X = to_matrix(normalise_rows(to_triple(X)), X.shape[1])
    expected = impute(X, *kmeans_groups(X, Y, 4, noise=0.0), "discriminative").labels
    _, emitted = read_split(str(tmp_path / "one" / "runs" / "sample" / "tree"), "train")
    assert np.array_equal(emitted.indices, expected[:, np.flatnonzero(expected.getnnz(axis=0))].indices)


@pytest.mark.parametrize("most", [2, 4, 1024])
def test_what_leaves_groups_out_is_the_same_whether_stored_or_not(tmp_path, data, monkeypatch, most):
    """Chunks read it from files; groups that are too large for it have none there."""
    from xpipe.eagle import kinship
    from xpipe.stages.assign.stored_rows import StoredRows

    monkeypatch.setattr(kinship, "MOST_MEMBERS", most)
    alike, sizes = "group={rule: kmeans, depth: 7, noise: 0.0}", []  # 128 groups of two or three
    kinship = StoredRows.kinship

    def seen(self, groups):
        found = kinship(self, groups)
        if found is not None:
            sizes.extend((found.starts >= 0).tolist())
        return found

    monkeypatch.setattr(StoredRows, "kinship", seen)
    reference = run_assign(tmp_path / "one", data, "discriminative", alike)
    assert sizes
    assert set(sizes) == ({True, False} if most == 2 else {True})
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", 10**9)
    (tmp_path / "two").mkdir()
    sizes.clear()
    found = run_assign(tmp_path / "two", data, "discriminative", alike)
    assert not sizes  # one chunk leaves groups out by itself
    assert digests(found)["emit"] == digests(reference)["emit"]


@pytest.mark.parametrize("method", ["eagle", "discriminative"])
def test_killed_and_resumed(tmp_path, data, method):
    reference = run_assign(tmp_path / "one", data, method)
    path = write_pipeline(tmp_path, data)
    for moment in range(3):
        process = start_xpipe("run", path, "--set", f"assign.method={method}", "--set", "emit.formats=[parquet]")
        wait_for(lambda run=process: any((tmp_path / "runs").glob(".store/assign-*")) or run.poll() is not None)
        time.sleep(random.Random(moment).uniform(0, 0.3))
        kill(process)
    again = run_pipeline(path, f"assign.method={method}", "emit.formats=[parquet]")
    assert digests(again)["emit"] == digests(reference)["emit"]


def test_groups_of_ones_own_data_have_no_truth_to_compare_with(tmp_path, data):
    X, Y = read_xmc(str(data / "train.txt"))
    Y1, Y2 = random_groups(Y, 4, seed=7)
    folder = tmp_path / "in"
    folder.mkdir()
    for name, matrix in (("X", X), ("Y1", Y1), ("Y2", Y2)):
        write_sparse(str(folder / f"{name}.trn.npz"), matrix)
    results = run_assign(tmp_path, folder, "eagle0", "group=null")
    summary = next(stage for stage in results["stages"] if stage["stage"] == "assign")["summary"]
    assert summary["assigned"] > 0
    assert "f1" not in summary


def test_choices_are_told(tmp_path, data):
    results = run_assign(tmp_path, data, "auto")
    summary = next(stage for stage in results["stages"] if stage["stage"] == "assign")["summary"]
    assert summary["choice"]["method"] == summary["method"]
    assert summary["choice"]["why"]
    assert set(summary["choice"]["tried"]["explained"]) >= {"baseline", "discriminative"}
    assert summary["allowed"] >= summary["assigned"] > 0


def test_only_chances_of_all_pairs_give_candidates(tmp_path, data):
    for method, options in (("centred", ()), ("discriminative", ("assign.owners=one",))):
        run_assign(tmp_path / method, data, method, *options)
        assert "candidates" not in read_about(str(tmp_path / method / "runs" / "sample" / "tree"))


def test_only_eagle_depends_on_its_steps():
    assert ASSIGN.identity(AssignParams(method="centred", steps=3), {}, None) == {"method": "centred"}
    assert ASSIGN.identity(AssignParams(method="eagle", steps=3), {}, None)["steps"] == 3


def test_defaults_and_names_are_those_of_the_library():
    assert AssignParams().options(seed=0) == ImputeOptions()
    given = {
        "method": "eagle",
        "steps": 3,
        "step_size": 0.5,
        "owners": "one",
        "ridge": 2.0,
        "threshold": 0.1,
        "rounds": 4,
    }
    assert AssignParams(**given).options(seed=7) == ImputeOptions(**given, seed=7)
