"""Groups that lack a label, scored for blocks of labels together: which labels these are, and who looks at which group.

Holds no arithmetic (`_lacking_numba`) and no rounds (`rounds`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xpipe.eagle import _lacking_numba as kernels
from xpipe.eagle._lacking_numba import Lacking, Visits
from xpipe.eagle._rounds_numba import Cells, Kinship
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.parts import in_parts, part_of
from xpipe.ground.sparse_rows import entries_of_rows

MOST_MEMBERS = 1 << 22  # members of lacking groups in a block (32 MiB); a block that is larger reads rows less often


def blocks_of_labels(labels: np.ndarray, lacking: Lists, members: Lists) -> Iterator[np.ndarray]:
    """The labels in blocks, in their order; only a single label may have more than MOST_MEMBERS members to look at."""
    sizes = np.diff(members.starts)[lacking.items]
    of_label = np.diff(np.concatenate([[0], np.cumsum(sizes)])[lacking.starts])[labels]
    before = np.cumsum(of_label) - of_label
    yield from np.split(labels, np.flatnonzero(np.diff(before // MOST_MEMBERS)) + 1)


def lay_out_block(labels: np.ndarray, lacking: Lists, members: Lists, rank: int) -> tuple[Lacking, Visits]:
    """Room for the scores of a block, and the labels that look at each group."""
    entries = entries_of_rows(lacking.starts, labels)
    groups = lacking.items[entries.places]
    sizes = np.diff(members.starts)[groups]
    firsts, slots = np.zeros(len(lacking.items), np.int64), np.zeros(len(lacking.starts) - 1, np.int64)
    firsts[entries.places], slots[labels] = np.cumsum(sizes) - sizes, np.arange(len(labels))
    order = np.argsort(groups, kind="stable")
    looked_at, counts = np.unique(groups, return_counts=True)
    of_label = np.repeat(labels, np.diff(entries.indptr))
    n_members = int(sizes.sum())
    return (
        Lacking(
            lacking,
            firsts,
            np.empty(n_members, np.float32),
            np.empty(n_members, np.float32),
            slots,
            np.empty((len(labels), rank), np.float32),
        ),
        Visits(
            looked_at.astype(np.int32),
            Lists(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), entries.places[order].astype(np.int32)),
            of_label[order].astype(np.int32),
        ),
    )


def sum_lacking(
    visits: Visits, members: Lists, rows: Whitened, kinship: Kinship, lacking: Lacking, cells: Cells, threads: int
) -> None:
    """Fill the sums of the groups that lack the labels of a block, each read once for all labels that look at it."""
    chosen = np.arange(len(visits.groups))

    def work(part: slice) -> None:
        some = part_of(chosen, part)
        kernels.sum_lacking(some, visits, members, rows, kinship, lacking, cells.quarters, cells.lacking_sums)

    in_parts(work, threads)
