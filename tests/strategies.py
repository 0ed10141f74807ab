"""Generators of sparse matrices for property tests. Hold no assertions; those of texts are in formats/strategies.py."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

finite_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
weights = st.floats(-8, 8, width=32)


@st.composite
def csr_matrices(draw, *, n_rows=None, n_columns=None, values=weights, most: int = 8) -> sp.csr_matrix:
    """Sorted, unique, float32; with empty rows and columns, explicit zeros, and sizes down to 0 x 0."""
    height = draw(st.integers(0, most)) if n_rows is None else n_rows
    width = draw(st.integers(0, most)) if n_columns is None else n_columns
    columns = st.lists(st.integers(0, max(0, width - 1)), unique=True, max_size=width).map(sorted)
    rows = [draw(columns) if width else [] for _ in range(height)]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([column for row in rows for column in row], dtype=np.int32)
    data = np.array(draw(st.lists(values, min_size=len(indices), max_size=len(indices))), dtype=np.float32)
    return sp.csr_matrix((data, indices, indptr), shape=(height, width))


def label_matrices(**sizes) -> st.SearchStrategy[sp.csr_matrix]:
    """CSR of ones."""
    return csr_matrices(values=st.just(1.0), **sizes)


@st.composite
def shuffled_csr(draw) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(the entries of each row in some order, the same sorted)."""
    matrix = draw(csr_matrices())
    data, indices = matrix.data.copy(), matrix.indices.copy()
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        order = start + np.array(draw(st.permutations(range(stop - start))), dtype=np.int64)
        data[start:stop], indices[start:stop] = matrix.data[order], matrix.indices[order]
    return sp.csr_matrix((data, indices, matrix.indptr), shape=matrix.shape), matrix
