"""Slow twins of the heads' formulas, dense and in plain numpy and scipy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from xpipe.heads import Targets


def dense(targets: Targets, n_labels: int) -> np.ndarray:
    Y = np.zeros((len(targets), n_labels))
    Y[targets.rows().numpy(), targets.labels.numpy()] = 1
    return Y


def lml_projection(x: np.ndarray, k: int) -> np.ndarray:
    """One row, by Brent's method in float64; the middle of the bracket where that is it."""
    x = x.astype(np.float64)
    if k >= len(x):
        return np.ones(len(x))
    ordered = np.sort(x)[::-1]
    x = x - ordered[k - 1]
    low, high = -np.log(len(x)) - 1, ordered[k - 1] - ordered[k] + np.log(len(x)) + 1

    def excess(nu: float) -> float:
        over = expit(x + nu)
        return float(np.sum(over[over > 0.5] - 1) + np.sum(over[over <= 0.5]) + np.sum(over > 0.5) - k)

    middle = (low + high) / 2
    if excess(middle) == 0:
        return expit(x + middle)
    return expit(x + brentq(excess, low, high, xtol=1e-13, rtol=1e-15, maxiter=500))


def bce_loss(z: np.ndarray, Y: np.ndarray) -> float:
    p = expit(z)
    return float(-(Y * np.log(p) + (1 - Y) * np.log(1 - p)).sum(1).mean())


def softmax_loss(z: np.ndarray, Y: np.ndarray, temperature: float) -> float:
    log_p = z / temperature - logsumexp(z / temperature, axis=1, keepdims=True)
    return float(-np.mean([(row * log).sum() / max(row.sum(), 1) for row, log in zip(Y, log_p, strict=True)]))


def topk_entropy_loss(z: np.ndarray, Y: np.ndarray, k: int) -> float:
    total = 0.0
    for scores, own in zip(z, Y, strict=True):
        others = np.sort(scores[own == 0])[: max(len(scores) - k, 0)]
        total += sum(np.log(1 + np.exp(others - score).sum()) for score in scores[own == 1])
    return total / len(z)


def lml_loss(z: np.ndarray, Y: np.ndarray, k: int) -> float:
    return float(-np.mean([np.log(lml_projection(x, k)[own == 1]).sum() for x, own in zip(z, Y, strict=True)]))


def quasibinary_loss(z: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    log_c = np.log(np.exp(z).sum() / Y.sum())
    log_q = z - log_c
    return float(-(Y * log_q - np.maximum(log_q, 0)).sum(1).mean()), float(log_c)
