"""Whitened rows and leading directions, compared with dense inverses and eigenvectors."""

from __future__ import annotations

import numpy as np

from tests.eagle.samples import planted, whitened
from xpipe.eagle.spectrum import leading_directions
from xpipe.ground.sparse import to_matrix


def test_full_rank_is_exact():
    X, _ = planted(n_samples=60, n_features=30)
    rows = whitened(X, 30, 0.7)
    dense = X.toarray().astype(np.float64)
    exact = dense @ np.linalg.inv(dense.T @ dense + 0.7 * np.eye(30)) @ dense.T
    scaled = to_matrix(rows.sparse, X.shape[1]).toarray()
    np.testing.assert_allclose(scaled @ scaled.T - rows.coordinates @ rows.coordinates.T, exact, atol=2e-5)
    np.testing.assert_allclose(rows.influence, np.diag(exact), atol=2e-5)


def test_leading_directions_are_the_leading_ones():
    X, _ = planted(n_features=120)
    found = leading_directions(X, 8)
    values, vectors = np.linalg.eigh((X.T @ X).toarray().astype(np.float64))
    np.testing.assert_allclose(found.values[:4], values[::-1][:4], rtol=0.02)
    assert abs(found.vectors[:, 0] @ vectors[:, -1]) > 0.999
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-4)
    again = leading_directions(X, 8)
    assert found.vectors.tobytes() == again.vectors.tobytes()
