"""Generators of small evaluations: ties, short lists, rows without true labels or predictions. Hold no assertions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

few_scores = st.integers(-2, 3).map(float)  # many ties, 0 and below among them
any_score = st.floats(-1, 1, width=32)


class Case(NamedTuple):
    """The same evaluation as rows (of the oracles) and as matrices."""

    predictions: list[dict[int, float]]
    true: list[set[int]]
    n_labels: int
    k: int
    pairs: list[tuple[int, int]]

    @property
    def scores(self) -> sp.csr_matrix:
        return as_matrix(self.predictions, self.n_labels)

    @property
    def truth(self) -> sp.csr_matrix:
        return as_matrix([dict.fromkeys(labels, 1.0) for labels in self.true], self.n_labels)


def as_matrix(rows: list[dict[int, float]], n_labels: int) -> sp.csr_matrix:
    """CSR with each row's entries in ascending order; zeros are entries like others."""
    indptr = np.cumsum([0] + [len(row) for row in rows])
    entries = [entry for row in rows for entry in sorted(row.items())]
    indices = np.array([label for label, _ in entries], dtype=np.int32)
    values = np.array([score for _, score in entries], dtype=np.float32)
    return sp.csr_matrix((values, indices, indptr), shape=(len(rows), n_labels))


@st.composite
def cases(draw, most_labels: int = 24) -> Case:
    """Rows longer than the parts a kernel cuts them into are among them."""
    n_rows, n_labels, k = draw(st.integers(1, 6)), draw(st.integers(1, most_labels)), draw(st.integers(1, 7))
    label = st.integers(0, n_labels - 1)
    scores = draw(st.sampled_from([few_scores, any_score]))
    rows = st.dictionaries(label, scores, max_size=draw(st.sampled_from([2, n_labels])))
    predictions = [draw(rows) for _ in range(n_rows)]
    true = [draw(st.sets(label, max_size=6)) for _ in range(n_rows)]
    pairs = draw(st.lists(st.tuples(st.integers(0, n_rows - 1), label), max_size=draw(st.sampled_from([0, 4]))))
    return Case(predictions, true, n_labels, k, pairs)


def random_case(seed: int, n_rows: int = 200, n_labels: int = 60, k: int = 5, levels: int | None = None) -> Case:
    """Rows of 0 to 50 predictions, some without true labels; levels: so many different scores."""
    draw = np.random.default_rng(seed)
    predictions, true = [], []
    for _ in range(n_rows):
        labels = draw.permutation(n_labels)[: draw.integers(0, 51)]
        scores = draw.random(len(labels), dtype=np.float32)
        if levels:
            scores = np.floor(scores * levels) / levels
        predictions.append(dict(zip(labels.tolist(), scores.tolist(), strict=True)))
        true.append(set(draw.integers(0, n_labels, draw.integers(0, 9)).tolist()))
    return Case(predictions, true, n_labels, k, [])
