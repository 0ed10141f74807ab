"""Numbers of groups and labels that follow from their members: a choice must not depend on the numbers in the input.

Holds no choice. Samples keep their numbers: among equals, the methods take the sample with the lowest number.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.problem import as_ones
from xpipe.ground.sparse import Triple, to_triple


def renumbered(Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    """(Y1, Y2) as ones, with groups and labels in an order that their members determine, and the groups' old numbers.

    Groups without samples and labels without groups are removed. Groups are sorted by their samples, then by their
    labels; groups with the same samples and labels are interchangeable. Labels are sorted by their groups. So any
    numbering of the groups gives the same pair. Any numbering of the labels does as well, unless two groups have the
    same samples and different labels.
    """
    Y1, Y2, old = with_groups_in_order(Y1, Y2)
    of_labels = sp.csr_matrix(Y2.T)
    Y2 = sp.csr_matrix(Y2[:, _ordered(_rows(of_labels))])
    Y2.sort_indices()
    return Y1, Y2, old


def with_groups_in_order(Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    """(Y1, Y2) as ones, with the groups that have samples in the order of their samples, and their old numbers.

    Nobody in the other groups can own a label.
    """
    Y1, Y2 = as_ones(Y1, "membership (Y1)"), as_ones(Y2, "group_labels (Y2)")
    groups = _ordered(_rows(sp.csr_matrix(Y1.T)), _rows(Y2))
    if np.array_equal(groups, np.arange(Y1.shape[1])):
        return Y1, Y2, groups
    Y1, Y2 = sp.csr_matrix(Y1[:, groups]), sp.csr_matrix(Y2[groups])
    Y1.sort_indices()
    Y2.sort_indices()
    return Y1, Y2, groups


def _rows(matrix: sp.csr_matrix) -> Triple:
    """The raw arrays, with sorted indices."""
    matrix.sort_indices()
    return to_triple(matrix)


def _ordered(rows: Triple, otherwise: Triple | None = None) -> np.ndarray:
    """Numbers of the rows that have entries, sorted by their columns; equal rows by the columns of `otherwise`."""
    filled = np.flatnonzero(np.diff(rows.indptr))
    first = rows.indices[rows.indptr[filled]]
    order = filled[np.argsort(first, kind="stable")]
    starts = np.flatnonzero(np.diff(np.sort(first), prepend=-1))
    lengths = np.diff(starts, append=len(order))
    keys = [_keys(part) for part in (rows, otherwise) if part is not None]
    for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
        run = order[start : start + length].tolist()
        run.sort(key=lambda row: tuple(words[4 * ptr[row] : 4 * ptr[row + 1]] for words, ptr in keys))
        order[start : start + length] = run
    return order


def _keys(rows: Triple) -> tuple[bytes, list[int]]:
    """Columns as bytes that compare in the order of the numbers, and where each row begins."""
    return rows.indices.astype(">i4").tobytes(), rows.indptr.tolist()
