"""Random problems for long tests of imputation: one per seed, of kinds that have broken something before.

Holds no assertions: these are in `invariants`.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

ROWS = ("unit", "negative", "one-hot", "twins", "identical", "opposite", "outlier", "sparse", "tiny", "huge", "mixed")
GROUPS = ("random", "overlapping", "huge", "ones", "one", "uneven", "same", "empty")
LABELS = ("planted", "random", "everywhere", "single", "rare")
Matrices = tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]


def random_problem(seed: int, fewest: int = 40, most: int = 300) -> tuple[str, Matrices]:
    """(the kind of problem, (X, Y1, Y2)). Consecutive seeds go through all combinations of rows, groups and labels."""
    rows, rest = ROWS[seed % len(ROWS)], seed // len(ROWS)
    groups, rest = GROUPS[rest % len(GROUPS)], rest // len(GROUPS)
    labels = LABELS[rest % len(LABELS)]
    draw = np.random.default_rng(seed)
    n_samples, n_features = int(draw.integers(fewest, most + 1)), int(draw.integers(3, 60))
    n_labels = 1 if labels == "single" else int(draw.integers(2, 30))
    owner = draw.random((n_samples, n_labels)) < draw.uniform(0.02, 0.3)
    X = _rows(rows, n_samples, n_features, owner, draw)
    Y1 = _groups(groups, n_samples, draw)
    Y2 = _labels(labels, Y1, owner, draw)
    return f"{seed}: {rows} rows, {groups} groups, {labels} labels", (_csr(X), _csr(Y1), _csr(Y2))


def _csr(matrix: np.ndarray) -> sp.csr_matrix:
    return sp.csr_matrix(matrix.astype(np.float32))


def _rows(kind: str, n: int, width: int, owner: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    words = draw.random((owner.shape[1], width)) * (draw.random((owner.shape[1], width)) < 0.2)
    X = 2 * owner @ words + draw.random((n, width)) * (draw.random((n, width)) < 0.3)
    X[draw.random(n) < 0.03] = 0
    if kind == "one-hot":
        X = np.eye(width)[draw.integers(0, width, n)]
    elif kind == "twins":
        X = X[draw.integers(0, max(1, n // 8), n)]
    elif kind == "identical":
        X = np.tile(draw.random(width) + 0.1, (n, 1))
    elif kind == "opposite":
        X[1::2] = -X[: len(X[1::2]) * 2 : 2]
    elif kind == "negative":
        X = draw.standard_normal((n, width))
    elif kind == "sparse":
        X *= draw.random((n, width)) < 0.1
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X = X / np.where(lengths > 0, lengths, 1)
    if kind == "outlier":
        X[draw.integers(0, n, 2)] *= -(10.0 ** draw.integers(1, 25))
    elif kind == "tiny":
        X *= 10.0 ** -draw.integers(20, 43)
    elif kind == "huge":
        X *= 10.0 ** draw.integers(15, 39)
    elif kind == "mixed":
        X *= 10.0 ** draw.integers(-30, 31, (n, 1))
    return X


def _groups(kind: str, n: int, draw: np.random.Generator) -> np.ndarray:
    size = int(draw.integers(2, 12))
    numbers = draw.permutation(n) // size
    if kind == "ones":
        return np.eye(n)[draw.permutation(n)]
    if kind == "one":
        return np.ones((n, 1))
    if kind == "huge":
        numbers = (draw.random(n) < 0.2).astype(int) * draw.integers(0, 4, n)
    elif kind == "uneven":
        numbers = np.minimum(draw.geometric(0.15, n) - 1, 40)
    Y1 = np.eye(numbers.max() + 1)[numbers]
    if kind == "overlapping":
        Y1 = np.maximum(Y1, draw.random(Y1.shape) < 1.5 / Y1.shape[1])
        Y1[draw.random(n) < 0.1] = 0
    elif kind == "same":  # groups of the same samples
        Y1 = np.concatenate([Y1, Y1[:, : max(1, Y1.shape[1] // 3)]], axis=1)
    elif kind == "empty":
        Y1 = np.concatenate([Y1, np.zeros((n, 5))], axis=1)[:, draw.permutation(Y1.shape[1] + 5)]
    return Y1


def _labels(kind: str, Y1: np.ndarray, owner: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    if kind == "everywhere":
        return np.ones((Y1.shape[1], owner.shape[1]))
    if kind == "random":
        return draw.random((Y1.shape[1], owner.shape[1])) < 0.3
    Y2 = Y1.T @ owner > 0
    if kind == "rare":
        Y2 = Y2 & (draw.random(Y2.shape) < 0.15)
    return Y2 | ((Y1.sum(axis=0) == 0)[:, None] & (draw.random(Y2.shape) < 0.5))
