"""The table of file names: which format, split and role each name has."""

from __future__ import annotations

import pytest

from xpipe.errors import DataError
from xpipe.formats.file_names import find_formats, formats


@pytest.mark.parametrize(
    ("name", "form", "split", "role"),
    [
        ("train.txt", "xmc", "train", "samples"),
        ("eurlex_tst.txt.gz", "xmc", "test", "samples"),
        ("my.dev.txt", "xmc", "dev", "samples"),
        ("valid.txt", "xmc", "dev", "samples"),
        ("data.txt", "xmc", "train", "samples"),
        ("Eurlex_data.txt.gz", "xmc", "train", "samples"),
        ("trn_X_Xf.txt", "split", "train", "features"),
        ("tst_X_Y.txt.gz", "split", "test", "labels"),
        ("X_Xf.trn.txt", "split", "train", "features"),
        ("X.trn.npz", "npz", "train", "features"),
        ("tst_X_Y.npz", "npz", "test", "labels"),
        ("labels.npz", "npz", "train", "labels"),
        ("X_val.parquet", "parquet-matrices", "dev", "features"),
        ("test_labels.parquet", "parquet-matrices", "test", "labels"),
        ("train.svm", "svmlight", "train", "samples"),
        ("a_test.libsvm.gz", "svmlight", "test", "samples"),
        ("anything.svmlight", "svmlight", "train", "samples"),
    ],
)
def test_names_that_make_a_dataset(name, form, split, role):
    assert find_formats("folder", [name]) == {form: {split: {role: name}}}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("trn_Y1.txt", "membership"),
        ("membership.txt.gz", "membership"),
        ("X_Y1.npz", "membership"),
        ("Y2.trn.parquet", "group_labels"),
        ("train_group_labels.txt", "group_labels"),
        ("train_groups.txt", "group_ids"),
        ("filter_labels_trn.txt", "filter_labels"),
    ],
)
def test_names_that_go_with_any_format(name, role):
    assert find_formats("folder", [name]) == {}
    assert find_formats("folder", ["train.txt", name]) == {"xmc": {"train": {"samples": "train.txt", role: name}}}
    assert find_formats("folder", ["test.txt", name]) == {"xmc": {"test": {"samples": "test.txt"}}}


@pytest.mark.parametrize(
    "name",
    [
        "labels.txt",
        "X.txt",
        "features.txt",
        "X.npz.gz",
        "readme.md",
        "train.csv",
        "groups.txt",
        "trainer.txt",
        "atrain.txt",
    ],
)
def test_names_that_are_not_known(name):
    assert find_formats("folder", [name]) == {}


def test_index_splits_cut_one_file():
    both = {"train": {"samples": "a_data.txt", "rows": "a_trSplit.txt"}, "test": {"samples": "a_data.txt"}}
    assert find_formats("folder", ["a_data.txt", "a_trSplit.txt"]) == {"xmc": both}
    both["test"]["rows"] = "test_split.txt"
    assert find_formats("folder", ["a_data.txt", "a_trSplit.txt", "test_split.txt"]) == {"xmc": both}
    assert find_formats("folder", ["a_trSplit.txt"]) == {}


@pytest.mark.parametrize(
    "names",
    [
        ["a_data.txt", "b_data.txt"],
        ["a_data.txt", "train.txt"],
        ["a_data.txt", "a_trSplit.txt", "b_trSplit.txt"],
        ["X.trn.npz", "features.npz"],
        ["train.txt", "trn_Y1.txt", "membership.npz"],
    ],
)
def test_two_files_for_one_role(names):
    with pytest.raises(DataError, match="two files for") as caught:
        find_formats("folder", names)
    assert names[-1] in caught.value.what


def test_every_format_has_a_title():
    assert list(formats()) == ["xmc", "split", "npz", "parquet-matrices", "raw", "svmlight", "parquet"]
    assert all(formats().values())


def test_texts_by_line_need_labels_beside_them():
    raw = find_formats("folder", ["X.trn.txt", "X.tst.txt.gz", "Y.trn.npz", "Y.tst.npz"])
    train, test = {"texts": "X.trn.txt", "labels": "Y.trn.npz"}, {"texts": "X.tst.txt.gz", "labels": "Y.tst.npz"}
    assert raw == {"raw": {"train": train, "test": test}}
    assert find_formats("folder", ["X.trn.txt"]) == {"xmc": {"train": {"samples": "X.trn.txt"}}}
    both = find_formats("folder", ["X.trn.txt", "X.trn.npz", "Y.trn.npz"])
    assert both == {"npz": {"train": {"features": "X.trn.npz", "labels": "Y.trn.npz"}}, "raw": {"train": train}}
