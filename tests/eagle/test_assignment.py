"""Assignment: every choice against loops over groups; ties, empty embeddings, overlapping groups."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle import oracles
from tests.eagle.strategies import planted, problems
from tests.eagle.test_embedding import dense, same_bytes
from xpipe.eagle import CentredEmbedding, assign, embed, embed_and_assign
from xpipe.errors import DataError


def sizes_of(E) -> np.ndarray:
    if isinstance(E, CentredEmbedding):
        return np.linalg.norm(E.sparse.toarray(), axis=1) + np.abs(E.offset) * np.linalg.norm(E.mean)
    return np.linalg.norm(E.toarray().astype(np.float64), axis=1)


def as_dict(matrix: sp.csr_matrix) -> dict[tuple[int, int], float]:
    entries = matrix.tocoo()
    return {(int(i), int(k)): float(v) for i, k, v in zip(entries.row, entries.col, entries.data, strict=True)}


@given(problems(), st.sampled_from([0, 3]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_assign_takes_the_first_best_sample(problem, steps, centred):
    E = embed(*problem, steps=steps, centred=centred)
    chosen, scores = assign(*problem, E, return_scores=True)
    expected = oracles.assign(*problem, dense(E), sizes_of(E))
    assert chosen.has_canonical_format
    assert chosen.data.dtype == scores.data.dtype == np.float32
    assert (chosen.data == 1).all()
    assert as_dict(chosen).keys() == as_dict(scores).keys() == expected.keys()
    for pair, score in as_dict(scores).items():
        assert score == pytest.approx(expected[pair], abs=1e-5)


@given(problems(), st.sampled_from([0, 3]), st.booleans())
@settings(deadline=None)
def test_embedding_and_assigning_in_one_go_gives_the_same_bytes(problem, steps, centred):
    X, Y1, Y2 = problem[:3]
    E, objective = embed(X, Y1, Y2, steps=steps, centred=centred, trace=True)
    labels, scores = assign(X, Y1, Y2, E, return_scores=True)
    at_once = embed_and_assign(X, Y1, Y2, steps=steps, centred=centred, trace=True, threads=2)
    assert same_bytes(at_once[0], labels)
    assert same_bytes(at_once[1], scores)
    np.testing.assert_array_equal(at_once[2], objective)


def test_ties_go_to_the_lowest_number():
    X = sp.csr_matrix(np.array([[0, 1], [1, 0], [1, 0]], dtype=np.float32))
    Y1, Y2 = sp.csr_matrix(np.ones((3, 1), np.float32)), sp.csr_matrix(np.ones((1, 2), np.float32))
    E = sp.csr_matrix(np.array([[1, 0], [0, 0]], dtype=np.float32))
    assert assign(X, Y1, Y2, E).toarray().tolist() == [[0, 1], [1, 0], [0, 0]]  # label 1 has no embedding: the first


def test_a_sample_chosen_by_two_groups_is_one_entry():
    X = sp.csr_matrix(np.array([[2.0], [1.0], [1.0]], dtype=np.float32))
    Y1 = sp.csr_matrix(np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=np.float32))  # the third group is empty
    Y2 = sp.csr_matrix(np.ones((3, 1), np.float32))
    chosen, scores = assign(X, Y1, Y2, sp.csr_matrix(np.ones((1, 1), np.float32)), return_scores=True)
    assert as_dict(chosen) == {(0, 0): 1.0}
    assert as_dict(scores) == {(0, 0): 2.0}


def test_the_toy_example_of_the_paper():
    X = sp.csr_matrix(np.array([[1, 2], [-1, -2]] * 3, dtype=np.float32))
    Y1 = sp.csr_matrix(np.kron(np.eye(3), np.ones((2, 1))).astype(np.float32))
    Y2 = sp.csr_matrix(np.ones((3, 2), dtype=np.float32))
    owners = assign(X, Y1, Y2, embed(X, Y1, Y2))
    assert owners.toarray().tolist() == [[1, 1], [0, 0]] * 3  # all samples with the same feature, and only those


@pytest.mark.parametrize("centred", [False, True])
def test_threads_and_chunks_do_not_show(centred):
    X, Y1, Y2 = planted()
    E = embed(X, Y1, Y2, centred=centred)
    whole, scores = assign(X, Y1, Y2, E, threads=1, return_scores=True)
    assert all(map(same_bytes, assign(X, Y1, Y2, E, threads=2, return_scores=True), (whole, scores)))
    parts = [
        assign(X, Y1, Y2, E, labels=labels, return_scores=True) for labels in np.array_split(np.arange(Y2.shape[1]), 3)
    ]
    assert same_bytes(sp.csr_matrix(sum(part for part, _ in parts)), whole)
    assert same_bytes(sp.csr_matrix(sum(part for _, part in parts)), scores)


@pytest.mark.parametrize("centred", [False, True])
def test_rows_that_are_not_needed_do_not_show(centred):
    X, Y1, Y2 = planted()
    E = embed(X, Y1, Y2, centred=centred)
    labels = np.array([3, 5])
    whole = assign(X, Y1, Y2, E, labels=labels)
    needed = np.flatnonzero(Y1[:, np.flatnonzero(Y2[:, labels].sum(axis=1))].sum(axis=1))
    assert len(needed) < X.shape[0]
    part = assign(X[needed], Y1[needed], Y2, E, labels=labels)
    assert same_bytes(part, sp.csr_matrix(whole[needed]))
    assert whole.nnz == part.nnz


def test_planted_labels_come_back():
    X, Y1, Y2 = planted(n_samples=600, n_features=200)
    owners = assign(X, Y1, Y2, embed(X, Y1, Y2, centred=True))
    true = X[:, : Y2.shape[1]].toarray().argmax(axis=1)
    assert np.mean(true[owners.tocoo().row] == owners.tocoo().col) > 0.9


def test_an_embedding_of_something_else():
    X, Y1, Y2 = planted()
    with pytest.raises(DataError, match="does not fit the other matrices"):
        assign(X, Y1, Y2, sp.csr_matrix((3, X.shape[1])))
