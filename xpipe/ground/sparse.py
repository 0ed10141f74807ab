"""The CSR rules of every room: sorted unique int32 indices, finite float32 values, int64 indptr in kernels.

Holds no operations on rows (`sparse_rows`), no file reading and no algorithm of a paper.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError

NORMS_AT_ONCE = 2048  # rows whose squares are in memory as float64


class Triple(NamedTuple):
    """Raw CSR arrays as kernels and files hold them."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # int32
    values: np.ndarray  # float32

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1


def to_matrix(triple: Triple, n_columns: int) -> sp.csr_matrix:
    """A scipy CSR matrix that shares the arrays of the triple where their types allow."""
    matrix = sp.csr_matrix((triple.n_rows, n_columns), dtype=np.float32)
    index = np.int32 if triple.indptr[-1] < 2**31 else np.int64  # scipy wants one integer type for both
    matrix.indptr = triple.indptr.astype(index, copy=False)
    matrix.indices = triple.indices.astype(index, copy=False)
    matrix.data = triple.values
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def to_triple(matrix: sp.csr_matrix) -> Triple:
    """The raw arrays of a canonical CSR matrix in the storage types."""
    return Triple(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float32, copy=False),
    )


def canonical(matrix: sp.spmatrix, what: str = "matrix") -> sp.csr_matrix:
    """The matrix as CSR with sorted unique indices and finite float32 values.

    Raises DataError where entries are duplicate, out of range, or not finite as float32; `what` names the matrix.
    """
    if not sp.issparse(matrix):
        raise DataError(
            f"{what} must be a scipy sparse matrix, not {type(matrix).__name__}",
            fix="wrap it: scipy.sparse.csr_matrix(...)",
        )
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{what} must hold real numbers, not {matrix.dtype}", fix="matrix.astype(np.float32)")
    csr = sp.csr_matrix(matrix)
    if matrix.format == "coo" and csr.nnz < matrix.nnz:  # scipy has added up duplicate entries
        raise _twice(what, *_first_twin(matrix.tocoo()))
    _check_structure(csr, what)
    if not csr.has_sorted_indices:
        csr = csr.sorted_indices()
    _check_unique(csr, what)
    indptr, indices = csr.indptr.astype(np.int64), csr.indices.astype(np.int32, copy=False)
    return to_matrix(Triple(indptr, indices, _finite_values(csr, what)), csr.shape[1])


def _check_structure(csr: sp.csr_matrix, what: str) -> None:
    """Raise DataError unless row pointers ascend and column indices are in range."""
    n_columns = csr.shape[1]
    if len(csr.indptr) and (np.diff(csr.indptr) < 0).any():
        raise DataError(f"{what} has row pointers that go down", fix="rebuild the matrix from its entries")
    if n_columns >= 2**31:
        raise DataError(f"{what} has {n_columns:,} columns", why="column indices are int32", fix="hash or drop columns")
    if csr.nnz and (csr.indices.min() < 0 or csr.indices.max() >= n_columns):
        raise DataError(
            f"{what} has a column index outside 0..{n_columns - 1}", fix="rebuild the matrix with its true shape"
        )


def _check_unique(csr: sp.csr_matrix, what: str) -> None:
    """Raise DataError where a row with sorted indices has one of them twice."""
    step = np.diff(csr.indices)
    step_inside_row = np.ones(len(step), dtype=bool)
    ends = csr.indptr[1:-1]
    step_inside_row[ends[(ends > 0) & (ends < csr.nnz)] - 1] = False
    twice = np.flatnonzero((step == 0) & step_inside_row)
    if len(twice):
        raise _twice(what, _row_of_entry(csr, twice[0]), int(csr.indices[twice[0]]))


def _finite_values(csr: sp.csr_matrix, what: str) -> np.ndarray:
    """The values as float32. Raises DataError where one is not finite."""
    with np.errstate(over="ignore"):
        values: np.ndarray = csr.data.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"{what} has a value that is not finite as float32: {csr.data[bad[0]]}",
            where=f"row {_row_of_entry(csr, bad[0])}, column {int(csr.indices[bad[0]])}",
            fix="replace or drop it before reading",
        )
    return values


def _row_of_entry(csr: sp.csr_matrix, entry: int) -> int:
    """The row that an entry is in."""
    return int(np.searchsorted(csr.indptr, entry, side="right") - 1)


def _first_twin(coo: sp.coo_matrix) -> tuple[int, int]:
    """(row, column) of the first duplicate entry."""
    order = np.lexsort((coo.col, coo.row))
    row, column = coo.row[order], coo.col[order]
    first = np.flatnonzero((row[1:] == row[:-1]) & (column[1:] == column[:-1]))[0]
    return int(row[first]), int(column[first])


def _twice(what: str, row: int, column: int) -> DataError:
    """The error about a duplicate entry."""
    return DataError(
        f"{what} has an entry twice",
        where=f"row {row}, column {column}",
        fix="matrix.sum_duplicates(), if adding them up is what you mean",
    )


def check_shapes(
    X: sp.csr_matrix,
    *,
    Y: sp.csr_matrix | None = None,
    Y1: sp.csr_matrix | None = None,
    Y2: sp.csr_matrix | None = None,
) -> None:
    """Raise DataError unless features, labels, membership (Y1) and group_labels (Y2) fit each other."""
    problems = []
    if Y is not None and Y.shape[0] != X.shape[0]:
        problems.append(f"features have {X.shape[0]:,} rows, labels {Y.shape[0]:,}")
    if Y1 is not None and Y1.shape[0] != X.shape[0]:
        problems.append(f"features have {X.shape[0]:,} rows, membership (Y1) {Y1.shape[0]:,}")
    if Y1 is not None and Y2 is not None and Y1.shape[1] != Y2.shape[0]:
        problems.append(f"membership (Y1) has {Y1.shape[1]:,} groups, group_labels (Y2) {Y2.shape[0]:,}")
    if Y is not None and Y2 is not None and Y.shape[1] != Y2.shape[1]:
        problems.append(f"labels have {Y.shape[1]:,} columns, group_labels (Y2) {Y2.shape[1]:,}")
    if (Y1 is None) != (Y2 is None):
        problems.append("membership (Y1) and group_labels (Y2) must be given together")
    if problems:
        raise DataError(
            "the matrices do not fit each other",
            why="; ".join(problems),
            fix="X is samples x features, Y samples x labels, Y1 samples x groups, Y2 groups x labels",
        )


def row_norms(triple: Triple) -> np.ndarray:
    """L2 norm of each row in float64; 0 for rows without entries."""
    norms = np.zeros(triple.n_rows)
    filled = np.flatnonzero(triple.indptr[1:] > triple.indptr[:-1])
    # only filled rows: reduceat would give an empty row the first value of the next one
    for first in range(0, len(filled), NORMS_AT_ONCE):
        rows = filled[first : first + NORMS_AT_ONCE]
        start, stop = triple.indptr[rows[0]], triple.indptr[rows[-1] + 1]
        squares = np.square(triple.values[start:stop], dtype=np.float64)
        norms[rows] = np.sqrt(np.add.reduceat(squares, triple.indptr[rows] - start))
    return norms


def normalise_rows(triple: Triple) -> Triple:
    """Rows scaled to length 1; rows of zeros stay. Each row is computed alone, in float64: the cut changes nothing."""
    norms = row_norms(triple)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    values = triple.values.astype(np.float64) * np.repeat(scale, np.diff(triple.indptr))
    return triple._replace(values=values.astype(np.float32))


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written. Mapped files give such arrays, and one kind of array means one compiled kernel."""
    view = array.view()
    view.flags.writeable = False
    return view
