"""read_sparse and write_sparse: split files, npz and Parquet by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats import oracles, strategies
from xpipe.errors import DataError
from xpipe.formats import read_sparse, write_sparse


def test_a_split_file_keeps_weights_and_empty_rows(tmp_path):
    path = tmp_path / "trn_X_Y.txt"
    path.write_text("3 4\n0:0.5 3:1\n\n1:2\n")
    found = read_sparse(str(path))
    assert found.shape == (3, 4)
    np.testing.assert_array_equal(found.toarray(), [[0.5, 0, 0, 1], [0, 0, 0, 0], [0, 2, 0, 0]])


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("3 4 5\n", "the header must be `n_rows n_columns`", "m.txt:1, found '3 4 5'"),
        ("", "the file is empty", "m.txt"),
        ("1 4\n1,2 3:1\n", "a token without ':' among the columns", "m.txt:2, token '1,2'"),
        ("1 4\n4:1\n", "column 4 is beyond the last one, 3", "m.txt:2, token '4:1'"),
        ("1 4\n1:1 1:2\n", "column 1 comes twice in one row", "m.txt:2, token '1:2'"),
        ("2 4\n1:1\n", "1 rows instead of 2", "m.txt:1"),
    ],
)
def test_bad_split_files(tmp_path, text, what, where):
    path = tmp_path / "m.txt"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_sparse(str(path))
    assert what in caught.value.what
    assert caught.value.where.endswith(where)


def test_three_numbers_are_recognised_as_xmc_text(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text("3 4 5\n")
    with pytest.raises(DataError, match="read it with read_xmc"):
        read_sparse(str(path))


def test_without_a_header(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text("1:1\n3:1\n")
    assert read_sparse(str(path), header=False, n_columns=4).shape == (2, 4)
    with pytest.raises(DataError, match=r"n_columns: the largest index seen is 3 .counted from 0., so at least 4"):
        read_sparse(str(path), header=False)


@pytest.mark.parametrize("name", ["m.txt", "m.txt.gz", "m.npz", "m.parquet"])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_round_trip(tmp_path_factory, name, data):
    matrix = data.draw(strategies.matrices())
    path = str(tmp_path_factory.getbasetemp() / name)
    write_sparse(path, matrix)
    oracles.assert_same(read_sparse(path), matrix)


def test_round_trip_counted_from_1(tmp_path):
    matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
    path = tmp_path / "m.txt"
    write_sparse(str(path), matrix, index_base=1)
    assert path.read_text() == "3 3\n1:1\n2:1\n3:1\n"
    oracles.assert_same(read_sparse(str(path), index_base=1), matrix)


def test_sizes_and_bases_for_binary_files(tmp_path):
    matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
    path = str(tmp_path / "m.npz")
    write_sparse(path, matrix)
    read_sparse(path, n_rows=3, n_columns=3)
    with pytest.raises(DataError, match="n_columns is 3, you say 4"):
        read_sparse(path, n_columns=4)
    for act in (lambda: read_sparse(path, index_base=1), lambda: write_sparse(path, matrix, index_base=1)):
        with pytest.raises(DataError, match="is for text"):
            act()
