"""Slow, obviously right twins of the label tree: dense matrices, one classifier and one row at a time.

Hold no assertions.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize


def planted(n_samples: int, n_features: int, n_labels: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows whose features come from their labels, so that there is something to learn."""
    draw = np.random.default_rng(seed)
    Y = (draw.random((n_samples, n_labels)) < 2.5 / n_labels) * 1.0
    signs = draw.random((n_labels, n_features)) * (draw.random((n_labels, n_features)) < 0.15)
    noise = draw.random((n_samples, n_features)) * (draw.random((n_samples, n_features)) < 0.1)
    return sp.csr_matrix((Y @ signs + 0.5 * noise).astype(np.float32)), sp.csr_matrix(Y.astype(np.float32))


def unit_rows(X: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1)


def loss_of(margins: np.ndarray, loss: str) -> np.ndarray:
    return np.maximum(0, 1 - margins) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -margins)


def objective(w: np.ndarray, rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, loss: str) -> float:
    """What a classifier minimises; rows have the bias feature as their last."""
    return 0.5 * w @ w + costs @ loss_of(signs * (rows @ w), loss)


def best_classifier(rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, loss: str) -> np.ndarray:
    def gradient(w: np.ndarray, *_) -> np.ndarray:
        margins = signs * (rows @ w)
        slope = -2 * np.maximum(0, 1 - margins) if loss == "squared_hinge" else -1 / (1 + np.exp(margins))
        return w + rows.T @ (costs * slope * signs)

    return minimize(
        objective, np.zeros(rows.shape[1]), (rows, signs, costs, loss), jac=gradient, method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    ).x  # fmt: skip


def children_of(plan, level: int, node: int) -> list[list[int]]:
    """Labels below each child of a node."""
    start, stop = plan.bounds[level][node], plan.bounds[level][node + 1]
    if level == len(plan.bounds) - 1:
        return [[int(label)] for label in plan.order[start:stop]]
    cuts = [int(cut) for cut in plan.bounds[level + 1] if start <= cut <= stop]
    return [plan.order[a:b].tolist() for a, b in pairwise(cuts)]


def any_of(chances) -> float:
    """The chance of at least one of several, independently; a weight above 1 stays."""
    none = 1.0
    for chance in chances:
        none *= 1 - min(chance, 1.0)
    return max(1 - none, *chances)


def doubts_of(table: np.ndarray) -> np.ndarray:
    """rows x children: the chance that a row is in the node and not in the child; 1 where it has no label of it."""
    doubts = np.ones_like(table)
    for i, row in enumerate(table):
        there = any_of(row[row >= 0])
        doubts[i, row >= 0] = np.maximum(there - row[row >= 0], 0)
    return doubts


def rows_of_node(weights: np.ndarray, positive: np.ndarray, children: list[list[int]]):
    """(rows that reach a node, rows x children: the chance of any label below, -1 where there is none)."""
    table = np.full((len(weights), len(children)), -1.0)
    for i in range(len(weights)):
        for place, labels in enumerate(children):
            owned = [weights[i, label] for label in labels if positive[i, label]]
            table[i, place] = any_of(owned) if owned else -1.0
    rows = np.flatnonzero((table >= 0).any(axis=1))
    return rows, table[rows]


def unit_matrix(unit, n_features: int) -> np.ndarray:
    """Weights of a unit with their biases below, features + 1 x children."""
    found = np.zeros((n_features + 1, len(unit.biases)))
    for place, feature in enumerate(unit.features):
        for entry in range(unit.feature_ptr[place], unit.feature_ptr[place + 1]):
            found[feature, unit.lanes[entry]] = unit.weights[entry]
    found[-1] = unit.biases
    return found


def forest_units(forest) -> list:
    """The units of a forest, taken apart."""
    from xpipe.trees import UnitWeights

    w, found = forest.weights, []
    for unit in range(len(w.feature_ptr) - 1):
        first, last = w.feature_ptr[unit], w.feature_ptr[unit + 1]
        entries = w.entry_ptr[first : last + 1]
        part = slice(entries[0], entries[-1])
        biases = w.biases[w.child_ptr[unit] : w.child_ptr[unit + 1]]
        found.append(UnitWeights(w.features[first:last], entries - entries[0], w.lanes[part], w.weights[part], biases))
    return found


def probability(margin: float, loss: str) -> float:
    return (
        float(np.exp(-(max(0.0, 1.0 - margin) ** 2))) if loss == "squared_hinge" else float(1 / (1 + np.exp(-margin)))
    )


def predict_row(forest, x: np.ndarray, beam: int) -> dict[int, float]:
    """All labels the beam of a row reaches, with their mean probability over the trees."""
    units, at, sums = forest_units(forest), 0, {}
    for plan in forest.plans:
        blocks: dict[tuple[int, int], list[np.ndarray]] = {}
        for unit in plan.units():
            blocks.setdefault((unit.level, unit.node), []).append(unit_matrix(units[at], forest.n_features))
            at += 1
        nodes = {0: 1.0}
        for level in range(plan.depth):
            scores: dict[int, float] = {}
            for node, score in nodes.items():
                margins = np.append(x, 1.0) @ np.hstack(blocks[level, node])
                for place, margin in enumerate(margins):
                    scores[int(plan.child_ptr(level)[node]) + place] = score * probability(margin, forest.loss)
            nodes = scores
            if level < plan.depth - 1:
                nodes = dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:beam])
        for position, score in nodes.items():
            label = int(plan.order[position])
            sums[label] = sums.get(label, 0.0) + score / len(forest.plans)
    return sums
