"""Slow, obviously right twins of the rooms' functions: plain Python over rows, no numpy tricks.

A row is a dict {column: value}; a matrix is a list of rows. The twins of the text readers are in formats/oracles.py.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import Triple


def rows_of(matrix: sp.csr_matrix | Triple) -> list[dict[int, float]]:
    """The stored entries of each row, in the order they are stored."""
    indptr, indices, values = matrix if isinstance(matrix, Triple) else (matrix.indptr, matrix.indices, matrix.data)
    return [
        {int(indices[entry]): float(values[entry]) for entry in range(indptr[row], indptr[row + 1])}
        for row in range(len(indptr) - 1)
    ]


def row_norms(matrix: sp.csr_matrix | Triple) -> list[float]:
    return [math.sqrt(math.fsum(value * value for value in row.values())) for row in rows_of(matrix)]


def normalise_rows(matrix: sp.csr_matrix | Triple) -> list[dict[int, float]]:
    norms = row_norms(matrix)
    return [
        {column: value / norm if norm else value for column, value in row.items()}
        for row, norm in zip(rows_of(matrix), norms, strict=True)
    ]


def take_rows(matrix: sp.csr_matrix | Triple, rows: list[int]) -> list[dict[int, float]]:
    all_rows = rows_of(matrix)
    return [all_rows[row] for row in rows]


def renumber_labels(labels: sp.csr_matrix | Triple, frequency: list[int]) -> list[dict[int, float]]:
    """Labels that occur get the numbers 0, 1, ... in their order; the others go."""
    kept = [label for label, count in enumerate(frequency) if count > 0]
    return [{kept.index(label): value for label, value in row.items() if label in kept} for row in rows_of(labels)]


def frequencies(labels: sp.csr_matrix | Triple, n_labels: int) -> list[int]:
    rows = rows_of(labels)
    return [sum(label in row for row in rows) for label in range(n_labels)]


def membership_of_ids(ids: list[int]) -> list[set[int]]:
    return [set() if group == -1 else {group} for group in ids]


def labels_of_groups(membership: list[set[int]], labels: list[set[int]], n_groups: int) -> list[set[int]]:
    """The union of the labels of each group's samples."""
    return [
        set().union(*(labels[sample] for sample, groups in enumerate(membership) if group in groups))
        for group in range(n_groups)
    ]


def spread_labels(membership: list[set[int]], group_labels: list[set[int]]) -> list[set[int]]:
    """The union of the labels of each sample's groups."""
    return [set().union(*(group_labels[group] for group in groups)) for groups in membership]


def sets_of(matrix: sp.csr_matrix) -> list[set[int]]:
    """Columns that are not zero in each row."""
    return [set(np.flatnonzero(row).tolist()) for row in matrix.toarray()]


def inverse_propensities(frequency: list[int], n_rows: int, a: float, b: float) -> list[float]:
    """Jain et al. 2016: p_l = 1 / (1 + C exp(-A log(N_l + B))), C = (log N - 1)(B + 1)^A; this is 1 / p_l."""
    c = (math.log(n_rows) - 1) * (b + 1) ** a
    return [1 + c * math.exp(-a * math.log(count + b)) for count in frequency]


def separated(scores: list[float], ties: list[float]) -> list[float]:
    """Scores (float32) of one row, lowered as little as possible: only equal scores with equal ties stay equal."""
    found = np.array(scores, dtype=np.float32)
    places = sorted(range(len(scores)), key=lambda place: -scores[place])
    for above, here in pairwise(places):
        if (scores[here], ties[here]) == (scores[above], ties[above]):
            found[here] = found[above]
        else:
            found[here] = min(found[here], np.nextafter(found[above], np.float32(0)))
    return [float(value) for value in found]


def isotonic_values(truths: list[float], weights: list[float]) -> list[float]:
    """Isotonic regression by its definition: the largest over starts of the least mean over ends, for every point."""

    def mean(first: int, last: int) -> float:
        total = math.fsum(t * w for t, w in zip(truths[first : last + 1], weights[first : last + 1], strict=True))
        return total / math.fsum(weights[first : last + 1])

    n = len(truths)
    return [max(min(mean(a, b) for b in range(place, n)) for a in range(place + 1)) for place in range(n)]


def select_number(numbers: list[float], place: int) -> float:
    return sorted(numbers)[place]
