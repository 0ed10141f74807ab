"""Slow, obviously right twins of embedding and assignment: dense rows, loops over labels, groups and samples.

Hold no assertions and no shortcuts: every score is a dot product of its own.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

TIE, ZERO, FLOAT32_TIE = 1e-9, 1e-6, 2e-7


def groups_of_labels(Y1: sp.spmatrix, Y2: sp.spmatrix) -> list[list[list[int]]]:
    """For each label, the samples of each of its groups; groups without samples are left out."""
    membership, group_labels = Y1.toarray() != 0, Y2.toarray() != 0
    samples = [np.flatnonzero(membership[:, group]).tolist() for group in range(membership.shape[1])]
    return [
        [samples[group] for group in np.flatnonzero(group_labels[:, label]) if samples[group]]
        for label in range(group_labels.shape[1])
    ]


def project(vector: np.ndarray, size: float) -> np.ndarray:
    """The direction of a vector, or zero where the vector is rounding error beside terms of this size."""
    length = np.linalg.norm(vector)
    return vector / length if length > ZERO * size else np.zeros_like(vector)


def direction(rows: list[np.ndarray], mean: np.ndarray) -> np.ndarray:
    size = sum(np.linalg.norm(row) + np.linalg.norm(mean) for row in rows)
    return project(sum((row - mean for row in rows), np.zeros_like(mean)), size)


def tied(scores: list[float], norms: list[float], tie: float) -> list[int]:
    best = max(score - tie * norm for score, norm in zip(scores, norms, strict=True))
    return [i for i, (score, norm) in enumerate(zip(scores, norms, strict=True)) if score + tie * norm >= best]


def embed_label(
    X: np.ndarray, groups: list[list[int]], steps: int, step_size: float, mean: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """Algorithm 1 for one label, and the objective after 0..steps steps."""
    e = direction([X[i] for group in groups for i in group], mean)
    trace = [sum(max(X[i] @ e for i in group) for group in groups)]
    for _ in range(steps):
        chosen = []
        for group in groups:
            best = tied([X[i] @ e for i in group], [np.linalg.norm(X[i]) for i in group], TIE)
            chosen += [X[group[place]] for place in best]
        g = direction(chosen, mean)
        if not e.any() and not g.any():
            starts = (direction([X[i]], mean) for group in groups for i in group)
            g = next((start for start in starts if start.any()), g)
        e = project(e + step_size * g, 1.0 if e.any() else step_size)
        trace.append(sum(max(X[i] @ e for i in group) for group in groups))
    return e, trace


def embed(X, Y1, Y2, *, steps=20, step_size=1.0, centred=False) -> tuple[np.ndarray, np.ndarray]:
    """(labels x features, objective after 0..steps steps), dense float64."""
    rows = X.toarray().astype(np.float64)
    mean = rows.mean(axis=0) if centred and len(rows) else np.zeros(rows.shape[1])
    found = [embed_label(rows, groups, steps, step_size, mean) for groups in groups_of_labels(Y1, Y2)]
    embeddings = np.array([e for e, _ in found]).reshape(len(found), rows.shape[1])
    return embeddings, np.sum([trace for _, trace in found] or [[0.0] * (steps + 1)], axis=0)


def assign(X, Y1, Y2, E: np.ndarray, sizes: np.ndarray) -> dict[tuple[int, int], float]:
    """{(sample, label): score}; sizes: how large the parts of each embedding are, 1 unless it is centred."""
    rows = X.toarray().astype(np.float64)
    chosen = {}
    for label, groups in enumerate(groups_of_labels(Y1, Y2)):
        for group in groups:
            scores = [float(rows[i] @ E[label]) for i in group]
            first = tied(scores, [np.linalg.norm(rows[i]) for i in group], FLOAT32_TIE * sizes[label])[0]
            chosen[group[first], label] = scores[first]
    return chosen
