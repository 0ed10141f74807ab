"""Stage read and `read_dataset` give the same matrices, samples, names and rejected rows for every layout."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests import mutations
from tests.samples import run_pipeline
from xpipe.formats import read_dataset, read_index_split, write_sparse, write_svmlight, write_xmc
from xpipe.formats.dataset import Split
from xpipe.ground.sparse import to_matrix
from xpipe.stages.matrices import MatrixRef, open_matrix

Options = dict[str, Any]
X, Y, Y1, Y2 = mutations.matrices().values()
IDS = "".join(f"{group}\n" for group in Y1.indices)
SOME_IDS = "".join("-1\n" if row in (2, 7) else f"{group}\n" for row, group in enumerate(Y1.indices))


def as_text(folder: Path, name: str, content: str) -> None:
    if name.endswith(".gz"):
        (folder / name).write_bytes(gzip.compress(content.encode()))
    else:
        (folder / name).write_text(content)


def kind(name: str) -> Callable[[Path], Options]:
    def write(folder: Path) -> Options:
        mutations.write_folder(name, folder)
        return dict(mutations.READING.get(name, {}))

    return write


def headerless(folder: Path) -> Options:
    filled = np.flatnonzero(X.getnnz(axis=1) + Y.getnnz(axis=1))  # blank lines need a header
    write_xmc(str(folder / "train.txt"), X[filled], Y[filled], index_base=1)
    (folder / "train.txt").write_bytes((folder / "train.txt").read_bytes().split(b"\n", 1)[1])
    return {"header": False, "index_base": 1, "n_features": mutations.N_FEATURES, "n_labels": mutations.N_LABELS}


def index_splits(folder: Path, base: int = 1) -> Options:
    write_xmc(str(folder / "all_data.txt"), X, Y)
    (folder / "all_trSplit.txt").write_text("".join(f"{row + base}\n" for row in (7, 0, 3, 11, 5, 2, 1)))
    (folder / "all_tstSplit.txt").write_text("".join(f"{row + base}\n" for row in (4, 10, 6)))
    (folder / "filter_labels_test.txt").write_text("0 1\n2 4\n")
    return {"split_base": base}


def damage(path: Path, *rows: int) -> None:
    """Make some rows unreadable, in a file with a header."""
    lines = path.read_text().splitlines()
    for row in rows:
        lines[1 + row] = "x"
    path.write_text("".join(f"{line}\n" for line in lines))


def damaged_index_splits(folder: Path) -> Options:
    options = index_splits(folder)
    damage(folder / "all_data.txt", 3, 6, 9)  # row 9 is in no split
    return {**options, "on_bad_row": "drop"}


def one_index_split(folder: Path) -> Options:
    options = index_splits(folder)
    (folder / "all_tstSplit.txt").unlink()
    (folder / "filter_labels_test.txt").unlink()
    return options


def index_splits_with_groups(folder: Path) -> Options:
    options = index_splits(folder)
    (folder / "trn_Y1.txt").write_text("0\n1\n1\n-1\n0\n0\n1\n")
    write_sparse(str(folder / "trn_Y2.txt"), Y2[:2])
    return options


def grouped(membership: str, content: str | sp.csr_matrix, labels: str = "trn_Y2.txt") -> Callable[[Path], Options]:
    """Split files with labels of groups for training, and labels of samples for test."""

    def write(folder: Path) -> Options:
        write_sparse(str(folder / "trn_X_Xf.txt"), X)
        write_sparse(str(folder / "tst_X_Xf.txt"), X[:5])
        write_sparse(str(folder / "tst_X_Y.txt"), Y[:5])
        write_sparse(str(folder / labels), Y2)
        if isinstance(content, str):
            as_text(folder, membership, content)
        else:
            write_sparse(str(folder / membership), content)
        return {}

    return write


def grouped_and_labelled(folder: Path) -> Options:
    """Training labels of samples beside those of groups: the stage takes those of groups."""
    options = grouped("trn_X_Y1.txt", Y1)(folder)
    write_sparse(str(folder / "trn_X_Y.txt"), Y)
    return options


def groups_without_labels(folder: Path) -> Options:
    write_xmc(str(folder / "train.txt"), X, Y)
    (folder / "train_groups.txt").write_text(IDS)
    return {}


def damaged_groups(folder: Path) -> Options:
    grouped("trn_X_Y1.txt", Y1)(folder)
    damage(folder / "trn_X_Xf.txt", 1, 8)
    damage(folder / "trn_X_Y1.txt", 8, 4)
    damage(folder / "tst_X_Y.txt", 0)
    return {"on_bad_row": "drop"}


def damaged_ids(folder: Path) -> Options:
    grouped("trn_Y1.txt.gz", SOME_IDS)(folder)
    damage(folder / "trn_X_Xf.txt", 0, 5, 6, 11)
    return {"on_bad_row": "drop"}


def damaged_split_files(folder: Path) -> Options:
    mutations.write_folder("split", folder)
    (folder / "filter_labels_train.txt").write_text("0 1\n3 0\n11 4\n")
    damage(folder / "trn_X_Xf.txt", 3)
    damage(folder / "trn_X_Y.txt", 0, 10)
    return {"on_bad_row": "drop"}


def damaged_svmlight(folder: Path) -> Options:
    write_svmlight(str(folder / "train.svm.gz"), X, Y, index_base=1)
    text = gzip.decompress((folder / "train.svm.gz").read_bytes()).splitlines()
    text[2:2] = [b"# a comment", b"nonsense"]
    (folder / "train.svm.gz").write_bytes(gzip.compress(b"\n".join([*text, b""])))
    return {**mutations.READING["svmlight"], "on_bad_row": "drop"}


def one_based(folder: Path) -> Options:
    write_sparse(str(folder / "trn_X_Xf.txt"), X, index_base=1)
    write_sparse(str(folder / "trn_X_Y1.txt"), Y1)  # groups count from 0, whatever labels and features do
    write_sparse(str(folder / "trn_Y2.txt"), Y2, index_base=1)
    return {"index_base": 1, "label_base": 1}


LAYOUTS: dict[str, Callable[[Path], Options]] = {
    **{name: kind(name) for name in mutations.KINDS},
    "headerless": headerless,
    "index splits": index_splits,
    "index splits from 0": lambda folder: index_splits(folder, base=0),
    "one index split": one_index_split,
    "index splits, dropped rows": damaged_index_splits,
    "index splits, groups": index_splits_with_groups,
    "Y1 matrix": grouped("trn_X_Y1.txt", Y1),
    "Y1 list of ids": grouped("trn_Y1.txt", IDS),
    "Y1 list of ids, gzip": grouped("membership.trn.txt.gz", SOME_IDS),
    "Y1 npz, Y2 Parquet": grouped("Y1.trn.npz", Y1, "Y2.trn.parquet"),
    "groups file": grouped("train_groups.txt", SOME_IDS),
    "groups and labels": grouped_and_labelled,
    "groups without labels": groups_without_labels,
    "groups, dropped rows": damaged_groups,
    "ids, dropped rows": damaged_ids,
    "split files, dropped rows": damaged_split_files,
    "svmlight, dropped rows": damaged_svmlight,
    "counted from 1": one_based,
}


@pytest.fixture(params=LAYOUTS)
def both(request, tmp_path):
    """(what `read_dataset` gives, its rejects, results of the stage, folder of the data, options)."""
    folder = tmp_path / "data"
    folder.mkdir()
    options = LAYOUTS[request.param](folder)
    rejects: list = []
    dataset = read_dataset(str(folder), rejects=rejects, **options)
    section = json.dumps({"dir": str(folder), "part_rows": 5, **options})
    (tmp_path / "p.yaml").write_text(f"name: one\ndata: {section}\ncluster: none\nbackend: cpu\nout: {tmp_path}/run\n")
    return dataset, rejects, run_pipeline(tmp_path / "p.yaml"), folder, options


def stage_folder(results: dict) -> str:
    return f"{results['store']}/read-{results['stages'][0]['key']}"


def stored(results: dict, artifact: str, split: str) -> tuple[np.ndarray, sp.csr_matrix] | None:
    """(samples, matrix) of an artifact of the stage, where it has one."""
    manifest = json.loads(Path(stage_folder(results), "manifest.json").read_text())
    about = manifest["artifacts"].get(artifact, {}).get("about", {})
    if split not in about.get("rows", {}):
        return None
    matrix = open_matrix(MatrixRef(stage_folder(results), artifact), split)
    return matrix.samples(), to_matrix(matrix.load(), matrix.n_columns)


def same(found: tuple[np.ndarray, sp.csr_matrix] | None, expected: sp.csr_matrix) -> None:
    assert found is not None
    assert found[1].shape == expected.shape
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found[1], part), getattr(expected, part))


def expected_samples(name: str, split: Split, folder: Path, options: Options) -> np.ndarray:
    """The numbers that the stage gives to the samples: rows of the split, which an index split numbers anew."""
    index = folder / {"train": "all_trSplit.txt", "test": "all_tstSplit.txt"}.get(name, "none")
    if not index.exists():
        return split.samples
    chosen = read_index_split(str(index), base=options["split_base"])
    return np.flatnonzero(np.isin(chosen, split.samples))


def test_the_same_matrices(both):
    dataset, _, results, folder, options = both
    grouped_data = any(split.Y2 is not None for split in dataset.splits.values())
    for name, split in dataset.splits.items():
        found = stored(results, "features", name)
        same(found, split.X)
        np.testing.assert_array_equal(found[0], expected_samples(name, split, folder, options))
        if split.Y2 is not None:
            same(stored(results, "membership", name), split.Y1)
            same(stored(results, "group_labels", name), split.Y2)
        elif split.Y is not None:
            same(stored(results, "held_out_labels" if grouped_data else "labels", name), split.Y)
    assert set(results["stages"][0]["summary"]["splits"]) == set(dataset.splits)


def test_the_same_names_and_filter_pairs(both):
    dataset, _, results, _, options = both
    top = Path(stage_folder(results), "names")
    for name, names in (("labels", dataset.label_names), ("features", dataset.feature_names)):
        path = top / f"{name}.json"
        if dataset.layout.format != "parquet":  # whose label names are in its labels.parquet
            assert (json.loads(path.read_text()) if path.exists() else None) == (names.names if names else None)
    for name, split in dataset.splits.items():
        path = top / f"filter-{name}.npy"
        assert path.exists() == (split.filter_labels is not None)
        if split.filter_labels is not None and "on_bad_row" not in options:  # else they count rows of the file
            np.testing.assert_array_equal(np.load(path), split.filter_labels)


def test_the_same_rejected_rows(both):
    _, rejects, results, _, options = both
    if "on_bad_row" not in options:
        assert rejects == []
        return
    listed = pq.read_table(f"{stage_folder(results)}/rejects/rejects.parquet").to_pylist()
    columns = ("row", "line", "token", "reason", "text")
    assert sorted(tuple(row[name] for name in columns) for row in listed) == sorted(map(tuple, rejects))
    assert rejects
