"""read_svmlight and write_svmlight."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats import oracles, strategies
from xpipe.errors import DataError
from xpipe.formats import read_svmlight, write_svmlight

SIZES = {"n_features": 9, "n_labels": 5}


def write(folder, text: str) -> str:
    path = folder / "train.svm"
    path.write_text(text)
    return str(path)


def test_comments_are_no_rows(tmp_path):
    path = write(tmp_path, "# 3 samples\n1,2 1:1 # first\n  # none\n 2:2#second\n3#third\n")
    X, Y = read_svmlight(path, **SIZES)
    np.testing.assert_array_equal(X.toarray()[:, 1:3], [[1, 0], [0, 2], [0, 0]])
    assert Y.indices.tolist() == [1, 2, 3]
    assert Y.indptr.tolist() == [0, 2, 2, 3]


def test_sizes_are_needed_and_the_error_names_what_is_in_the_file(tmp_path):
    path = write(tmp_path, "1,4 1:1 8:1\n2 3:x\n")
    with pytest.raises(DataError) as caught:
        read_svmlight(path)
    assert "largest index seen is 8 (counted from 0), so at least 9" in caught.value.fix
    assert "largest index seen is 4 (counted from 0), so at least 5" in caught.value.fix


@pytest.mark.parametrize(
    ("line", "token", "says"),
    [
        ("1 qid:3 1:1", "qid:3", "a query id"),
        ("+1 1:1", "+1", "label '+1' is not a whole number"),
        ("-1 1:1", "-1", "label -1 is negative"),
        ("1.0 1:1", "1.0", "label '1.0' is not a whole number"),
        ("1 1:nan#x", "1:nan#x", "the value nan is not finite"),
    ],
)
def test_bad_rows(tmp_path, line, token, says):
    path = write(tmp_path, f"# comment\n{line}\n")
    with pytest.raises(DataError) as caught:
        read_svmlight(path, **SIZES)
    assert says in caught.value.what
    assert caught.value.where.endswith(f"train.svm:2, token {token!r}")


def test_blank_lines(tmp_path):
    path = write(tmp_path, "1 1:1\n\n2 2:2\n")
    with pytest.raises(DataError, match=r"train\.svm:2"):
        read_svmlight(path, **SIZES)
    assert read_svmlight(path, n_samples=3, **SIZES)[0].shape == (3, 9)


@settings(deadline=None)
@given(data=st.data(), base=st.sampled_from([0, 1]))
def test_round_trip(tmp_path_factory, data, base):
    X = data.draw(strategies.matrices())
    Y = data.draw(strategies.matrices(n_rows=X.shape[0], ones=True))
    path = str(tmp_path_factory.getbasetemp() / "round.svm")
    write_svmlight(path, X, Y, index_base=base)
    if X.shape[0] == 0:
        return  # a file without rows is empty, and an empty file is an error
    found, labels = read_svmlight(path, n_features=X.shape[1], n_labels=Y.shape[1], index_base=base)
    oracles.assert_same(labels, Y)
    np.testing.assert_array_equal(found.toarray(), X.toarray())


def test_a_sample_without_anything_is_written_with_a_zero(tmp_path):
    path = tmp_path / "a.svm"
    empty = sp.csr_matrix((2, 3), dtype=np.float32)
    write_svmlight(str(path), empty, empty, index_base=1)
    assert path.read_text() == " 1:0\n 1:0\n"
