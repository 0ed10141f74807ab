"""Other programs read what is written here, and find the same rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.formats import read_svmlight, write_npz, write_svmlight, write_xmc
from xpipe.ground.sparse import to_triple

VALUES = np.array([1e-5, 1e-45, 3.4028235e38, 0.1, 1, 1e20, -2.5, 123456789, 1e-4, 2 / 3], np.float32)


@pytest.fixture
def data():
    """Rows with every kind of number, one without labels, one without features, the last with the last of both."""
    dense = np.zeros((5, 10), np.float32)
    dense[0] = VALUES
    dense[1, 3] = dense[2, 4] = dense[4, 9] = 0.5
    Y = np.zeros((5, 4), np.float32)
    Y[0, [1, 3]] = Y[1, 0] = Y[3, 2] = Y[4, 3] = 1
    return sp.csr_matrix(dense), sp.csr_matrix(Y)


def test_omikuji(data, tmp_path):
    omikuji = pytest.importorskip("omikuji")
    X, Y = data
    empty = sp.csr_matrix((1, 10), dtype=np.float32), sp.csr_matrix((1, 4), dtype=np.float32)
    path = tmp_path / "train.txt"
    write_xmc(str(path), sp.vstack([X, empty[0]]), sp.vstack([Y, empty[1]]))
    threads = omikuji._ThreadPoolHandle(1)
    found = omikuji.lib.load_omikuji_data_set(omikuji.ffi.new("char[]", str(path).encode()), threads.ptr)
    assert found != omikuji.ffi.NULL
    omikuji.lib.free_omikuji_data_set(found)


def test_napkinxc(data, tmp_path):
    datasets = pytest.importorskip("napkinxc.datasets")
    X, Y = data
    path = tmp_path / "train.txt"
    write_xmc(str(path), X, Y)
    features, labels = datasets.load_libsvm_file(str(path))
    np.testing.assert_array_equal(features.toarray(), X.toarray())
    assert [list(row) for row in labels] == [[1, 3], [0], [], [2], [3]]


@pytest.mark.parametrize("base", [0, 1])
def test_scikit_learn(data, tmp_path, base):
    datasets = pytest.importorskip("sklearn.datasets")
    X, Y = data
    X, Y = sp.vstack([X, X[:1] * 0]).tocsr(), sp.vstack([Y, Y[:1] * 0]).tocsr()
    X.eliminate_zeros()
    Y.eliminate_zeros()
    path = str(tmp_path / "train.svm")
    write_svmlight(path, X, Y, index_base=base)
    features, labels = datasets.load_svmlight_file(
        path, n_features=10, multilabel=True, zero_based=base == 0, dtype=np.float64
    )
    assert features.shape == X.shape  # the sample without anything is still there
    np.testing.assert_array_equal(features.toarray().astype(np.float32), X.toarray())
    assert labels == [(1, 3), (0,), (), (2,), (3,), ()]


def test_what_scikit_learn_writes(data, tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    X, Y = data
    path = str(tmp_path / "train.svm")
    datasets.dump_svmlight_file(X, Y, path, multilabel=True, zero_based=False, comment="made by a peer")
    features, labels = read_svmlight(path, n_features=10, n_labels=4, index_base=1)
    np.testing.assert_array_equal(features.toarray(), X.toarray())
    np.testing.assert_array_equal(labels.toarray(), Y.toarray())


def test_scipy(data, tmp_path):
    X, _ = data
    path = str(tmp_path / "X.npz")
    write_npz(path, X.shape, lambda: [to_triple(X[:2]), to_triple(X[2:])])
    found = sp.load_npz(path)
    assert found.dtype == np.float32
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), X.toarray())
