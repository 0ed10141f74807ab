"""Generators of small problems: overlapping groups, ties, empty groups, zero rows. Hold no assertions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from tests.strategies import csr_matrices, label_matrices

whole = st.integers(-3, 3).map(float)  # many ties, and sums that vanish
positive = st.integers(1, 4).map(float)
real = st.floats(-4, 4, width=32).filter(lambda value: value == 0 or abs(value) > 1e-2)


@st.composite
def problems(draw, most: int = 8) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
    """(X, Y1, Y2): samples in several groups or in none, empty groups, unused labels, zero rows, equal rows."""
    values = draw(st.sampled_from([whole, positive, real]))
    X = draw(csr_matrices(values=values, most=most))
    if X.shape[0] and draw(st.booleans()):  # rows that are there twice
        X = X[draw(st.lists(st.integers(0, X.shape[0] - 1), min_size=1, max_size=most))]
    n_groups, n_labels = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    Y1 = draw(label_matrices(n_rows=X.shape[0], n_columns=n_groups))
    Y2 = draw(label_matrices(n_rows=n_groups, n_columns=n_labels))
    return sp.csr_matrix(X), Y1, Y2


def planted(n_samples=240, n_features=60, n_labels=12, size=5, seed=0) -> tuple[sp.csr_matrix, ...]:
    """(X, Y1, Y2): unit rows, one feature per label, random groups; one group overlaps others, one is empty."""
    draw = np.random.default_rng(seed)
    owner = draw.integers(0, n_labels, n_samples)
    rows = draw.random((n_samples, n_features)) * (draw.random((n_samples, n_features)) < 0.2)
    rows[np.arange(n_samples), owner] += 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = draw.permutation(n_samples) // size
    n_groups = n_samples // size + 2
    membership = np.zeros((n_samples, n_groups))
    membership[np.arange(n_samples), groups] = 1
    membership[:7, n_groups - 2] = 1
    group_labels = (membership.T @ np.eye(n_labels)[owner] > 0) * 1.0
    group_labels[n_groups - 1] = 1  # a group without samples
    return tuple(sp.csr_matrix(matrix.astype(np.float32)) for matrix in (rows, membership, group_labels))
