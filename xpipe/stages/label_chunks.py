"""Chunks of labels at a worker: how labels are cut into chunks, and the rows and groups that a chunk needs.

Holds no algorithm and nothing of Dask: stages embed and assign both work on these chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished, Unit
from xpipe.ground.sparse import normalise_rows, to_matrix
from xpipe.stages.arrays import write_array
from xpipe.stages.matrices import MatrixRef, load_group_matrix, open_matrix

CHUNK_ENTRIES = 20_000_000  # feature entries that the labels of one chunk touch together; fixed, so chunks are too
MEAN = "mean/row.npy"


@dataclass(frozen=True)
class Grouped:
    """Samples, their groups, and the labels of the groups: what both stages start from."""

    features: MatrixRef
    membership: MatrixRef
    group_labels: MatrixRef
    n_labels: int
    with_mean: bool  # whether the mean row of all samples is needed
    chunk_entries: int


@dataclass(frozen=True)
class LabelChunk(Unit):
    """Labels first to last - 1, which are chunk `number`."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class LabelPlan:
    """The bounds of each chunk: its first label, and the one after its last."""

    chunks: tuple[tuple[int, int], ...]

    def units(self) -> list[LabelChunk]:
        """One unit per chunk."""
        return [
            LabelChunk(f"labels-{number:05d}", last - first, number, first, last)
            for number, (first, last) in enumerate(self.chunks)
        ]


def plan_labels(folder: str, unit: Unit, shared: Grouped) -> Finished[LabelPlan]:
    """Cut the labels into chunks of consecutive labels and about equal cost; on request, store the mean row."""
    stored = open_matrix(shared.features, "train")
    plan = LabelPlan(tuple(_cut(_cost_of_labels(shared), shared)))
    if not shared.with_mean:
        return Finished((), plan)
    mean = np.zeros(stored.n_columns)
    for _, triple in stored.parts():
        rows = normalise_rows(triple)
        mean += np.bincount(rows.indices, rows.values.astype(np.float64), minlength=stored.n_columns)
    return Finished((write_array(folder, MEAN, mean / max(stored.n_rows, 1)),), plan)


def _cost_of_labels(shared: Grouped) -> np.ndarray:
    """The cost of each label: feature entries of all members of the groups that carry it."""
    Y1, Y2 = load_group_matrix(shared.membership), load_group_matrix(shared.group_labels)
    parts = open_matrix(shared.features, "train").parts()
    lengths = np.concatenate([np.diff(triple.indptr) for _, triple in parts])
    group_cost = np.asarray(Y1.T @ lengths.astype(np.float64)).ravel()
    return np.asarray(Y2.T @ group_cost).ravel()


def _cut(cost: np.ndarray, shared: Grouped) -> list[tuple[int, int]]:
    """The bounds of chunks that cost at most `chunk_entries`, or have one label."""
    chunks, first, total = [], 0, 0.0
    for label in range(shared.n_labels):
        if label > first and total + cost[label] > shared.chunk_entries:
            chunks.append((first, label))
            first, total = label, 0.0
        total += cost[label]
    return [*chunks, (first, shared.n_labels)]


@dataclass(frozen=True)
class ChunkGroups:
    """The groups that a chunk of labels needs: Y1 (samples x groups), Y2 (groups x labels, from the chunk's first).

    samples, groups: the numbers of the rows and columns of Y1, ascending.
    """

    samples: np.ndarray
    groups: np.ndarray
    Y1: sp.csr_matrix
    Y2: sp.csr_matrix


def groups_of(unit: LabelChunk, shared: Grouped, near: np.ndarray | None = None) -> ChunkGroups:
    """The groups that carry a label of the chunk, and those near them. near: numbers of groups; below 0: none."""
    Y2 = sp.csr_matrix(load_group_matrix(shared.group_labels)[:, unit.first : unit.last])
    groups = np.flatnonzero(Y2.getnnz(axis=1))
    if near is not None:
        groups = np.union1d(groups, near[groups][near[groups] >= 0])
    members = sp.csr_matrix(load_group_matrix(shared.membership)[:, groups])
    samples = np.flatnonzero(members.getnnz(axis=1))
    return ChunkGroups(samples, groups, sp.csr_matrix(members[samples]), sp.csr_matrix(Y2[groups]))


def rows_of_samples(features: MatrixRef, samples: np.ndarray) -> sp.csr_matrix:
    """The feature rows of some samples, scaled to length 1."""
    stored = open_matrix(features, "train")
    return to_matrix(normalise_rows(stored.take(samples)[1]), stored.n_columns)
