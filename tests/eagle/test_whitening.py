"""Whitened rows and leading directions, compared with dense inverses and eigenvectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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


@pytest.mark.parametrize("n_features", [120, 9000])
def test_leading_directions_are_the_leading_ones(n_features):
    X, _ = planted(n_features=120)
    X.resize(X.shape[0], n_features)  # very wide rows take the way without X^T X
    found = leading_directions(X, 8)
    dense = X[:, :120].toarray().astype(np.float64)
    dense -= dense.mean(axis=0)
    values, vectors = np.linalg.eigh(dense.T @ dense)
    assert not found.vectors[120:].any()
    found = replace(found, vectors=found.vectors[:120])
    np.testing.assert_allclose(found.values[:4], values[::-1][:4], rtol=0.02)
    assert abs(found.vectors[:, 0] @ vectors[:, -1]) > 0.999
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-4)
    again = leading_directions(X, 8)
    assert found.vectors.tobytes() == again.vectors[:120].tobytes()
