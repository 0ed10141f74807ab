"""Stage read in pipelines: every format gives the same artifacts, dropped rows are listed, wrong folders refused."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.samples import random_matrices, run_pipeline, write_dataset, write_pipeline
from xpipe.engine.store import Store
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_dataset, read_xmc, write_sparse, write_svmlight
from xpipe.formats.parquet import read_split
from xpipe.grouping import random_groups, spread_labels
from xpipe.stages.matrices import MatrixRef, open_matrix
from xpipe.stages.read.stage import STAGE as READ
from xpipe.stages.read.stage import DataParams


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory, data):
    """Results of a run over XMC text."""
    return run_pipeline(write_pipeline(tmp_path_factory.mktemp("reference"), data))


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
def test_every_format_gives_the_same_artifacts(tmp_path, reference, data, write):
    folder = tmp_path / "in"
    folder.mkdir()
    overrides = write(folder, data).split()
    if write in (headerless, svmlight_from_one):
        # a row with neither labels nor features is a blank line, which such files cannot tell from a stray one
        X, Y = read_xmc(str(data / "train.txt"))
        assert (X.getnnz(axis=1) + Y.getnnz(axis=1)).min() > 0
    results = run_pipeline(write_pipeline(tmp_path, folder), *overrides)
    same_matrices(results, reference)


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


@pytest.mark.parametrize("form", ["npz", "txt", "ids", "ids as Y1"])
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
            name = "train_groups.txt" if form == "ids" else "trn_Y1.txt"
            (folder / name).write_text("".join(f"{group}\n" for group in Y1.indices))
    with pytest.raises(ConfigError, match="cannot be wired"):
        run_pipeline(write_pipeline(tmp_path, folder))
    results = run_pipeline(write_pipeline(tmp_path, folder), "group=null")
    assert results["stages"][0]["summary"]["groups"] == 75
    _, emitted = read_split(str(tmp_path / "runs" / "sample" / "tree"), "train")
    spread = spread_labels(Y1, Y2)
    assert (emitted.toarray() == spread.toarray()[:, spread.getnnz(axis=0) > 0]).all()


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
    table = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "rows" / "split=train")
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
    sample = pq.read_table(tmp_path / "runs" / "sample" / "tree" / "rows" / "split=train")["sample"].to_pylist()
    assert sample == [row for row in range(300) if row != 50]


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


def test_rejected_rows_name_their_file_so_its_name_counts(data, tmp_path):
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    shutil.copy(data / "train.txt", renamed / "my_train.txt")
    keys = []
    for folder in (data, renamed):
        params = DataParams(dir=str(folder), on_bad_row="drop")
        keys.append(READ.identity(params, {}, Store(str(tmp_path / "store")))["names"])
    assert keys[0]["train.samples"] == "train.txt"
    assert keys[1]["train.samples"] == "my_train.txt"
    assert "names" not in READ.identity(DataParams(dir=str(data)), {}, Store(str(tmp_path / "store")))
