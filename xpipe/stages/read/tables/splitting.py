"""Which rows of a table are held out: a share of them, chosen by the seed, so that no group is in both splits.

Holds no files.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from xpipe.errors import DataError
from xpipe.ground.seeding import permutation


def hold_out(n_rows: int, membership: sp.csr_matrix | None, share: float, seed: int, where: str) -> np.ndarray:
    """The rows that are held out, as a mask. Rows that share a group, directly or through others, stay together.

    membership: rows x groups; None where rows have no groups. Raises DataError where no choice leaves rows for both.
    """
    blocks = np.arange(n_rows) if membership is None else _blocks(membership)
    sizes = np.bincount(blocks, minlength=1)
    wanted = max(1, round(share * n_rows))
    taken, chosen = 0, np.zeros(len(sizes), dtype=bool)
    for block in permutation(len(sizes), seed, "read", "holdout"):
        if taken + sizes[block] <= wanted:
            chosen[block] = True
            taken += sizes[block]
        if taken == wanted:
            break
    if not taken or taken == n_rows:
        largest = int(sizes.min()) if len(sizes) else 0
        raise DataError(
            f"data.holdout cannot set {wanted:,} of {n_rows:,} rows aside", where=where,
            why=f"a group is never split, and the smallest one has {largest:,} rows" if membership is not None
            else "the table is too small",
            fix="another share, or a `test` table",
        )  # fmt: skip
    held: np.ndarray = chosen[blocks]
    return held


def _blocks(membership: sp.csr_matrix) -> np.ndarray:
    """For each row the number of its block: rows that groups connect. Blocks are numbered by their first rows."""
    n_rows, n_groups = membership.shape
    if not n_groups:
        return np.arange(n_rows)
    edges = sp.bmat([[None, membership], [membership.T, None]], format="csr")
    _, found = connected_components(edges, directed=False)
    _, first, numbers = np.unique(found[:n_rows], return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    return np.asarray(order[numbers], dtype=np.int64)
