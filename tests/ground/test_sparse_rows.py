"""Operations on CSR rows against plain lists of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, finite_float32
from xpipe.ground.sparse import Triple, to_triple
from xpipe.ground.sparse_rows import (
    binarised,
    concatenate,
    entries_of_rows,
    entry_rows,
    join_entries,
    keep_entries,
    matrix_with_ones,
    row_pointers,
    slice_rows,
    sort_rows,
    take_rows,
    with_ones,
    without_columns,
)

TYPES = [np.int64, np.int32, np.float32]


def assert_same(found: Triple, expected: Triple) -> None:
    assert [array.dtype for array in found] == TYPES
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 2], np.array([True, False, True]), np.array([2, 1], np.int32)])
def test_pointers_are_running_sums(lengths):
    found = row_pointers(lengths)
    assert found.dtype == np.int64
    assert found.tolist() == [sum(int(length) for length in lengths[:row]) for row in range(len(lengths) + 1)]


@given(csr_matrices())
def test_every_entry_knows_its_row(matrix):
    rows = [row for row, entries in enumerate(oracles.rows_of(matrix)) for _ in entries]
    assert entry_rows(matrix.indptr).tolist() == rows


@given(csr_matrices(), st.data())
def test_rows_are_taken_in_any_order_with_repeats(matrix, data):
    n_rows = matrix.shape[0]
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=12)) if n_rows else []
    found = take_rows(to_triple(matrix), np.array(rows, dtype=np.int64))
    assert [array.dtype for array in found] == TYPES
    assert oracles.rows_of(found) == oracles.take_rows(matrix, rows)
    indptr, places = entries_of_rows(matrix.indptr, np.array(rows, dtype=np.int64))  # int32 pointers of scipy
    assert indptr.tolist() == found.indptr.tolist()
    assert matrix.indices[places].tolist() == found.indices.tolist()


@given(csr_matrices(), st.data())
def test_slices_one_below_the_other_are_the_matrix(matrix, data):
    triple, n_rows = to_triple(matrix), matrix.shape[0]
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    pieces = [slice_rows(triple, 0, start), slice_rows(triple, start, stop), slice_rows(triple, stop, n_rows)]
    assert oracles.rows_of(pieces[1]) == oracles.take_rows(matrix, list(range(start, stop)))
    assert all(piece.indptr[0] == 0 for piece in pieces)
    assert_same(concatenate(pieces), triple)


def test_nothing_to_concatenate():
    assert_same(concatenate([]), Triple(np.zeros(1), np.zeros(0), np.zeros(0)))


@given(csr_matrices(), st.data())
def test_entries_are_kept(matrix, data):
    triple = to_triple(matrix)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=matrix.nnz, max_size=matrix.nnz)), dtype=bool)
    found = keep_entries(triple, keep)
    assert [array.dtype for array in found] == TYPES
    kept = iter(keep.tolist())
    expected = [{column: value for column, value in row.items() if next(kept)} for row in oracles.rows_of(matrix)]
    assert oracles.rows_of(found) == expected


@given(csr_matrices(), st.sets(st.integers(0, 12)))
def test_columns_are_left_out(matrix, columns):
    found = without_columns(to_triple(matrix), np.array(sorted(columns), dtype=np.int64))
    expected = [
        {column: value for column, value in row.items() if column not in columns} for row in oracles.rows_of(matrix)
    ]
    assert oracles.rows_of(found) == expected


@given(csr_matrices())
def test_sorted_rows(matrix):
    triple = to_triple(matrix)
    turned = Triple(triple.indptr, triple.indices.copy(), triple.values.copy())
    for row in range(triple.n_rows):
        part = slice(triple.indptr[row], triple.indptr[row + 1])
        turned.indices[part], turned.values[part] = triple.indices[part][::-1], triple.values[part][::-1]
    assert_same(sort_rows(turned), triple)


def test_ones():
    matrix = sp.csr_matrix((np.array([0.0, 2.0, -1.0], np.float32), np.array([0, 1, 1]), np.array([0, 2, 3])), (2, 3))
    assert with_ones(to_triple(matrix)).values.tolist() == [1, 1, 1]
    assert matrix_with_ones(matrix).toarray().tolist() == [[1, 1, 0], [0, 1, 0]]
    assert binarised(matrix).toarray().tolist() == [[0, 1, 0], [0, 1, 0]]
    assert matrix.data.tolist() == [0, 2, -1]


@given(csr_matrices(n_rows=5, values=finite_float32), csr_matrices(n_rows=5, values=finite_float32))
def test_join_entries(left, right):
    found = join_entries(to_triple(left), to_triple(right))
    assert [array.dtype for array in found] == [np.int64, np.int32, np.float32]
    for row in range(5):
        wanted = [
            (int(index), float(value))
            for matrix in (left, right)
            for index, value in zip(matrix[row].indices, matrix[row].data, strict=True)
        ]
        inside = slice(found.indptr[row], found.indptr[row + 1])
        pairs = list(zip(found.indices[inside].tolist(), found.values[inside].tolist(), strict=True))
        assert pairs == sorted(wanted, key=lambda pair: pair[0])
