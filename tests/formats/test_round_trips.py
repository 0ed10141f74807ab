"""Everything that is written is read again: every format, every shape down to 0 x 0, and convert there and back."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import mutations
from tests.formats import oracles
from tests.strategies import csr_matrices, finite_float32, label_matrices
from xpipe.errors import DataError
from xpipe.formats import read_dataset, read_sparse, read_svmlight, read_xmc, write_sparse, write_svmlight, write_xmc
from xpipe.formats.convert import convert
from xpipe.formats.parquet import read_split

on_disk = settings(deadline=None, max_examples=60)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("round")


@st.composite
def datasets(draw):
    n_rows = draw(st.integers(0, 5))
    X = draw(csr_matrices(n_rows=n_rows, values=finite_float32))
    return X, draw(label_matrices(n_rows=n_rows))


@on_disk
@given(datasets(), st.sampled_from(["", ".gz"]))
def test_xmc_text_of_every_shape(place, dataset, ending):
    path = str(place / f"train.txt{ending}")
    write_xmc(path, *dataset)
    for found, wanted in zip(read_xmc(path), dataset, strict=True):
        oracles.assert_same(found, wanted)


@on_disk
@given(datasets(), st.sampled_from([0, 1]))
def test_svmlight_of_every_shape(place, dataset, base):
    """No rows, rows without anything, no features, explicit zeros in the first feature: nothing is refused or lost."""
    X, Y = dataset
    path = str(place / "train.svm")
    write_svmlight(path, X, Y, index_base=base)
    sizes = {"n_features": X.shape[1], "n_labels": Y.shape[1], "index_base": base}
    for found, wanted in zip(read_svmlight(path, **sizes), dataset, strict=True):
        oracles.assert_same(found, wanted)


@on_disk
@given(csr_matrices(values=finite_float32), st.sampled_from([".txt", ".txt.gz", ".npz", ".parquet"]))
def test_matrices_of_every_shape(place, matrix, ending):
    path = str(place / f"m{ending}")
    write_sparse(path, matrix)
    oracles.assert_same(read_sparse(path), matrix)


def test_an_explicit_zero_of_the_first_feature_is_no_empty_row(tmp_path):
    X = sp.csr_matrix((np.zeros(1, np.float32), [0], [0, 1, 1]), shape=(2, 2))
    path = tmp_path / "a.svm"
    write_svmlight(str(path), X, sp.csr_matrix((2, 1), dtype=np.float32), index_base=1)
    assert path.read_text() == " 1:0.0\n 1:0\n"
    found, _ = read_svmlight(str(path), n_features=2, n_labels=1, index_base=1)
    assert found.indptr.tolist() == [0, 1, 1]


# ---------------------------------------------------------------- convert


def same(found, wanted) -> None:
    assert (found is None) == (wanted is None)
    if wanted is not None:
        oracles.assert_same(found, wanted)


def whole_folder(folder):
    """Everything a folder can hold: splits, ids with names, filter pairs, group ids, the mark of a stand-in."""
    mutations.write_folder("xmc", folder)
    X, Y, _, _ = mutations.matrices().values()
    write_xmc(str(folder / "dev.txt"), X[4:6], Y[4:6])
    (folder / "labels.txt").write_text("".join(f"Q{i}\tname {i} é\n" for i in range(mutations.N_LABELS)))
    (folder / "SYNTHETIC.json").write_text('{"SYNTHETIC": "made up"}')
    return folder


@pytest.mark.parametrize("form", ["xmc", "split", "npz", "svmlight", "parquet"])
def test_convert_there_and_back_loses_nothing(tmp_path, form):
    source = whole_folder(tmp_path / "a")
    notes: list[str] = []
    convert(str(source), str(tmp_path / "b"), form, notes=notes)
    sizes = {"n_features": mutations.N_FEATURES, "n_labels": mutations.N_LABELS}
    reading = {"index_base": 1, **sizes} if form == "svmlight" else {}
    convert(str(tmp_path / "b"), str(tmp_path / "c"), "xmc", **reading)
    wanted = read_dataset(str(source))
    for found in (read_dataset(str(tmp_path / "b"), **reading), read_dataset(str(tmp_path / "c"))):
        assert found.label_names == wanted.label_names
        assert found.label_names.ids == [f"Q{i}" for i in range(mutations.N_LABELS)]
        assert found.feature_names == wanted.feature_names
        assert found.synthetic
        assert found.splits.keys() == wanted.splits.keys() == {"train", "test", "dev"}
        for name, split in wanted.splits.items():
            for key in ("X", "Y", "Y1", "Y2", "groups"):
                same(getattr(found.splits[name], key), getattr(split, key))
        np.testing.assert_array_equal(found.test.filter_labels, wanted.test.filter_labels)
    assert bool(notes) == (form == "svmlight")  # which cannot say its widths
    for path in source.iterdir():  # and to the byte, where the format is the same again
        assert (tmp_path / "c" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("form", ["split", "npz", "parquet"])
def test_convert_keeps_groups_and_weights(tmp_path, form):
    mutations.write_folder("grouped", tmp_path / "a")
    convert(str(tmp_path / "a"), str(tmp_path / "b"), form)
    found, wanted = read_dataset(str(tmp_path / "b")).train, read_dataset(str(tmp_path / "a")).train
    for key in ("X", "Y", "Y1", "Y2"):
        same(getattr(found, key), getattr(wanted, key))
    with pytest.raises(DataError, match="has no labels of single samples"):
        convert(str(tmp_path / "a"), str(tmp_path / "c"), "xmc")


def test_convert_of_posteriors(tmp_path):
    X, Y, _, _ = mutations.matrices().values()
    Y.data[:] = np.linspace(0.1, 0.9, Y.nnz, dtype=np.float32)
    mutations.write_emitted(tmp_path / "a", X, Y)
    ones = Y.copy()
    ones.data[:] = 1
    for form, expected in (("xmc", ones), ("svmlight", ones), ("split", Y), ("npz", Y), ("parquet", Y)):
        notes: list[str] = []
        convert(str(tmp_path / "a"), str(tmp_path / form), form, notes=notes)
        reading = {"index_base": 1, "n_features": X.shape[1], "n_labels": Y.shape[1]} if form == "svmlight" else {}
        found = read_dataset(str(tmp_path / form), **reading)
        same(found.train.X, X)
        same(found.train.Y, expected)
        assert found.label_names.names[2] == "name 2"
        assert any("label scores are left out" in note for note in notes) == (expected is ones)
    same(read_split(str(tmp_path / "a"))[1], Y)


def test_label_weights_of_the_data_are_never_left_out(tmp_path):
    write_sparse(str(tmp_path / "trn_X_Xf.txt"), mutations.matrices()["X"])
    write_sparse(str(tmp_path / "trn_X_Y.txt"), mutations.matrices()["Y"] * np.float32(0.5))
    with pytest.raises(DataError, match=r"label weight 0\.5 cannot be written"):
        convert(str(tmp_path), str(tmp_path / "out"), "xmc")
    shutil.rmtree(tmp_path / "out")
