"""Groups at a worker: membership (Y1) and group labels (Y2) from the labels of samples. The rules are `grouping`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe import grouping
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.formats import read_membership
from xpipe.formats.parts import PartedMatrix, slice_rows
from xpipe.ground import files
from xpipe.ground.sparse import to_matrix, to_triple
from xpipe.stages.group.params import GroupParams
from xpipe.stages.matrices import MatrixRef, open_matrix, write_matrix_part


@dataclass(frozen=True)
class Grouping:
    """What the groups are made of. cuts: rows of each part of the features, which membership follows."""

    params: GroupParams
    seed: int
    labels: MatrixRef
    features: MatrixRef | None  # only the rule kmeans looks at them
    file_rows: int | None
    part_rows: int
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class GroupFacts:
    groups: int
    samples_in_no_group: int
    samples_a_group: float
    largest_group: int
    labels_a_group: float
    groups_without_labels: int


def make_groups(folder: str, unit: Unit, shared: Grouping) -> Finished[GroupFacts]:
    """Both matrices in one unit."""
    stored = open_matrix(shared.labels, "train")
    Y1, Y2 = _grouped(to_matrix(stored.load(), stored.n_columns), stored, shared)
    starts = range(0, Y2.shape[0], shared.part_rows)
    cuts = tuple(min(shared.part_rows, Y2.shape[0] - start) for start in starts) or (0,)
    entries = _write(folder, "membership", Y1, shared.cuts, stored.samples())
    entries += _write(folder, "group_labels", Y2, cuts, np.arange(Y2.shape[0]))
    return Finished(tuple(entries), _facts(Y1, Y2))


def _grouped(Y: sp.csr_matrix, stored: PartedMatrix, shared: Grouping) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    params = shared.params
    if params.rule == "random":
        assert params.size is not None  # checked with the section
        return grouping.random_groups(Y, params.size, shared.seed)
    if params.rule == "kmeans":
        assert shared.features is not None
        assert params.depth is not None
        features = open_matrix(shared.features, "train")
        X = to_matrix(features.load(), features.n_columns)
        return grouping.kmeans_groups(X, Y, params.depth, shared.seed, params.noise or 0.0)
    path = files.local(str(params.file))
    return grouping.given_groups(read_membership(path, samples=stored.samples(), n_rows=shared.file_rows), Y)


def _write(
    folder: str, name: str, matrix: sp.csr_matrix, cuts: tuple[int, ...], numbers: np.ndarray
) -> list[FileEntry]:
    """The parts of a matrix, `cuts` rows each."""
    triple = to_triple(matrix)
    bounds = np.cumsum([0, *cuts]).tolist()
    return [
        write_matrix_part(folder, name, "train", index, numbers[start:stop], slice_rows(triple, start, stop))
        for index, (start, stop) in enumerate(pairwise(bounds))
    ]


def _facts(Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> GroupFacts:
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
