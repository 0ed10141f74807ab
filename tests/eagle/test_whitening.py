"""Whitened rows and leading directions, compared with dense inverses and eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import planted, whitened
from xpipe.eagle.spectrum import leading_directions
from xpipe.ground.sparse import to_matrix


def test_full_rank_is_exact():
    X, _ = planted(n_samples=60, n_features=30)
    rows = whitened(X, 30, 0.7)
    dense = X.toarray().astype(np.float64)
    dense -= dense.mean(axis=0)
    exact = dense @ np.linalg.inv(dense.T @ dense + 0.7 * np.eye(30)) @ dense.T + 1 / 60
    scaled = to_matrix(rows.sparse, X.shape[1] + 1).toarray()
    np.testing.assert_allclose(scaled @ scaled.T - rows.coordinates @ rows.coordinates.T, exact, atol=2e-5)
    np.testing.assert_allclose(rows.influence, np.diag(exact), atol=2e-5)


def test_products_are_those_of_a_regression_with_an_intercept():
    linear = pytest.importorskip("sklearn.linear_model")
    X, Y = planted(n_samples=80, n_features=20)
    rows, targets = whitened(X, 20, 0.3), Y[:, :3].toarray()
    scaled = to_matrix(rows.sparse, X.shape[1] + 1).toarray().astype(np.float64)
    scores = (scaled @ scaled.T - rows.coordinates @ rows.coordinates.T) @ targets
    expected = linear.Ridge(alpha=0.3).fit(X.toarray().astype(np.float64), targets).predict(X.toarray())
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_leading_directions_are_the_leading_ones():
    X, _ = planted(n_features=120)
    found, again = leading_directions(X, 8), leading_directions(X, 8)
    dense = X.toarray().astype(np.float64)
    dense -= dense.mean(axis=0)
    values, vectors = np.linalg.eigh(dense.T @ dense)
    np.testing.assert_allclose(found.values[:4], values[::-1][:4], rtol=0.02)
    assert abs(found.vectors[:, 0] @ vectors[:, -1]) > 0.999
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-4)
    assert found.vectors.tobytes() == again.vectors.tobytes()


def test_features_that_are_always_zero_change_no_product():
    X, _ = planted(n_features=120)
    spread = sp.csr_matrix((X.data, X.indices * 80 + 3, X.indptr), shape=(X.shape[0], 9600))
    assert set(X.indices * 80 + 3) <= set(leading_directions(spread).features)
    np.testing.assert_allclose(products_of(spread, 120), products_of(X, 120), atol=1e-4)


def test_rare_features_have_their_own_variance_and_no_direction(monkeypatch):
    monkeypatch.setattr("xpipe.eagle.spectrum.MOST_FEATURES", 20)
    X, _ = planted(n_samples=80, n_features=60)
    centred = X.toarray().astype(np.float64)
    centred -= centred.mean(axis=0)
    variance = (centred**2).sum(axis=0)
    most = np.sort(np.argsort(-variance, kind="stable")[:20])
    np.testing.assert_array_equal(leading_directions(X, 20).features, most)
    A = np.diag(variance)
    A[np.ix_(most, most)] = centred[:, most].T @ centred[:, most]
    expected = centred @ np.linalg.solve(A + 0.3 * np.eye(60), centred.T) + 1 / 80
    np.testing.assert_allclose(products_of(X, 20), expected, atol=1e-4)


def products_of(X, rank):
    """k(x, x') of all pairs of rows."""
    rows = whitened(X, rank, 0.3)
    scaled = to_matrix(rows.sparse, X.shape[1] + 1).toarray().astype(np.float64)
    products: np.ndarray = scaled @ scaled.T - rows.coordinates @ rows.coordinates.T
    return products
