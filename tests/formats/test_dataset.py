"""Folders: what is recognised, what is said, what fits together."""

from __future__ import annotations

import dataclasses
import gzip
import json
import logging

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats import read_dataset, recognise, write_sparse, write_svmlight, write_xmc

X = sp.csr_matrix(np.arange(12, dtype=np.float32).reshape(4, 3))
Y = sp.csr_matrix(np.array([[1, 0], [0, 1], [0, 0], [1, 1]], dtype=np.float32))
Y1 = sp.csr_matrix(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32))
Y2 = sp.csr_matrix(np.array([[1, 1], [0, 0], [1, 1]], dtype=np.float32))


def same(found, wanted) -> None:
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())


@pytest.fixture
def make(tmp_path):
    """Write files by name: bytes, text, a matrix, or a pair for XMC text and svmlight."""

    def write_files(**named) -> str:
        for key, content in named.items():
            name = key.replace("__", ".")
            path = tmp_path / name
            if isinstance(content, tuple):
                (write_svmlight if ".svm" in name else write_xmc)(str(path), *content)
            elif isinstance(content, sp.csr_matrix):
                write_sparse(str(path), content)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path)

    return write_files


@pytest.mark.parametrize(
    ("named", "format", "options"),
    [
        ({"train__txt": (X, Y), "test__txt": (X[:2], Y[:2])}, "xmc", {}),
        ({"eurlex_train__txt": (X, Y), "eurlex_test__txt__gz": (X[:2], Y[:2])}, "xmc", {}),
        ({"trn_X_Xf__txt": X, "trn_X_Y__txt__gz": Y, "tst_X_Xf__txt": X[:2], "tst_X_Y__txt": Y[:2]}, "split", {}),
        ({"X__trn__npz": X, "Y__trn__npz": Y, "X__tst__npz": X[:2], "Y__tst__npz": Y[:2]}, "npz", {}),
        ({"features__npz": X, "labels__npz": Y, "test_features__npz": X[:2], "test_labels__npz": Y[:2]}, "npz", {}),
        ({"X__train__parquet": X, "Y__train__parquet": Y, "X__test__parquet": X[:2], "Y__test__parquet": Y[:2]},
         "parquet-matrices", {}),
        ({"train__svm": (X, Y), "a_test__svmlight": (X[:2], Y[:2])}, "svmlight", {"n_features": 3, "n_labels": 2}),
    ],
)  # fmt: skip
def test_formats_by_name(make, named, format, options, caplog):
    folder = make(**named)
    with caplog.at_level(logging.INFO, "xpipe.formats"):
        data = read_dataset(folder, **options)
    assert data.layout.format == format
    assert data.layout.sentence in caplog.text
    for name in named:
        assert name.replace("__", ".") in data.layout.sentence
    same(data.train.X, X)
    same(data.train.Y, Y)
    same(data.test.X, X[:2])
    same(data.test.Y, Y[:2])
    assert data.dev is None
    assert data.train.Y1 is None
    assert not data.synthetic
    assert list(data.splits) == ["train", "test"]
    assert json.loads(json.dumps(dataclasses.asdict(data.layout)))["format"] == format


@pytest.mark.parametrize(
    "named",
    [
        {"Y1__npz": Y1, "Y2__npz": Y2},
        {"membership__parquet": Y1, "group_labels__npz": Y2},
        {"trn_Y1__txt": Y1, "trn_Y2__txt": Y2},
        {"trn_X_Y1__txt__gz": Y1, "Y2__trn__txt": Y2},
        {"train_groups__txt": "0\n0\n1\n2\n", "group_labels__txt": Y2},
        {"membership__txt": "0\n0\n1\n2\n", "group_labels__txt": Y2},
    ],
)
@pytest.mark.parametrize("with_labels", [True, False])
def test_groups_in_any_format(make, named, with_labels):
    folder = make(X__trn__npz=X, **({"Y__trn__npz": Y} if with_labels else {}), **named)
    train = read_dataset(folder).train
    same(train.Y1, Y1)
    same(train.Y2, Y2)
    if with_labels:
        same(train.Y, Y)
    else:
        assert train.Y is None


def test_names_filters_groups_and_the_synthetic_mark(make):
    folder = make(
        train__txt=(X, Y),
        test__txt=(X[:2], Y[:2]),
        labels__txt="7\tone\n9\ttwo\n",
        features__txt="a\nb\nc\n",
        filter_labels_test__txt="1 0\n",
        train_groups__txt="0\n0\n1\n-1\n",
        groups__txt="names of groups\n",
        SYNTHETIC__json="{}",
    )
    data = read_dataset(folder)
    assert data.label_names == (["one", "two"], ["7", "9"])
    assert data.feature_names.names == ["a", "b", "c"]
    assert data.test.filter_labels.tolist() == [[1, 0]]
    assert data.train.groups.shape == (4, 2)
    assert data.train.Y1 is None
    assert data.synthetic
    assert "SYNTHETIC" in data.layout.sentence


def test_an_index_split_of_one_file(make):
    folder = make(eurlex_data__txt=(X, Y), eurlex_trSplit__txt="4 1\n1 2\n", eurlex_tstSplit__txt="2 3\n3 4\n")
    with pytest.raises(DataError, match="split_base must be given"):
        read_dataset(folder)
    data = read_dataset(folder, split_base=1)
    same(data.train.X, X[[3, 0]])
    same(data.test.Y, Y[[1, 2]])
    assert data.train.samples.tolist() == [3, 0]
    same(read_dataset(folder, split_base=1, split_column=1).test.X, X[[2, 3]])


def test_an_emitted_dataset(tmp_path):
    from xpipe.formats.parquet import write_dataset_part
    from xpipe.ground.sparse import to_triple

    (tmp_path / "split=train").mkdir()
    path = "split=train/part-00000.parquet"
    facts = write_dataset_part(
        str(tmp_path / path), np.arange(4), to_triple(X), to_triple(Y), n_features=3, n_labels=2, row_group=2
    )
    about = {"n_features": 3, "n_labels": 2, "splits": {"train": {"rows": 4, "parts": [{"path": path, **facts}]}}}
    (tmp_path / "dataset.json").write_text(json.dumps(about))
    data = read_dataset(str(tmp_path))
    assert data.layout.format == "parquet"
    same(data.train.X, X)
    same(data.train.Y, Y)


def test_rows_dropped_from_one_file_are_dropped_from_all(make):
    rejects = []
    folder = make(
        trn_X_Xf__txt="4 3\n0:1\n1:x\n1:2\n2:3\n",
        trn_X_Y__txt="4 2\n0:1\n1:1\n1:nan\n0:1 1:0.5\n",
        train_groups__txt="0\n1\n2\n3\n",
        filter_labels_train__txt="0 1\n1 0\n3 1\n",
    )
    with pytest.raises(DataError, match=r"trn_X_Xf\.txt:3, token '1:x'"):
        read_dataset(folder)
    with pytest.raises(DataError, match="needs a list"):
        read_dataset(folder, on_bad_row="drop")
    train = read_dataset(folder, on_bad_row="drop", rejects=rejects).train
    assert train.samples.tolist() == [0, 3]
    np.testing.assert_array_equal(train.X.toarray(), [[1, 0, 0], [0, 0, 3]])
    np.testing.assert_array_equal(train.Y.toarray(), [[1, 0], [1, 0.5]])
    np.testing.assert_array_equal(train.groups.toarray(), [[1, 0, 0, 0], [0, 0, 0, 1]])
    assert train.filter_labels.tolist() == [[0, 1], [1, 1]]
    assert [(each.row, each.token) for each in rejects] == [(1, "1:x"), (2, "1:nan")]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({}, "it holds nothing"),
        ({"readme__md": "hello"}, "it holds readme.md"),
        ({"train__txt": (X, Y), "train__svm": (X, Y)}, "more than one dataset"),
        ({"train__txt": (X, Y), "eurlex_train__txt": (X, Y)}, "two files for samples: eurlex_train.txt and train.txt"),
        ({"train__txt": (X, Y), "train__txt__gz": (X, Y)}, "two files for samples"),
        ({"X__trn__npz": X}, "the train split has no labels"),
        ({"Y__trn__npz": Y}, "the train split has no features"),
        ({"X__trn__npz": X, "Y__trn__npz": Y, "Y1__npz": Y1}, "no group_labels"),
        ({"X__trn__npz": X, "Y__trn__npz": Y, "Y2__npz": Y2}, "no membership"),
        ({"train__txt": (X, Y), "labels__txt": "a\nb\n", "Yf__txt": "a\nb\n"}, "two files of label names"),
        ({"train__txt": (X, Y), "labels__txt": "a\n"}, "1 names for 2"),
        ({"X__trn__npz": X, "Y__trn__npz": Y[:3]}, "features has 4 rows, labels has 3 rows"),
        ({"X__trn__npz": X, "Y1__npz": Y1, "Y2__npz": Y2[:2]}, "group_labels of train has 2, membership"),
        ({"X__trn__npz": X, "Y1__npz": Y1[:3], "Y2__npz": Y2}, "features has 4 rows, membership has 3 rows"),
        ({"X__trn__npz": X, "Y__trn__npz": Y, "Y1__npz": Y1, "Y2__npz": Y2[:, :1]}, "labels of train has 2, group"),
        ({"train__txt": (X, Y), "train_groups__txt": "0\n"}, "1 group ids for 4 samples"),
        ({"train__txt": (X, Y), "test__txt": (X[:, :2], Y)}, "train has 3, test has 2"),
        ({"train__txt": (X, Y), "test__txt": (X, Y[:, :1])}, "train has 2, test has 1"),
        ({"train__txt": (X, Y), "filter_labels_train__txt": "9 0\n"}, "row 9 is beyond"),
        ({"train__txt": gzip.compress(b"4 3 2\n1 1:1\n")[:-4]}, "cut short"),
    ],
)
def test_what_does_not_fit_is_an_error(make, named, says):
    folder = make(**named)
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert says in str(caught.value)
    assert caught.value.fix


def test_the_error_lists_what_is_there_and_what_was_looked_for(make):
    folder = make(readme__md="hello", data__csv="1,2")
    with pytest.raises(DataError) as caught:
        recognise(folder)
    assert "data.csv, readme.md" in caught.value.why
    for name in ("train.txt", "trn_X_Xf.txt", "X.trn.npz", "dataset.json", "Y1.*"):
        assert name in caught.value.fix
    with pytest.raises(DataError, match="there is no folder"):
        recognise(f"{folder}/none")


def test_one_of_several_is_chosen_by_name(make):
    folder = make(train__txt=(X, Y), X__trn__npz=X * 2, Y__trn__npz=Y)
    with pytest.raises(DataError, match="format='npz' or 'xmc'"):
        recognise(folder)
    same(read_dataset(folder, format="npz").train.X, X * 2)
    with pytest.raises(DataError, match="in format svmlight"):
        read_dataset(folder, format="svmlight")
