"""No label is lost: what every method's answer is held against before anybody sees it.

Holds no method. `impute` and stage assign pass every answer through `checked`; nothing else needs to look.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.errors import StageError
from xpipe.ground.sparse import to_triple


def checked(owners: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str) -> sp.csr_matrix:
    """The owners as they are (samples x labels; the pattern counts), in time that is linear in what a group allows.

    Y1 and Y2 are ones, as `as_ones` gives them.
    Raises StageError unless every label of a group that has samples is owned by one of them, and every owner is a
    sample of a group with the label. So groups of one give back exactly their labels.
    """
    from xpipe.eagle import _numba

    sample_groups, labels, owned = to_triple(Y1), to_triple(Y2), to_triple(owners)
    groups = to_triple(sp.csr_matrix(Y1.T))
    mark = np.full(Y2.shape[1], -1, dtype=np.int64)
    group, label = _numba.find_lost(
        groups.indptr, groups.indices, labels.indptr, labels.indices, owned.indptr, owned.indices, mark
    )
    if group >= 0:
        raise StageError(
            f"`{method}` lost a label: group {group} has samples, but none of them owns label {label}",
            why="every label of a group has an owner there, whatever the data: this is a mistake in xpipe",
            fix="report it with the matrices; `method: baseline` gives every label to every sample of its groups",
        )
    mark[:] = -1
    sample, label = _numba.find_stranger(
        sample_groups.indptr, sample_groups.indices, labels.indptr, labels.indices, owned.indptr, owned.indices, mark
    )
    if sample >= 0:
        raise StageError(
            f"`{method}` gave label {label} to sample {sample}, none of whose groups has it",
            why="only labels of its groups can be a sample's, whatever the data: this is a mistake in xpipe",
            fix="report it with the matrices; `method: baseline` gives every label to every sample of its groups",
        )
    return owners
