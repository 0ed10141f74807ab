"""Whole pipelines: same bytes whoever computes, nothing done twice, nothing lost."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import bytes_below, digests, random_matrices, run_pipeline, write_dataset, write_pipeline
from xpipe import config
from xpipe.engine import decide
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_dataset, read_xmc, write_sparse, write_svmlight
from xpipe.formats.parquet import read_split
from xpipe.grouping import given_groups, random_groups, spread_labels
from xpipe.stages.matrices import MatrixRef, open_matrix


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write_pipeline(folder, data)
    return run_pipeline(path), folder, path


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

    order = pq.read_table(out / "heads" / "split=train")["sample"].to_numpy()
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


def test_the_second_run_is_cached(undisturbed):
    first, folder, path = undisturbed
    before = bytes_below(folder / "runs" / "sample")
    again = run_pipeline(path)
    assert [stage["status"] for stage in again["stages"]] == ["cached"] * 3
    assert digests(again) == digests(first)
    assert bytes_below(folder / "runs" / "sample") == before


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


@pytest.mark.parametrize("ending", ["txt", "npz"])
def test_an_index_split_of_grouped_data(tmp_path, data, ending):
    """The index split names rows of the data; membership has those rows already, as `read_dataset` takes it."""
    folder = tmp_path / "in"
    folder.mkdir()
    setting = index_split(folder, data)
    Y1, Y2 = random_groups(read_xmc(str(data / "train.txt"))[1], 4, seed=0)
    for name, matrix in (("Y1", Y1), ("Y2", Y2)):
        path = folder / f"trn_{name}.{ending}"
        write_sparse(str(path), matrix) if ending == "txt" else sp.save_npz(path, matrix)
    results = run_pipeline(write_pipeline(tmp_path, folder), setting, "group=null")
    where = f"{results['store']}/read-{results['stages'][0]['key']}"
    stored = open_matrix(MatrixRef(where, "membership"), "train").load()
    expected = read_dataset(str(folder), split_base=1).splits["train"].Y1
    assert np.array_equal(stored.indices, expected.indices)
    assert np.array_equal(stored.indices, Y1.indices)


def test_keys_do_not_depend_on_where_files_lie(tmp_path, undisturbed, data):
    moved = tmp_path / "elsewhere" / "copied"
    shutil.copytree(data, moved)
    assert digests(run_pipeline(write_pipeline(tmp_path, moved))) == digests(undisturbed[0])


def test_a_change_runs_only_what_depends_on_it(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    first = run_pipeline(path)
    plans = {d.step.stage.name: d for d in decide.plan(config.load(path, ["group.size=5"]))}
    assert plans["read"].cached
    assert plans["group"].why == "changed: size: 4 -> 5"
    assert plans["emit"].why == "group must run first"
    second = run_pipeline(path, "group.size=5")
    assert [stage["status"] for stage in second["stages"]] == ["cached", "ran", "ran"]
    assert digests(second)["emit"] != digests(first)["emit"]
    assert decide.plan(config.load(path))[1].cached  # the artifacts of size 4 are still there
    seeded = run_pipeline(path, "seed=1")
    assert [stage["status"] for stage in seeded["stages"]] == ["cached", "ran", "ran"]


def test_an_output_no_longer_asked_for_goes(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    run_pipeline(path, "emit.formats=[parquet]")
    assert sorted(entry.name for entry in (tmp_path / "runs" / "sample").iterdir()) == [
        ".lock",
        "heads",
        "results.json",
        "tree",
    ]


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "manifest"])
def test_a_damaged_artifact_is_rebuilt(tmp_path, undisturbed, data, harm, capsys):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    folder = next((tmp_path / "runs" / ".store").glob("read-*"))
    victim = folder / ("manifest.json" if harm == "manifest" else "features/split=train/part-00002.arrow")
    content = bytearray(victim.read_bytes())
    if harm == "remove":
        victim.unlink()
    elif harm == "flip":
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
    else:
        victim.write_bytes(content[: len(content) // 2])
    again = run_pipeline(path)
    assert again["stages"][0]["status"] == "ran"
    assert digests(again) == digests(undisturbed[0])
    warning = capsys.readouterr().err
    assert "stage read is damaged" in warning
    assert victim.name in warning


def test_a_damaged_dataset_in_the_run_folder_is_replaced(tmp_path, undisturbed, data):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    victim = tmp_path / "runs" / "sample" / "tree" / "split=train" / "part-00000.parquet"
    victim.write_bytes(b"not what it was")
    run_pipeline(path)
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(undisturbed[1] / "runs" / "sample")


# Every format in, the same artifacts out.


def same_matrices(results, reference):
    for name in ("features", "labels"):
        files = [
            [(entry["path"], entry["sha256"]) for entry in manifest["artifacts"][name]["files"]]
            for manifest in (load_manifest(results), load_manifest(reference))
        ]
        assert files[0] == files[1]


def load_manifest(results):
    stage = next(stage for stage in results["stages"] if stage["stage"] == "read")
    with open(f"{results['store']}/read-{stage['key']}/manifest.json") as stream:
        return json.load(stream)


def split_files(folder, data):
    for split, short in (("train", "trn"), ("test", "tst")):
        X, Y = read_xmc(str(data / f"{split}.txt"))
        write_sparse(str(folder / f"{short}_X_Xf.txt"), X)
        write_sparse(str(folder / f"{short}_X_Y.txt"), Y)
    return ""


def pecos_npz(folder, data):
    for split, short in (("train", "trn"), ("test", "tst")):
        X, Y = read_xmc(str(data / f"{split}.txt"))
        write_sparse(str(folder / f"X.{short}.npz"), X)
        write_sparse(str(folder / f"Y.{short}.npz"), Y)
    return ""


def gzipped(folder, data):
    import gzip

    for name in ("train.txt", "test.txt"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((data / name).read_bytes()))
    return ""


def svmlight_from_one(folder, data):
    for split in ("train", "test"):
        write_svmlight(str(folder / f"{split}.svm"), *read_xmc(str(data / f"{split}.txt")), index_base=1)
    return "data.n_features=40 data.n_labels=12 data.index_base=1"


def headerless(folder, data):
    for name in ("train.txt", "test.txt"):
        (folder / name).write_bytes((data / name).read_bytes().split(b"\n", 1)[1])
    return "data.header=false data.n_features=40 data.n_labels=12"


def index_split(folder, data):
    train, test = ((data / f"{name}.txt").read_bytes().split(b"\n", 1)[1] for name in ("train", "test"))
    (folder / "all_data.txt").write_bytes(b"380 40 12\n" + train + test)
    (folder / "all_trSplit.txt").write_text("".join(f"{row}\n" for row in range(1, 301)))
    (folder / "all_tstSplit.txt").write_text("".join(f"{row}\n" for row in range(301, 381)))
    return "data.split_base=1"


@pytest.mark.parametrize("write", [split_files, pecos_npz, gzipped, svmlight_from_one, headerless, index_split])
def test_every_format_gives_the_same_artifacts(tmp_path, undisturbed, data, write):
    folder = tmp_path / "in"
    folder.mkdir()
    overrides = write(folder, data).split()
    if write in (headerless, svmlight_from_one):
        # a row with neither labels nor features is a blank line, which such files cannot tell from a stray one
        X, Y = read_xmc(str(data / "train.txt"))
        assert (X.getnnz(axis=1) + Y.getnnz(axis=1)).min() > 0
    results = run_pipeline(write_pipeline(tmp_path, folder), *overrides)
    same_matrices(results, undisturbed[0])


def test_an_emitted_dataset_is_read_again(tmp_path, undisturbed):
    emitted = undisturbed[1] / "runs" / "sample" / "heads"
    results = run_pipeline(write_pipeline(tmp_path, emitted), "group=null")
    X, Y = read_split(str(emitted), "train")
    again_X, again_Y = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    assert (again_Y != Y).nnz == 0
    assert again_X.shape == X.shape
    assert results["stages"][0]["summary"]["recognised"].startswith("an emitted Parquet dataset")


@pytest.mark.parametrize("form", ["npz", "txt", "ids"])
def test_groups_given_as_data(tmp_path, data, form):
    X, Y = read_xmc(str(data / "train.txt"))
    Y1, Y2 = random_groups(Y, 4, seed=7)
    folder = tmp_path / "in"
    folder.mkdir()
    if form == "npz":
        write_sparse(str(folder / "X.trn.npz"), X)
        write_sparse(str(folder / "Y1.trn.npz"), Y1)
        write_sparse(str(folder / "Y2.trn.npz"), Y2)
    else:
        write_sparse(str(folder / "trn_X_Xf.txt"), X)
        write_sparse(str(folder / "trn_Y2.txt"), Y2)
        if form == "txt":
            write_sparse(str(folder / "trn_Y1.txt"), Y1)
        else:
            (folder / "train_groups.txt").write_text("".join(f"{group}\n" for group in Y1.indices))
    with pytest.raises(ConfigError, match="cannot be wired"):
        run_pipeline(write_pipeline(tmp_path, folder))
    results = run_pipeline(write_pipeline(tmp_path, folder), "group=null")
    assert results["stages"][0]["summary"]["groups"] == 75
    _, emitted = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    spread = spread_labels(Y1, Y2)
    assert (emitted.toarray() == spread.toarray()[:, spread.getnnz(axis=0) > 0]).all()


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


def test_dropped_rows_are_listed_and_nothing_shifts(tmp_path, data):
    folder = tmp_path / "in"
    shutil.copytree(data, folder)
    lines = (data / "train.txt").read_text().splitlines()
    _, Y = read_xmc(str(data / "train.txt"))
    lines[1 + 10] = "abc 1:0.5"
    lines[1 + 40] = "1 3:nan"
    lines[1 + 299] = "1 4000:1"
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    path = write_pipeline(tmp_path, folder)
    with pytest.raises(DataError) as caught:
        run_pipeline(path)
    assert f"{folder / 'train.txt'}:12" in caught.value.where
    assert "abc" in caught.value.where
    results = run_pipeline(path, "data.on_bad_row=drop", "group=null")
    rejects = pq.read_table(tmp_path / "runs" / "sample" / "rejects.parquet").to_pydict()
    assert rejects["row"] == [10, 40, 299]
    assert rejects["line"] == [12, 42, 301]
    assert rejects["file"] == ["train.txt"] * 3
    assert rejects["token"] == ["abc", "3:nan", "4000:1"]
    assert results["stages"][0]["summary"]["rejected"] == 3
    table = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "split=train")
    kept = [row for row in range(300) if row not in (10, 40, 299)]
    assert table["sample"].to_pylist() == kept
    _, emitted = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    assert (emitted.toarray() == Y.toarray()[kept][:, np.flatnonzero(Y[kept].getnnz(axis=0))]).all()


def test_a_row_dropped_from_one_file_is_dropped_from_all(tmp_path, data):
    folder = tmp_path / "in"
    folder.mkdir()
    split_files(folder, data)
    lines = (folder / "trn_X_Y.txt").read_text().splitlines()
    lines[1 + 50] = "x"
    (folder / "trn_X_Y.txt").write_text("\n".join(lines) + "\n")
    run_pipeline(write_pipeline(tmp_path, folder), "data.on_bad_row=drop")
    sample = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "split=train")["sample"].to_pylist()
    assert sample == [row for row in range(300) if row != 50]


def test_rows_without_labels_can_be_dropped(tmp_path, data):
    run_pipeline(write_pipeline(tmp_path, data), "emit.rows_without_labels=drop", "group=null")
    _, Y = read_xmc(str(data / "train.txt"))
    about = json.loads((tmp_path / "runs" / "sample" / "heads" / "dataset.json").read_text())
    labelled = np.flatnonzero(Y.getnnz(axis=1))
    assert len(labelled) < 300
    assert about["splits"]["train"]["rows"] == len(labelled)
    tree = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "split=train")["sample"].to_pylist()
    assert tree == labelled.tolist()


def test_files_that_do_not_fit_each_other(tmp_path, data):
    folder = tmp_path / "in"
    folder.mkdir()
    split_files(folder, data)
    X, _ = random_matrices(299)
    write_sparse(str(folder / "trn_X_Xf.txt"), X)
    with pytest.raises(DataError, match="do not fit") as caught:
        run_pipeline(write_pipeline(tmp_path, folder))
    assert "299" in caught.value.why
    assert "300" in caught.value.why


def test_missing_data_is_an_error_and_strange_files_are_not_missing(tmp_path):
    path = write_pipeline(tmp_path, tmp_path / "nothing")
    with pytest.raises(DataError, match="no folder"):
        run_pipeline(path)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "readme.md").write_text("hello")
    with pytest.raises(DataError, match="no dataset"):
        run_pipeline(path, "data.name=tiny", "data.if_missing=synthesize")


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
