"""Rows of samples as the plan of stage assign takes them, and what is computed once for all chunks of labels.

Chunks of labels share most of their samples and groups. So their coordinates, and what leaves groups out of their own
scores, are computed part by part and stored; a chunk reads what it needs. Holds no algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle.kinship import kinship_areas, kinship_of_groups
from xpipe.eagle.plan import Shared
from xpipe.eagle.problem import as_ones
from xpipe.eagle.whitening import coordinates_of, whiten
from xpipe.engine.messages import Finished
from xpipe.ground.sparse_rows import entries_of_rows, row_pointers
from xpipe.stages.arrays import open_array, read_array, take_rows_of_arrays, write_array
from xpipe.stages.assign.decided import decision_of
from xpipe.stages.assign.messages import Assignment, GroupsPart, RowsPart, Settled
from xpipe.stages.label_chunks import MEAN, rows_of_samples
from xpipe.stages.matrices import load_group_matrix, open_matrix


@dataclass(frozen=True)
class StoredRows:
    """Feature rows in the store, as a plan takes them. They have length 1, so no value needs scaling.

    settled: where coordinates and kinship may be stored.
    """

    folder: str
    assignment: Assignment
    settled: Settled | None = None

    def take(self, samples: np.ndarray | None, *, scaled: bool) -> sp.csr_matrix:
        features = self.assignment.features
        return rows_of_samples(
            features, np.arange(open_matrix(features, "train").n_rows) if samples is None else samples
        )

    def mean(self, *, scaled: bool) -> np.ndarray:
        return read_array(self.folder, MEAN)

    def coordinates(self, samples: np.ndarray | None) -> np.ndarray | None:
        if self.settled is None or not self.settled.coordinates or samples is None:
            return None
        starts = open_matrix(self.assignment.features, "train").starts
        return take_rows_of_arrays(self.folder, self.settled.coordinates, starts, samples)

    def kinship(self, groups: np.ndarray | None) -> Kinship | None:
        if self.settled is None or not self.settled.kinship or groups is None:
            return None
        areas = _areas(self.settled)
        wanted = row_pointers(np.maximum(areas[groups], 0))
        found = np.concatenate([np.zeros(0, np.float32), *_read_kinship(self.folder, self.settled, groups, areas)])
        return Kinship(np.where(areas[groups] >= 0, wanted[:-1], -1), found)

    def shared(self) -> Shared | None:
        if self.settled is None or not self.settled.kinship:
            return None
        return Shared((self.folder,), _membership(self.settled), self._row_lengths)  # the folder's name has the key

    def _row_lengths(self) -> np.ndarray:
        parts = open_matrix(self.assignment.features, "train").parts()
        return np.concatenate([np.diff(triple.indptr) for _, triple in parts])


def _areas(settled: Settled) -> np.ndarray:
    """How many numbers leave each group out; -1: the group is too large."""
    assert settled.choice is not None  # only `discriminative` leaves groups out
    sizes = np.asarray(_membership(settled).getnnz(axis=0))
    return kinship_areas(sizes, settled.choice.most_members)


def _membership(settled: Settled) -> sp.csr_matrix:
    """All samples and their groups (Y1)."""
    return as_ones(load_group_matrix(settled.assignment.membership), "membership (Y1)")


def _read_kinship(folder: str, settled: Settled, groups: np.ndarray, areas: np.ndarray) -> Iterator[np.ndarray]:
    """What leaves some groups out, ascending, from file after file; of local files only their pages are read."""
    for path, first, last in settled.kinship:
        some = groups[slice(*np.searchsorted(groups, (first, last)))] - first
        if len(some):
            yield open_array(folder, path)[entries_of_rows(row_pointers(np.maximum(areas[first:last], 0)), some).places]


def write_coordinates(folder: str, unit: RowsPart, shared: Settled) -> Finished[None]:
    """Store the coordinates of one part of the samples."""
    rows = rows_of_samples(shared.assignment.features, np.arange(unit.start, unit.start + unit.size))
    whitener = decision_of(folder, shared).whitener
    assert whitener is not None  # only `discriminative` comes here
    return Finished((write_array(folder, f"coordinates/{unit.name}.npy", coordinates_of(rows, whitener)),), None)


def write_kinship(folder: str, unit: GroupsPart, shared: Settled) -> Finished[None]:
    """Store what leaves some groups out of their own scores."""
    decision, rows = decision_of(folder, shared), StoredRows(folder, shared.assignment, shared)
    assert decision.whitener is not None  # only `discriminative` comes here
    assert decision.choice is not None
    members = sp.csr_matrix(_membership(shared)[:, unit.first : unit.last])
    samples = np.flatnonzero(members.getnnz(axis=1))
    whitened = whiten(rows.take(samples, scaled=True), decision.whitener, 1, rows.coordinates(samples))
    found = kinship_of_groups(whitened, sp.csr_matrix(members[samples]), decision.choice.most_members, threads=1)
    return Finished((write_array(folder, f"kinship/{unit.name}.npy", found.values),), None)
