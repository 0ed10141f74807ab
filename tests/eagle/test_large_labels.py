"""Rounds of labels with many rows: the dense twin, the route of small labels, and the same bytes for any batches."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import overlapping, planted, some_whitener
from tests.eagle.test_discriminative import dense_posteriors
from xpipe.eagle import large_labels
from xpipe.eagle.discriminative import fit_posteriors
from xpipe.eagle.large_labels import is_large, n_places, weigh_features
from xpipe.eagle.whitening import Whitener, whiten

FEEDBACK = [(1.0, 1.5, -0.2, 0.0), (0.5, 1.25, 0.1, 0.7)]


@pytest.fixture(autouse=True)
def every_label_is_large(monkeypatch):
    monkeypatch.setattr(large_labels, "LEAST_ROWS", 0)
    monkeypatch.setattr(large_labels, "FEATURES_PER_ROW", 10**6)


def test_which_labels_are_large(monkeypatch):
    monkeypatch.undo()
    assert is_large(np.array([0, 512, 513, 9000]), 40).tolist() == [False, False, True, True]
    assert is_large(np.array([512, 1000, 1001]), 8000).tolist() == [False, False, True]
    assert [n_places(n) for n in (40, 5000, 262_144, 262_145, 2_000_000, 10**8)] == [32, 32, 32, 16, 4, 1]


@pytest.mark.parametrize("most_members", [99, 3])
@pytest.mark.parametrize(("rounds", "n_calibrations"), [(1, 0), (4, 0), (2, 1), (2, 2)])
def test_the_dense_twin(rounds, n_calibrations, most_members):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    whitener, feedback = some_whitener(X, 40, 2.0), FEEDBACK[:n_calibrations]
    told, score = fit_posteriors(
        whiten(X, whitener), Y1, Y2, rounds=rounds, feedback=feedback, most_members=most_members, whitener=whitener
    )
    expected, scores = dense_posteriors(X, Y1, Y2, 2.0, rounds, most_members, feedback)
    np.testing.assert_allclose(told.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)


@pytest.mark.parametrize("rank", [0, 7, 40])
@pytest.mark.parametrize("resumed", [False, True])
def test_the_route_of_small_labels(rank, resumed):
    X, Y = planted(n_samples=400, n_features=40)
    Y1, Y2 = overlapping(Y)
    whitener = some_whitener(X, rank, 1.0) if rank else some_whitener(X[:, :1], 1, 1.0)
    rows = whiten(X if rank else X[:, :1], whitener)
    small = fit_posteriors(rows, Y1, Y2, feedback=FEEDBACK)
    start = np.random.default_rng(0).random(small.score.nnz).astype(np.float32) if resumed else None
    small = fit_posteriors(rows, Y1, Y2, feedback=FEEDBACK, start=start)
    large = fit_posteriors(rows, Y1, Y2, feedback=FEEDBACK, start=start, whitener=whitener)
    for one, other in zip(small, large, strict=True):
        assert one.indices.tolist() == other.indices.tolist()
        np.testing.assert_allclose(one.data, other.data, atol=2e-3)


@pytest.mark.parametrize("places", [2, 4, 32])
def test_batches_threads_and_chunks_change_no_byte(monkeypatch, places):
    monkeypatch.setattr(large_labels, "MOST_PLACES", places)
    X, Y = planted(n_labels=37, n_features=301)
    Y1, Y2 = overlapping(Y)
    whitener = some_whitener(X, 23, 1.0)
    rows = whiten(X, whitener)
    whole = fit_posteriors(rows, Y1, Y2, threads=1, feedback=FEEDBACK, whitener=whitener)
    threaded = fit_posteriors(rows, Y1, Y2, threads=3, feedback=FEEDBACK, whitener=whitener)
    chosen = [2, 7, 8, 20, 36]
    part = fit_posteriors(rows, Y1, sp.csr_matrix(Y2[:, chosen]), threads=2, feedback=FEEDBACK, whitener=whitener)
    for one, other, some in zip(whole, threaded, part, strict=True):
        assert one.data.tobytes() == other.data.tobytes()
        assert some.data.tobytes() == one[chosen].data.tobytes()


@pytest.mark.parametrize("n_features", [5, 64, 999, 5001])
@pytest.mark.parametrize("rank", [1, 16, 333, 512])
def test_a_label_has_the_same_weights_in_any_place_of_a_batch(n_features, rank):
    rng = np.random.default_rng(0)
    scale, directions, of_mean = (
        rng.random(shape).astype(np.float32) + np.float32(0.5) for shape in (n_features, (n_features, rank), n_features)
    )
    whitener = Whitener(scale, directions, of_mean, 1.0)
    dense = rng.normal(size=(32, n_features + 1)).astype(np.float32)
    leading = rng.normal(size=(32, rank + 1)).astype(np.float32)
    found = np.empty_like(dense)
    weigh_features(whitener, dense, leading, found)
    wanted = dense.astype(np.float64)
    directions = np.column_stack([whitener.directions, whitener.of_mean]).astype(np.float64)
    wanted[:, :-1] -= leading.astype(np.float64) @ directions.T / whitener.scale
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    for order in (np.arange(32)[::-1], rng.permutation(32)):
        moved = np.empty_like(dense)
        weigh_features(whitener, dense[order], leading[order], moved)
        assert moved.tobytes() == np.ascontiguousarray(found[order]).tobytes()
    alone = np.empty_like(dense)
    dense[1:], leading[1:] = 0, 0
    weigh_features(whitener, dense, leading, alone)
    assert alone[0].tobytes() == found[0].tobytes()
