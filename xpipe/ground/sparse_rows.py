"""Operations on the rows of CSR arrays: take, slice, join, filter and sort rows, and the pointers they need.

Holds no checks of a user's matrix (`sparse`), no files and no algorithm of a paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from xpipe.ground.sparse import Triple, to_matrix, to_triple


class RowEntries(NamedTuple):
    """Where the entries of some rows are: the pointers of these rows, and the place of each of their entries."""

    indptr: np.ndarray  # int64
    places: np.ndarray  # int64


def row_pointers(lengths: ArrayLike) -> np.ndarray:
    """Row pointers of rows with these lengths: 0, then the running sum; int64, one more than there are rows."""
    lengths = np.asarray(lengths)
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=indptr[1:])
    return indptr


def kept_pointers(indptr: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Row pointers after the entries that are False in `keep` are removed; int64.

    The differences of any such pointers are counts: `np.diff(kept_pointers(indptr, keep))` has the number of kept
    entries per row.
    """
    kept: np.ndarray = row_pointers(keep)[indptr]
    return kept


def entry_rows(indptr: np.ndarray) -> np.ndarray:
    """The row number of every entry; int64."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def entries_of_rows(indptr: np.ndarray, rows: np.ndarray) -> RowEntries:
    """Where the entries of the given rows are, in the order given; a row may be given several times."""
    rows = np.asarray(rows, dtype=np.int64)
    starts = indptr[rows].astype(np.int64, copy=False)
    lengths = indptr[rows + 1] - starts
    pointers = row_pointers(lengths)
    places = np.repeat(starts - pointers[:-1], lengths)
    places += np.arange(len(places))
    return RowEntries(pointers, places)


def take_rows(triple: Triple, rows: np.ndarray) -> Triple:
    """The given rows, in the order given; a row may be given several times."""
    indptr, places = entries_of_rows(triple.indptr, rows)
    return Triple(indptr, triple.indices[places], triple.values[places])


def slice_rows(triple: Triple, start: int, stop: int) -> Triple:
    """Rows start to stop - 1. Indices and values are views, not copies."""
    first, last = int(triple.indptr[start]), int(triple.indptr[stop])
    return Triple(triple.indptr[start : stop + 1] - first, triple.indices[first:last], triple.values[first:last])


def concatenate(pieces: Sequence[Triple]) -> Triple:
    """The rows of all pieces, one piece below the other. A single piece is returned as it is."""
    if len(pieces) == 1:
        return pieces[0]
    lengths = np.concatenate([np.diff(piece.indptr) for piece in pieces] or [np.zeros(0, dtype=np.int64)])
    return Triple(
        row_pointers(lengths),
        np.concatenate([piece.indices for piece in pieces] or [np.zeros(0, dtype=np.int32)]),
        np.concatenate([piece.values for piece in pieces] or [np.zeros(0, dtype=np.float32)]),
    )


def join_entries(left: Triple, right: Triple) -> Triple:
    """Row by row the entries of both, indices ascending; both must have as many rows."""
    lengths, more = np.diff(left.indptr), np.diff(right.indptr)
    rows = np.concatenate([np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.arange(len(more)), more)])
    indices = np.concatenate([left.indices, right.indices])
    order = np.lexsort((indices, rows))
    values = np.concatenate([left.values, right.values])
    return Triple(row_pointers(lengths + more), indices[order], values[order])


def keep_entries(triple: Triple, keep: np.ndarray) -> Triple:
    """The rows without the entries that are False in `keep` (bool, one per entry)."""
    return Triple(kept_pointers(triple.indptr, keep), triple.indices[keep], triple.values[keep])


def without_columns(triple: Triple, columns: np.ndarray) -> Triple:
    """The rows without the entries of the given columns."""
    return keep_entries(triple, ~np.isin(triple.indices, columns))


def sort_rows(triple: Triple) -> Triple:
    """The rows with their indices ascending; entries with the same index keep their order."""
    order = np.lexsort((triple.indices, entry_rows(triple.indptr)))
    return Triple(triple.indptr, triple.indices[order], triple.values[order])


def with_ones(triple: Triple) -> Triple:
    """The same entries, each with the value 1. Stored zeros become ones too (`binarised` removes them)."""
    return triple._replace(values=np.ones(len(triple.indices), dtype=np.float32))


def matrix_with_ones(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """`with_ones` for a canonical scipy matrix: every stored entry becomes 1. Shares the indices."""
    return to_matrix(with_ones(to_triple(matrix)), matrix.shape[1])


def binarised(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The entries of a matrix that are not 0, as ones.

    Parameters
    ----------
    matrix : scipy.sparse.csr_matrix
        Any values; no entry twice.

    Returns
    -------
    scipy.sparse.csr_matrix of the same shape
        float32 ones with sorted indices; a copy.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.grouping import binarised
    >>> binarised(sp.csr_matrix(np.array([[0.5, 0.0], [-2.0, 3.0]]))).toarray().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    matrix = sp.csr_matrix(matrix, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix_with_ones(matrix)
