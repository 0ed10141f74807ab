"""The CSR rules: canonical against scipy, errors that name row and column, norms against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, finite_float32, shuffled_csr
from xpipe.errors import DataError
from xpipe.ground.sparse import Triple, canonical, check_shapes, row_norms, to_matrix, to_triple


def assert_canonical(matrix: sp.csr_matrix) -> None:
    assert isinstance(matrix, sp.csr_matrix)
    assert matrix.data.dtype == np.float32
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    again = sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)  # recomputes the flags
    again.check_format(full_check=True)
    assert again.has_canonical_format


def assert_same(found: sp.csr_matrix, wanted: sp.csr_matrix) -> None:
    assert found.shape == wanted.shape
    assert oracles.rows_of(found) == oracles.rows_of(wanted)


@given(shuffled_csr())
def test_unsorted_rows_are_sorted_and_the_input_is_left_alone(both):
    shuffled, wanted = both
    before = shuffled.indices.copy()
    found = canonical(shuffled)
    assert_canonical(found)
    assert_same(found, wanted)
    np.testing.assert_array_equal(shuffled.indices, before)


@given(csr_matrices(values=finite_float32), st.sampled_from(["csc", "coo", "lil", "dok", "csr", "bsr"]))
def test_every_scipy_format_gives_what_scipy_gives(matrix, form):
    other = matrix.asformat(form)
    found = canonical(other)
    assert_canonical(found)
    assert found.shape == matrix.shape
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


@given(csr_matrices(), st.sampled_from([np.float64, np.int64, np.int8, np.bool_]))
def test_other_types_of_values_and_indices(matrix, kind):
    other = sp.csr_matrix(matrix.astype(kind))
    other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    found = canonical(sp.csr_array(other))
    assert_canonical(found)
    np.testing.assert_array_equal(found.toarray(), other.toarray().astype(np.float32))


def test_explicit_zeros_are_kept():
    found = canonical(sp.csr_matrix(([0.0, -0.0], [0, 2], [0, 2]), shape=(1, 3)))
    assert found.nnz == 2
    assert np.signbit(found.data).tolist() == [False, True]


@pytest.mark.parametrize("n_empty", [0, 2])
def test_an_entry_twice_names_row_and_column(n_empty):
    indptr = [0, *[1] * (n_empty + 1), 4]
    matrix = sp.csr_matrix(([1, 2, 3, 4], [5, 5, 3, 5], indptr), shape=(len(indptr) - 1, 6))
    with pytest.raises(DataError, match="labels has an entry twice") as caught:
        canonical(matrix, "labels")
    assert caught.value.where == f"row {n_empty + 1}, column 5"
    assert "sum_duplicates" in caught.value.fix


def test_the_same_column_in_neighbouring_rows_is_no_twin():
    matrix = sp.csr_matrix(([1, 2, 3], [5, 5, 5], [0, 1, 1, 2, 3, 3]), shape=(5, 6))
    assert_same(canonical(matrix), matrix)


def test_an_entry_twice_in_coo_is_not_added_up():
    twice = sp.coo_matrix(([1.0, 2.0, 4.0, 1.0], ([0, 2, 2, 1], [1, 3, 3, 0])), shape=(3, 4))
    with pytest.raises(DataError, match="an entry twice") as caught:
        canonical(twice)
    assert caught.value.where == "row 2, column 3"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39, -3.5e38])
def test_values_that_float32_cannot_hold(value):
    matrix = sp.csr_matrix(([1.0, value, 2.0], [0, 4, 1], [0, 1, 1, 2, 3]), shape=(4, 5))
    with pytest.raises(DataError, match="features has a value that is not finite as float32") as caught:
        canonical(matrix, "features")
    assert str(value) in caught.value.what
    assert caught.value.where == "row 2, column 4"


@pytest.mark.parametrize("column", [-1, 3])
def test_a_column_outside_the_matrix(column):
    matrix = sp.csr_matrix((2, 3), dtype=np.float32)
    matrix.data, matrix.indices = np.ones(1, np.float32), np.array([column], np.int32)
    matrix.indptr = np.array([0, 1, 1], np.int32)
    with pytest.raises(DataError, match=r"a column index outside 0\.\.2"):
        canonical(matrix)


def test_row_pointers_that_go_down():
    matrix = sp.csr_matrix((3, 3), dtype=np.float32)
    matrix.data, matrix.indices = np.ones(2, np.float32), np.array([0, 1], np.int32)
    matrix.indptr = np.array([0, 2, 1, 2], np.int32)
    with pytest.raises(DataError, match="row pointers that go down"):
        canonical(matrix)


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (np.eye(2), "must be a scipy sparse matrix, not ndarray"),
        ([[1]], "not list"),
        (sp.csr_matrix(np.array([[1j]])), "must hold real numbers, not complex128"),
        (sp.csr_matrix((1, 2**31)), "has 2,147,483,648 columns"),
    ],
)
def test_what_is_no_matrix_of_ours(matrix, says):
    with pytest.raises(DataError, match=says):
        canonical(matrix)


@given(csr_matrices(values=finite_float32))
def test_triples_and_back(matrix):
    triple = to_triple(matrix)
    assert [array.dtype for array in triple] == [np.int64, np.int32, np.float32]
    assert triple.n_rows == matrix.shape[0]
    back = to_matrix(triple, matrix.shape[1])
    assert_canonical(back)
    assert_same(back, matrix)
    assert back.data is triple.values


def test_shapes_that_fit():
    X, Y, Y1, Y2 = (sp.csr_matrix(shape) for shape in ((4, 9), (4, 5), (4, 2), (2, 5)))
    check_shapes(X, Y=Y, Y1=Y1, Y2=Y2)
    check_shapes(X)
    check_shapes(sp.csr_matrix((0, 9)), Y=sp.csr_matrix((0, 5)))


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"Y": (3, 5)}, "features have 4 rows, labels 3"),
        ({"Y1": (5, 2), "Y2": (2, 5)}, "features have 4 rows, membership (Y1) 5"),
        ({"Y1": (4, 3), "Y2": (2, 5)}, "membership (Y1) has 3 groups, group_labels (Y2) 2"),
        ({"Y": (4, 6), "Y1": (4, 2), "Y2": (2, 5)}, "labels have 6 columns, group_labels (Y2) 5"),
        ({"Y1": (4, 2)}, "membership (Y1) and group_labels (Y2) must be given together"),
        ({"Y": (1, 5), "Y2": (2, 6)}, "features have 4 rows, labels 1; labels have 5 columns, group_labels (Y2) 6; "
                                      "membership (Y1) and group_labels (Y2) must be given together"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_all_told(shapes, says):
    with pytest.raises(DataError, match="do not fit each other") as caught:
        check_shapes(sp.csr_matrix((4, 9)), **{name: sp.csr_matrix(shape) for name, shape in shapes.items()})
    assert caught.value.why == says


@given(csr_matrices(values=finite_float32))
def test_row_norms(matrix):
    found = row_norms(to_triple(matrix))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, oracles.row_norms(matrix), rtol=1e-14)


@given(csr_matrices(values=finite_float32), st.data())
def test_the_norm_of_a_row_does_not_depend_on_its_neighbours(matrix, data):
    start = data.draw(st.integers(0, matrix.shape[0]))
    np.testing.assert_array_equal(row_norms(to_triple(matrix))[start:], row_norms(to_triple(matrix[start:])))


def test_row_norms_of_long_rows_are_the_same_in_any_company():
    values = np.random.default_rng(0).random(20_000).astype(np.float32)
    whole = row_norms(Triple(np.array([0, 7, 7, 10_001, 20_000]), np.zeros(20_000, np.int32), values))
    alone = row_norms(Triple(np.array([0, 9_994]), np.zeros(9_994, np.int32), values[7:10_001]))
    assert whole[1] == 0
    assert whole[2] == alone[0]
