"""Beam search against a plain one that follows every path by hand; ties, threads and short answers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from xpipe.trees import LabelTree, _beam_numba, _best_numba, prediction


def top(scores: dict[int, float], k: int) -> list[tuple[int, float]]:
    return sorted(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k])


@pytest.fixture(params=["single weights", "whole vectors"])
def layout(request, monkeypatch):
    """Each way the weights of a unit are read; compiled constants stay, so the density of the weights decides."""
    return 0.45 if request.param == "single weights" else 0.0


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize(("arity", "n_trees", "beam"), [(2, 1, 2), (2, 3, 100), (4, 2, 3), (70, 1, 5)])
def test_beam_search_follows_the_best_nodes(layout, loss, arity, n_trees, beam):
    X, Y = oracles.planted(200, 40, 90)
    tree = LabelTree(n_trees=n_trees, arity=arity, max_leaf=9, loss=loss, threshold=layout, calibrate="none").fit(
        X, Y, threads=1
    )
    found = tree.predict(X[:40], k=6, beam=beam, threads=1)
    rows = oracles.unit_rows(X.toarray()[:40])
    for row in range(40):
        expected = top(oracles.predict_row(tree.forest, rows[row], beam), 6)
        part = slice(found.indptr[row], found.indptr[row + 1])
        assert found.indices[part].tolist() == [label for label, _ in expected]
        np.testing.assert_allclose(found.data[part], [score for _, score in expected], rtol=2e-4, atol=1e-7)


def test_both_layouts_give_the_same_bytes(monkeypatch):
    """Few rows read single weights, many whole vectors: the same sums in the same order."""
    X, Y = oracles.planted(200, 40, 60)
    tree = LabelTree(n_trees=2, arity=4, max_leaf=20, threshold=0).fit(X, Y)
    together = tree.predict(X, k=4)
    assert X.shape[0] > _beam_numba.DENSE_ROWS
    for row in range(50):
        alone = tree.predict(X[row], k=4)
        assert alone.data.tobytes() == together[row].data.tobytes()
        assert alone.indices.tolist() == together[row].indices.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks_and_threads_change_nothing(monkeypatch, threads):
    X, Y = oracles.planted(120, 30, 40)
    tree = LabelTree(n_trees=2, arity=3, max_leaf=6).fit(X, Y)
    expected = tree.predict(X, k=5, threads=1)
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 7)
    found = tree.predict(X, k=5, threads=threads)
    assert found.data.tobytes() == expected.data.tobytes()
    assert found.indices.tobytes() == expected.indices.tobytes()
    assert found.indptr.tobytes() == expected.indptr.tobytes()


def test_a_narrow_beam_may_reach_fewer_labels():
    X, Y = oracles.planted(150, 30, 32)
    tree = LabelTree(n_trees=1, arity=2, max_leaf=2).fit(X, Y)
    assert np.diff(tree.predict(X, k=10, beam=1).indptr).max() == 2
    assert np.diff(tree.predict(X, k=10, beam=5).indptr).min() == 10


def test_rows_without_features_get_what_the_biases_say():
    X, Y = oracles.planted(100, 30, 20)
    tree = LabelTree(n_trees=2, arity=4, max_leaf=5, calibrate="none").fit(X, Y)
    empty = sp.csr_matrix((2, 30), dtype=np.float32)
    found = tree.predict(empty, k=20, beam=50)
    expected = oracles.predict_row(tree.forest, np.zeros(30), 50)
    assert found[0].indices.tolist() == sorted(expected)
    np.testing.assert_allclose(found[0].data, [expected[label] for label in sorted(expected)], rtol=1e-5)
    assert found[1].data.tobytes() == found[0].data.tobytes()


def test_ties_go_to_the_smaller_label():
    """Every label has the same rows: the classifiers of one node are the same."""
    X = sp.csr_matrix(np.eye(4, dtype=np.float32))
    Y = sp.csr_matrix(np.ones((4, 12), dtype=np.float32))
    tree = LabelTree(n_trees=1).fit(X, Y)
    for row in tree.predict(X, k=5):
        assert row.indices.tolist() == [0, 1, 2, 3, 4]
        assert len(set(row.data.tolist())) == 1


@pytest.mark.parametrize("n_trees", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_equal_scores_go_by_label_number_wherever_a_label_is_in_the_tree(n_trees, seed):
    """Labels come in pairs of the same rows; the trees' own order of labels has nothing to do with their numbers."""
    X, half = oracles.planted(120, 30, 20)
    shuffled = np.random.default_rng(seed).permutation(40)
    Y = sp.hstack([half, half], format="csr")[:, shuffled]
    tree = LabelTree(n_trees=n_trees, arity=2, max_leaf=4, seed=seed).fit(X, Y, threads=1)
    whole = tree.predict(X, k=40, beam=100, threads=1)
    for k in (1, 2, 3, 5, 20):
        found = tree.predict(X, k=k, beam=100, threads=1)
        for row in range(X.shape[0]):
            scores = dict(zip(whole[row].indices.tolist(), whole[row].data.tolist(), strict=True))
            assert found[row].indices.tolist() == [label for label, _ in top(scores, k)]


@pytest.mark.parametrize("n_trees", [1, 3])
def test_scores_that_are_equal_only_as_probabilities(n_trees):
    """Margins that differ where exp() rounds to 1, or is at its floor, are ties of the probabilities they give."""
    X, Y = oracles.planted(100, 30, 24)
    tree = LabelTree(n_trees=n_trees, arity=64, max_leaf=4, seed=1).fit(X, Y, threads=1)
    for bias in (np.linspace(2, 3, 24), np.linspace(-90, -80, 24), 1 - np.linspace(1e-5, 2e-4, 24)):
        weights = tree.forest.weights
        placed = bias[np.arange(len(weights.biases)) % 24].astype(np.float32)
        flat = weights._replace(weights=np.zeros_like(weights.weights), biases=placed)
        same = LabelTree.of(dataclasses.replace(tree.forest, weights=flat), tree.options)
        whole = same.predict(X[:1], k=24, beam=100)
        scores = dict(zip(whole.indices.tolist(), whole.data.tolist(), strict=True))
        for k in (1, 3, 7, 24):
            assert same.predict(X[:1], k=k, beam=100).indices.tolist() == [label for label, _ in top(scores, k)]


@pytest.mark.parametrize("x", [0.0, -1e-9, -0.3, -0.7, -1.0, -4.0, -30.0, -86.9, -87.1, -1e6])
def test_own_exponential(x):
    assert _best_numba.exp_of_negative(x) == pytest.approx(np.exp(x), rel=1e-7, abs=2e-38)


def test_best_of_a_list():
    draw = np.random.default_rng(0)
    for _ in range(200):
        scores = draw.integers(0, 4, 12).astype(np.float32)
        numbers = draw.permutation(12).astype(np.int32)
        best, who, count = np.zeros(5, np.float32), np.zeros(5, np.int32), 0
        for score, number in zip(scores, numbers, strict=True):
            count = _best_numba.insert_best(score, number, best, who, count)
        order = np.lexsort((numbers, -scores))[:5]
        assert count == 5
        assert who.tolist() == numbers[order].tolist()
        assert best.tolist() == scores[order].tolist()
