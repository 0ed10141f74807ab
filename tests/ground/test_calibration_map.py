"""Calibration maps: isotonic regression of a plain twin and of scikit-learn, and an order that is never changed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from tests import oracles
from xpipe.errors import DataError
from xpipe.ground import calibration_map
from xpipe.ground._calibration_numba import SHORT, pool_adjacent
from xpipe.ground.calibration_map import SAME, CalibrationMap, fit_map, fit_predictions

chances = st.floats(0, 1, width=32)
few_values = st.sampled_from([0.0, 1e-45, 1e-30, 0.2, 0.25, 0.25000003, 0.9, 0.99999994, 1.0])
points = st.lists(st.tuples(chances | few_values, st.sampled_from([0.0, 0.25, 1.0])), max_size=300)


def split(pairs):
    scores, truths = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(scores, dtype=np.float64), np.array(truths, dtype=np.float64)


@given(st.lists(st.tuples(chances, chances, st.integers(1, 5)), min_size=1, max_size=20, unique_by=lambda p: p[0]))
def test_blocks_are_those_of_the_twin_and_of_scikit_learn(triples):
    scores, truths, weights = (np.array(each, dtype=np.float64) for each in zip(*sorted(triples), strict=True))
    sums = np.empty((len(scores), 3))
    blocks = sums[: pool_adjacent(scores, truths, weights, 0.0, sums)]
    block_of = np.searchsorted(np.cumsum(blocks[:, 0]), np.cumsum(weights) - 0.5)
    fitted = (blocks[:, 2] / blocks[:, 0])[block_of]
    np.testing.assert_allclose(fitted, oracles.isotonic_values(truths.tolist(), weights.tolist()), atol=1e-9)
    np.testing.assert_allclose(fitted, isotonic_regression(truths, sample_weight=weights), atol=1e-9)
    np.testing.assert_allclose(np.bincount(block_of, weights * scores), blocks[:, 1], atol=1e-9)


@given(points, st.lists(st.lists(chances | few_values, max_size=8), min_size=1, max_size=5))
@settings(max_examples=200)
def test_whatever_it_is_fitted_to_it_keeps_the_order_of_every_row(pairs, rows):
    found = fit_map(*split(pairs))
    assert found == fit_map(*split(pairs))
    scores = np.array([score for row in rows for score in row], dtype=np.float32)
    indptr = np.cumsum([0, *map(len, rows)])
    mapped = found.apply_rows(indptr, scores)
    assert mapped.dtype == np.float32
    assert ((mapped > 0) & (mapped <= 1)).all()
    np.testing.assert_allclose(mapped, np.maximum(found.apply(scores), 0), rtol=1e-5)
    for first, last in pairwise(indptr):
        for a in range(first, last):
            for b in range(first, last):
                if scores[b] > 1e-36:  # below, float32 runs out of numbers
                    assert (scores[a] > scores[b]) == (mapped[a] > mapped[b])
    # more labels of a row change nothing for its better ones
    shorter = [sorted(row, reverse=True)[:3] for row in rows]
    longer = [sorted(row, reverse=True) for row in rows]
    few, all_of_them = (
        [found.apply_rows(np.array([0, len(row)]), np.array(row, dtype=np.float32))[:3].tolist() for row in each]
        for each in (shorter, longer)
    )
    assert few == all_of_them


@pytest.mark.parametrize("length", [1, 5, SHORT, SHORT + 1, 80])
def test_rows_of_any_length_are_put_in_order_alike(length):
    draw = np.random.default_rng(length)
    for few in (length, 3):  # with three different scores, many are equal
        scores = draw.choice(draw.random(few, dtype=np.float32), length)
        ties = draw.integers(0, 4, length).astype(np.float32)
        order = np.argsort(-scores, kind="stable")
        ties[order] = np.sort(ties)[::-1]  # they fall in every row
        expected = oracles.separated(scores.tolist(), ties.tolist())
        assert SAME.apply_rows(np.array([0, length]), scores, ties).tolist() == expected


def test_equal_scores_may_be_ranked_by_something_else():
    scores = np.array([1.0, 1.0, 1.0, 0.5], dtype=np.float32)
    found = SAME.apply_rows(np.array([0, 4]), scores, np.array([30.0, 20.0, 20.0, 0.0], dtype=np.float32))
    assert found[0] > found[1] == found[2] > found[3]
    np.testing.assert_allclose(found, scores, rtol=1e-6)
    assert SAME.apply_rows(np.array([0, 4]), scores).tolist() == scores.tolist()


def test_it_finds_what_scores_are_worth():
    draw = np.random.default_rng(0)
    scores = draw.random(40_000)
    true = scores**2 * 0.9
    found = fit_map(scores, draw.random(len(scores)) < true)
    wanted = np.linspace(0.02, 0.98, 50)
    assert np.abs(found.apply(wanted) - 0.9 * wanted**2).max() < 0.04
    assert np.abs(found.apply(wanted) - 0.9 * wanted**2).mean() < 0.01
    assert len(found.scores) < 300


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_all_right_and_all_wrong(truth):
    scores = np.linspace(0.1, 0.9, 500)
    found = fit_map(scores, np.full(500, truth)).apply([0.0, 0.1, 0.5, 0.9, 1.0])
    assert (np.diff(found) > 0).all()
    assert ((found > 0) & (found <= 1)).all()
    np.testing.assert_allclose(found[2:], truth, atol=0.05)


def test_few_points_change_little():
    assert fit_map([], []) == SAME
    assert fit_map([0.5], [1.0]).apply([0.5]) == pytest.approx((1 + calibration_map.PRIOR * 0.5) / 11)
    assert fit_map(np.zeros(100), np.ones(100)).apply([0.0]) < 1e-30  # a score of 0 says that the label is wrong


def test_chances_count_as_parts_of_a_truth():
    scores = np.linspace(0, 1, 2000)
    half = fit_map(scores, np.full(2000, 0.5)).apply([0.3, 0.6])
    np.testing.assert_allclose(half, 0.5, atol=0.02)


def test_predictions_are_looked_up_in_the_labels():
    predicted = sp.csr_matrix(np.array([[0.2, 0.0, 0.9], [0.0, 0.4, 0.0], [0.0, 0.0, 0.7]]))
    truths = sp.csr_matrix(np.array([[1.0, 1.0, 0.0], [0.0, 0.5, 0.0], [0.0, 1.0, 3.0]]))
    expected = fit_map([0.2, 0.9, 0.4, 0.7], [1.0, 0.0, 0.5, 1.0])
    assert fit_predictions([predicted], [truths]) == expected
    assert fit_predictions([predicted[:1], predicted[1:]], [truths[:1], truths[1:]]) == expected
    assert fit_predictions([], []) == SAME
    assert fit_predictions([predicted], [sp.csr_matrix((3, 3))]) == fit_map([0.2, 0.9, 0.4, 0.7], [0.0] * 4)


@pytest.mark.parametrize(
    ("scores", "probabilities"),
    [
        ((), ()), ((0.0,), (0.0,)), ((0.0, 1.0), (0.0, 1.5)), ((0.0, 0.9), (0.0, 0.9)), ((0.1, 1.0), (0.0, 1.0)),
        ((0.0, 1.0), (0.1, 1.0)), ((0.0, 0.5, 0.5, 1.0), (0.0, 0.1, 0.2, 0.3)), ((0.0, 0.5, 1.0), (0.0, 0.2, 0.2)),
        ((0.0, float("nan"), 1.0), (0.0, 0.2, 0.3)), ((0.0, 0.5, 1.0), (0.0, float("nan"), 0.3)), ((0.0, 1.0), (0.0,)),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(scores, probabilities):
    with pytest.raises(DataError, match="no calibration map"):
        CalibrationMap(scores, probabilities)


@pytest.mark.parametrize(
    ("scores", "truths", "text"),
    [
        ([0.5, 1.2], [0, 1], "a score is not in"), ([0.5, float("nan")], [0, 1], "a score is not in"),
        ([0.5], [2.0], "a truth is not in"), ([0.5], [0, 1], "do not fit"), ([[0.5]], [[1]], "do not fit"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused(scores, truths, text):
    with pytest.raises(DataError, match=text):
        fit_map(scores, truths)
