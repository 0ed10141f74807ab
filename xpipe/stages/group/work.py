"""Groups at a worker: membership (Y1) and group labels (Y2) from the labels of samples.

Holds no rules: those are the room `grouping`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe import grouping
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.formats import read_membership
from xpipe.formats.parts import PartedMatrix
from xpipe.ground import files
from xpipe.ground.sparse import to_triple
from xpipe.ground.sparse_rows import slice_rows
from xpipe.stages.group.params import GroupParams
from xpipe.stages.matrices import MatrixRef, load_matrix, open_matrix, write_matrix_part


@dataclass(frozen=True)
class Grouping:
    """What the groups are made of.

    features: None unless the rule is kmeans. groups: those of a table, where they are the rule.
    file_rows: rows of the training file, dropped ones included. part_rows: of
    one part of the group labels. cuts: rows of each part of the membership, which are those of the labels.
    """

    params: GroupParams
    seed: int
    labels: MatrixRef
    features: MatrixRef | None
    groups: MatrixRef | None
    file_rows: int | None
    part_rows: int
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class GroupFacts:
    """Sizes of the groups, for people."""

    groups: int
    samples_in_no_group: int
    samples_a_group: float
    largest_group: int
    labels_a_group: float
    groups_without_labels: int


def make_groups(folder: str, unit: Unit, shared: Grouping) -> Finished[GroupFacts]:
    """Make the groups, and write membership and group labels."""
    stored = open_matrix(shared.labels, "train")
    Y1, Y2 = _grouped(load_matrix(shared.labels), stored, shared)
    starts = range(0, Y2.shape[0], shared.part_rows)
    cuts = tuple(min(shared.part_rows, Y2.shape[0] - start) for start in starts) or (0,)
    entries = _write(folder, "membership", Y1, shared.cuts, stored.samples())
    entries += _write(folder, "group_labels", Y2, cuts, np.arange(Y2.shape[0]))
    return Finished(tuple(entries), _facts(Y1, Y2))


def _grouped(Y: sp.csr_matrix, stored: PartedMatrix, shared: Grouping) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(membership, group labels) by the rule of the params."""
    params = shared.params
    if params.rule == "random":
        assert params.size is not None  # checked with the section
        return grouping.random_groups(Y, params.size, shared.seed)
    if params.rule == "kmeans":
        assert shared.features is not None
        assert params.depth is not None
        return grouping.kmeans_groups(load_matrix(shared.features), Y, params.depth, shared.seed, params.kmeans_noise)
    if shared.groups is not None:
        return grouping.given_groups(load_matrix(shared.groups), Y)
    path = files.local(str(params.file))
    return grouping.given_groups(read_membership(path, samples=stored.samples(), n_rows=shared.file_rows), Y)


def _write(
    folder: str, name: str, matrix: sp.csr_matrix, cuts: tuple[int, ...], numbers: np.ndarray
) -> list[FileEntry]:
    """Write a matrix in parts; cuts: the rows of each part, numbers: the sample or group of each row."""
    triple = to_triple(matrix)
    bounds = np.cumsum([0, *cuts]).tolist()
    return [
        write_matrix_part(folder, name, "train", index, numbers[start:stop], slice_rows(triple, start, stop))
        for index, (start, stop) in enumerate(pairwise(bounds))
    ]


def _facts(Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> GroupFacts:
    """Sizes of the groups."""
    n_groups = Y2.shape[0]
    sizes = np.bincount(Y1.indices, minlength=n_groups)
    return GroupFacts(
        groups=n_groups,
        samples_in_no_group=int((np.diff(Y1.indptr) == 0).sum()),
        samples_a_group=round(float(Y1.nnz / n_groups), 3) if n_groups else 0.0,
        largest_group=int(sizes.max()) if n_groups else 0,
        labels_a_group=round(float(Y2.nnz / n_groups), 3) if n_groups else 0.0,
        groups_without_labels=int((np.diff(Y2.indptr) == 0).sum()),
    )
