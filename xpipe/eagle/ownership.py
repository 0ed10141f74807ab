"""No label is lost: the check that the answer of every method passes before anyone sees it.

Holds no method. The plan passes every answer through `check_owners`; no other place needs to check.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _ownership_numba as kernels
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle.problem import columns_of
from xpipe.errors import StageError
from xpipe.ground.sparse import to_triple

FIX = "report it with the matrices; `method: baseline` gives every label to every sample of its groups"


def check_owners(owners: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str) -> None:
    """Check the owners (samples x labels; every entry is an owner), in time linear in what groups allow.

    Y1 and Y2 are ones, as `as_ones` gives them. Raises StageError unless every label of a group that has samples is
    owned by one of them, and every owner is a sample of a group with the label. So groups of one sample give back
    exactly their labels.
    """
    owned, group_labels = _rows_of(owners), _rows_of(Y2)
    mark = np.full(Y2.shape[1], -1, dtype=np.int64)
    group, label = kernels.find_lost(columns_of(Y1), group_labels, owned, mark)
    if group >= 0:
        raise StageError(
            f"`{method}` lost a label: group {group} has samples, but none of them owns label {label}",
            why="every label of a group has an owner there, whatever the data: this is a mistake in xpipe",
            fix=FIX,
        )
    mark[:] = -1
    sample, label = kernels.find_stranger(_rows_of(Y1), group_labels, owned, mark)
    if sample >= 0:
        raise StageError(
            f"`{method}` gave label {label} to sample {sample}, none of whose groups has it",
            why="only labels of its groups can be a sample's, whatever the data: this is a mistake in xpipe",
            fix=FIX,
        )


def _rows_of(matrix: sp.csr_matrix) -> Lists:
    """The columns of each row."""
    triple = to_triple(matrix)
    return Lists(triple.indptr, triple.indices)
