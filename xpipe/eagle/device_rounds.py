"""Which labels' rounds run on a device, in which batches, and how their results come back.

Holds no kernels (`_rounds_cupy`) and no layout of rows (`device_rows`). Which labels go to the device depends on the
data alone. How many are in a batch depends on free memory; a label's numbers do not depend on the others of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpipe.eagle._posteriors_numba import Pairs
from xpipe.eagle._rounds_cupy import LabelSlots, Rounds, cut_by_bytes, visit_bytes
from xpipe.eagle._rounds_numba import Cells, Schedule
from xpipe.eagle.device_rows import DeviceRows, free_bytes
from xpipe.ground.sparse_rows import entries_of_rows, entry_rows

MOST_STEPS = 1024  # groups of a label; one with more stays on the CPU: few others share the steps of its long rounds
BATCH_SHARE = 0.5  # of the free memory of the device, for the labels of a batch
VISIT_SHARE = 0.25  # the same, for groups that are visited together
MEMBER_BYTES, PAIR_BYTES = 60, 60  # of a batch, for each member of a group of a label, and for each pair


class OnDevice(NamedTuple):
    """Rows on a device, and the numbers there of the samples and groups of a chunk of labels; None: the same ones."""

    rows: DeviceRows
    samples: np.ndarray | None = None
    groups: np.ndarray | None = None


def in_step(n_groups: np.ndarray) -> np.ndarray:
    """Which labels' rounds run on the device, by the number of their groups; bool."""
    return n_groups <= MOST_STEPS


def fit_labels(
    on_device: OnDevice,
    labels: np.ndarray,
    pairs: Pairs,
    schedule: Schedule,
    cells: Cells,
    posterior: np.ndarray,
    score: np.ndarray,
) -> None:
    """`_rounds_numba.fit_labels` on a device; fills posterior, score and cells at these labels."""
    rows = on_device.rows
    free = free_bytes(rows.xp)
    filled = labels[np.diff(pairs.samples.starts)[labels] > 0]
    for batch in _batches(on_device, filled, pairs, int(BATCH_SHARE * free)):
        places = entries_of_rows(pairs.samples.starts, batch)
        samples = _numbers(on_device.samples, pairs.samples.items[places.places])
        keys = entry_rows(places.indptr) * rows.n_samples + samples
        slots, having_at = _slots(on_device, batch, pairs.groups, keys)
        lacking, lacking_at = _slots(on_device, batch, cells.lacking, keys)
        rounds = Rounds(rows, slots, int(VISIT_SHARE * free))
        rounds.start()
        rounds.alternate(schedule)
        found = rounds.finish(cells.quarters, lacking)
        posterior[places.places], score[places.places] = found.posterior, found.score
        if len(cells.quarters):
            for sums, of, at, logs in (
                (cells.having_sums, pairs.groups, having_at, found.having),
                (cells.lacking_sums, cells.lacking, lacking_at, found.lacking),
            ):
                sums[entries_of_rows(of.starts, batch).places] = -np.inf  # groups without members
                sums[at] = logs


def _slots(on_device: OnDevice, batch: np.ndarray, of: Any, keys: np.ndarray) -> tuple[LabelSlots, np.ndarray]:
    """The groups with members that `of` lists for the labels of a batch, and where it lists them."""
    listed = entries_of_rows(of.starts, batch)
    label, groups = entry_rows(listed.indptr), _numbers(on_device.groups, of.items[listed.places])
    filled = on_device.rows.counts.members[groups] > 0
    return LabelSlots(len(batch), label[filled], groups[filled], keys), listed.places[filled]


def _numbers(of: np.ndarray | None, chosen: np.ndarray) -> np.ndarray:
    """The numbers on the device, int64."""
    found: np.ndarray = (chosen if of is None else of[chosen]).astype(np.int64)
    return found


def _batches(on_device: OnDevice, labels: np.ndarray, pairs: Pairs, most: int) -> Iterator[np.ndarray]:
    """Labels with about equally many groups, as many as fit into `most` bytes together."""
    rows, (starts, items) = on_device.rows, pairs.groups
    order = labels[np.argsort(-np.diff(starts)[labels], kind="stable")]
    groups = _numbers(on_device.groups, items)
    members, visits = rows.counts.members[groups], visit_bytes(rows, groups)
    n_bytes = np.zeros(len(starts) - 1, np.int64)
    of_label = entry_rows(starts)
    np.maximum.at(n_bytes, of_label, visits)  # the largest visit: the groups of a step are visited together
    n_bytes += np.bincount(of_label, MEMBER_BYTES * members, len(n_bytes)).astype(np.int64)
    n_bytes += PAIR_BYTES * np.diff(pairs.samples.starts) + 4 * (rows.n_features + rows.rank)
    yield from cut_by_bytes(order, n_bytes[order], most)
