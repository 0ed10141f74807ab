"""Samples with planted owners, groups of them, and their whitened rows. Holds no assertions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.spectrum import leading_directions
from xpipe.eagle.whitening import whiten, whitener_of
from xpipe.grouping import given_groups, kmeans_groups, random_groups


def planted(n_samples=600, n_labels=12, n_features=80, seed=0):
    """Rows that share a strong common direction, plus words of their own labels."""
    rng = np.random.default_rng(seed)
    words = rng.random((n_labels, n_features)) * (rng.random((n_labels, n_features)) < 0.1)
    Y = (rng.random((n_samples, n_labels)) < rng.uniform(0.03, 0.2, n_labels)).astype(np.float32)
    background = rng.random((n_samples, n_features)) * (rng.random((n_samples, n_features)) < 0.3)
    X = 2 * Y @ words + background + 0.5
    X[rng.random(X.shape) < 0.3] = 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix(Y)


def whitened(X, rank, ridge, threads=1):
    """Whitened rows, for a ridge that counts as it is, not in units of the squared length of the rows."""
    spectrum = leading_directions(X, rank, threads=threads)
    return whiten(X, whitener_of(spectrum, ridge / spectrum.mean_square), threads)


def overlapping(Y, seed=0):
    """Random groups of four, some samples in two of them, some in none, one group empty."""
    return _overlapping(random_groups(Y, 4, seed)[0], Y, seed)


def overlapping_alike(X, Y, depth, seed=0):
    """2^depth k-means groups, whose members are alike; some samples in two of them, some in none, one group empty."""
    return _overlapping(kmeans_groups(X, Y, depth, seed=seed)[0], Y, seed)


def _overlapping(Y1, Y, seed):
    rng = np.random.default_rng(seed)
    extra = sp.random(*Y1.shape, 0.005, "csr", np.float32, random_state=rng)
    Y1 = sp.lil_matrix(Y1 + extra)
    Y1[rng.integers(0, Y1.shape[0], 20)] = 0
    Y1[:, 3] = 0
    return given_groups(sp.csr_matrix(Y1), Y)
