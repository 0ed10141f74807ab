"""Labels from one file of any format: one function serves evaluation, verification and users."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from tests import mutations
from xpipe.errors import DataError
from xpipe.formats import read_labels, write_sparse, write_svmlight, write_xmc

X = sp.csr_matrix(np.eye(3, dtype=np.float32))
Y = sp.csr_matrix(np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]], dtype=np.float32))


@pytest.fixture
def folder(tmp_path):
    sp.save_npz(tmp_path / "Y.npz", Y)
    write_sparse(str(tmp_path / "Y.parquet"), Y)
    write_sparse(str(tmp_path / "Y.txt"), Y, index_base=1)
    write_sparse(str(tmp_path / "tst_X_Y.txt.gz"), Y, index_base=1)
    write_xmc(str(tmp_path / "test.txt"), X, Y, label_base=1)
    write_xmc(str(tmp_path / "test.txt.gz"), X, Y, label_base=1)
    write_svmlight(str(tmp_path / "test.svm"), X, Y, label_base=1)
    bare = (tmp_path / "test.txt").read_bytes().split(b"\n", 1)[1]
    (tmp_path / "bare.txt").write_bytes(bare)
    (tmp_path / "bare.txt.gz").write_bytes(gzip.compress(bare))
    return tmp_path


@pytest.mark.parametrize("name", ["Y.npz", "Y.parquet", "Y.txt", "tst_X_Y.txt.gz", "test.txt", "test.txt.gz"])
def test_files_that_say_their_sizes(folder, name):
    assert (read_labels(str(folder / name), label_base=1) != Y).nnz == 0
    assert (read_labels(f"file://{folder / name}", label_base=1, n_labels=5) != Y).nnz == 0
    with pytest.raises(DataError, match="5, you say 4"):
        read_labels(str(folder / name), label_base=1, n_labels=4)


@pytest.mark.parametrize("name", ["test.svm", "bare.txt", "bare.txt.gz"])
def test_files_that_do_not(folder, name):
    assert (read_labels(str(folder / name), label_base=1, n_features=3, n_labels=5) != Y).nnz == 0
    with pytest.raises(DataError):
        read_labels(str(folder / name), label_base=1)


def test_what_holds_no_labels(folder):
    with pytest.raises(DataError, match="no such file"):
        read_labels(str(folder / "missing.txt"))
    mutations.write_folder("emitted", folder / "emitted")
    with pytest.raises(DataError, match="one part of an emitted dataset"):
        read_labels(str(folder / "emitted" / "split=train" / "part-00000.parquet"))
