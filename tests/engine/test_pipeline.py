"""Whole pipelines: what is emitted is what was read, whoever computes, and wherever the files lie."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import bytes_below, digests, run_pipeline, write_pipeline
from xpipe.errors import DataError
from xpipe.formats import read_xmc
from xpipe.formats.parquet import read_split
from xpipe.grouping import given_groups, random_groups, spread_labels


def test_what_is_emitted_is_what_was_read(undisturbed, data):
    _, folder, _ = undisturbed
    out = folder / "runs" / "sample"
    X, Y = read_xmc(str(data / "train.txt"))
    spread = spread_labels(*random_groups(Y, 4, 0))
    kept = np.flatnonzero(spread.getnnz(axis=0))
    assert 3 not in kept
    labels = pq.read_table(out / "tree" / "labels.parquet").to_pydict()
    assert labels["original_label"] == kept.tolist()
    assert labels["name"] == [f"label {i}" for i in kept]
    assert labels["frequency"] == spread.getnnz(axis=0)[kept].tolist()

    emitted_X, emitted_Y = read_split(str(out / "tree"), "train")
    norms = np.sqrt(X.multiply(X).sum(axis=1)).A1
    np.testing.assert_allclose(emitted_X.toarray() * norms[:, None], X.toarray(), atol=1e-6)
    assert (emitted_Y.toarray() == spread.toarray()[:, kept]).all()

    test_X, test_Y = read_xmc(str(data / "test.txt"))
    emitted_X, emitted_Y = read_split(str(out / "heads"), "test")
    assert (emitted_X != test_X).nnz == 0
    assert (emitted_Y.toarray() == test_Y.toarray()[:, kept]).all()

    order = pq.read_table(out / "heads" / "rows" / "split=train")["sample"].to_numpy()
    assert sorted(order) == list(range(300))
    assert order.tolist() != list(range(300))
    heads_X, heads_Y = read_split(str(out / "heads"), "train")
    assert (heads_X != X[order]).nnz == 0
    assert (heads_Y.toarray() == spread.toarray()[order][:, kept]).all()

    xmc_X, xmc_Y = read_xmc(str(out / "xmc" / "train.txt"))
    assert (xmc_X != X).nnz == 0
    assert (xmc_Y.toarray() == spread.toarray()[:, kept]).all()
    npz = sp.load_npz(out / "npz" / "Y.tst.npz")
    assert (npz.toarray() == test_Y.toarray()[:, kept]).all()


def test_facts_of_the_dataset(undisturbed):
    results, folder, _ = undisturbed
    about = json.loads((folder / "runs" / "sample" / "heads" / "dataset.json").read_text())
    _, Y = read_split(str(folder / "runs" / "sample" / "heads"), "train")
    sizes = np.diff(Y.indptr)
    assert about["k"] == sizes.max()
    assert about["k_percentiles"]["50"] == np.percentile(sizes, 50)
    assert about["filtered"]["labels_without_positives"] == 1
    n = about["n_labels"]
    assert about["dft_initial_bias"] == pytest.approx(np.sqrt(n) * np.log(about["k"] / (n - about["k"])))
    assert about["filtered"]["rows_without_labels"]["train"] == int((sizes == 0).sum())
    assert not results["synthetic"]
    for stage in results["stages"]:
        assert stage["status"] == "ran"
        assert stage["seconds"] >= 0
        assert stage["peak_memory"] > 10 * 2**20


@pytest.mark.parametrize("chunk_rows", [1, 50, 100, 1000])
def test_workers_and_chunks_change_no_byte(tmp_path, undisturbed, data, workers, chunk_rows):
    results, folder, _ = undisturbed
    found = run_pipeline(write_pipeline(tmp_path, data, cluster=workers(chunk_rows=chunk_rows)))
    assert digests(found) == digests(results)
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(folder / "runs" / "sample")


def test_a_split_without_rows(tmp_path, data):
    """The header says 0 rows, and there are none: every stage passes an empty split on."""
    folder = shutil.copytree(data, tmp_path / "data")
    (folder / "test.txt").write_text("0 40 12\n")
    path = write_pipeline(tmp_path, folder)
    assert run_pipeline(path)["stages"][0]["summary"]["splits"] == {"train": 300, "test": 0}
    X, Y = read_split(str(tmp_path / "runs" / "sample" / "tree"), "test")
    assert (X.shape, Y.shape) == ((0, 40), (0, 11))


def test_an_emitted_dataset_is_read_again(tmp_path, undisturbed):
    emitted = undisturbed[1] / "runs" / "sample" / "heads"
    results = run_pipeline(write_pipeline(tmp_path, emitted), "group=null")
    X, Y = read_split(str(emitted), "train")
    again_X, again_Y = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    assert (again_Y != Y).nnz == 0
    assert again_X.shape == X.shape
    assert results["stages"][0]["summary"]["recognised"].startswith("an emitted Parquet dataset")


def test_given_groups_for_labelled_data(tmp_path, data):
    _, Y = read_xmc(str(data / "train.txt"))
    ids = np.arange(300) // 7
    ids[5] = -1
    (tmp_path / "groups.txt").write_text("".join(f"{group}\n" for group in ids))
    path = write_pipeline(tmp_path, data)
    results = run_pipeline(path, f"group={{rule: given, file: {tmp_path / 'groups.txt'}}}")
    assert results["stages"][1]["summary"]["samples_in_no_group"] == 1
    _, emitted = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    assert emitted[5].nnz == 0
    spread = spread_labels(*given_groups(ids, Y))
    assert (emitted.toarray() == spread.toarray()[:, spread.getnnz(axis=0) > 0]).all()
    with pytest.raises(DataError, match="not there"):
        run_pipeline(path, "group={rule: given, file: nowhere.txt}")


def test_rows_without_labels_can_be_dropped(tmp_path, data):
    run_pipeline(write_pipeline(tmp_path, data), "emit.rows_without_labels=drop", "group=null")
    _, Y = read_xmc(str(data / "train.txt"))
    about = json.loads((tmp_path / "runs" / "sample" / "heads" / "dataset.json").read_text())
    labelled = np.flatnonzero(Y.getnnz(axis=1))
    assert len(labelled) < 300
    assert about["splits"]["train"]["rows"] == len(labelled)
    tree = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "rows" / "split=train")["sample"].to_pylist()
    assert tree == labelled.tolist()


def test_everything_on_remote_storage(tmp_path, data, bucket):
    import fsspec

    filesystem, _ = fsspec.core.url_to_fs(bucket)
    for name in ("train.txt", "test.txt", "labels.txt"):
        filesystem.put(str(data / name), f"{bucket}/in/{name}")
    places = [f"data.dir={bucket}/in", f"out={bucket}/runs/sample", f"store={bucket}/runs/.store"]
    expected = run_pipeline(write_pipeline(tmp_path / "here", data, part_rows=150))
    local = "{kind: local, workers: 2, memory_limit: 1GiB}"
    results = run_pipeline(write_pipeline(tmp_path, data, part_rows=150, cluster=local), *places)
    assert digests(results) == digests(expected)
    found = {
        path.split("/runs/sample/", 1)[1]: filesystem.cat(path) for path in filesystem.find(f"{bucket}/runs/sample")
    }
    found.pop("results.json")
    assert found == bytes_below(tmp_path / "here" / "runs" / "sample")
    again = run_pipeline(write_pipeline(tmp_path, data, part_rows=150, cluster="none"), *places)
    assert [stage["status"] for stage in again["stages"]] == ["cached"] * 3
