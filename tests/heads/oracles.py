"""Slow twins of the heads' formulas, dense and in plain numpy and scipy."""

from __future__ import annotations

import functools

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from xpipe.heads import Targets


def dense(targets: Targets, n_labels: int) -> np.ndarray:
    Y = np.zeros((len(targets), n_labels))
    Y[targets.rows().numpy(), targets.labels.numpy()] = 1 if targets.chances is None else targets.chances.numpy()
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
    return float(-np.mean([(row * log).sum() / (row.sum() or 1) for row, log in zip(Y, log_p, strict=True)]))


def topk_entropy_loss(z: np.ndarray, Y: np.ndarray, k: int) -> float:
    total = 0.0
    for scores, own in zip(z, Y, strict=True):
        others = np.sort(scores[own == 0])[: max(len(scores) - k, 0)]
        chosen = zip(own[own > 0], scores[own > 0], strict=True)
        total += sum(chance * np.log(1 + np.exp(others - score).sum()) for chance, score in chosen)
    return total / len(z)


def lml_loss(z: np.ndarray, Y: np.ndarray, k: int) -> float:
    logs = [own[own > 0] @ np.log(lml_projection(x, k)[own > 0]) for x, own in zip(z, Y, strict=True)]
    return float(-np.mean(logs))


def quasibinary_loss(z: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    log_c = np.log(np.exp(z).sum() / Y.sum())
    log_q = z - log_c
    return float(-(Y * log_q - np.maximum(log_q, 0)).sum(1).mean()), float(log_c)


def exact_lml_loss(x: np.ndarray, own: list[int], k: int) -> tuple[float, np.ndarray]:
    """(loss, its gradient by the logits) of one row, 1 <= k < n, in 40 digits with exponents of any size."""
    return _exact_lml_loss(tuple(x.tolist()), tuple(own), k)


@functools.cache
def _exact_lml_loss(x: tuple[float, ...], own: tuple[int, ...], k: int) -> tuple[float, np.ndarray]:
    import mpmath as mp

    with mp.workdps(40):
        logits = [mp.mpf(value) for value in x]

        def excess(nu):  # of sum(y) over k, as a difference of small numbers
            small = [1 / (1 + mp.exp(abs(value + nu))) for value in logits]
            above = [value + nu > 0 for value in logits]
            return sum(above) - k + mp.fsum(-part if up else part for part, up in zip(small, above, strict=True))

        def weigh(nu):
            return [1 / (2 + mp.exp(value + nu) + mp.exp(-value - nu)) for value in logits]

        ordered = sorted(logits, reverse=True)
        low, high = -ordered[k - 1] - mp.log(len(x)) - 1, -ordered[k] + mp.log(len(x)) + 1
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        nu = (low + high) / 2
        for _ in range(5):  # 1e-3, 1e-6, 1e-12, 1e-24, rounding
            nu -= excess(nu) / mp.fsum(weigh(nu))
        assert low - 1e-3 < nu < high + 1e-3
        weights = weigh(nu)
        pulls = {label: 1 / (1 + mp.exp(logits[label] + nu)) for label in own}
        whole, pull = mp.fsum(weights), mp.fsum(pulls.values())
        gradient = [pull * weight / whole - pulls.get(label, 0) for label, weight in enumerate(weights)]
        loss = mp.fsum(mp.log(1 + mp.exp(-logits[label] - nu)) for label in own)
        return float(loss), np.array([float(part) for part in gradient])


def exact_bce_loss(z: np.ndarray, own: list[int]) -> tuple[float, np.ndarray]:
    import mpmath as mp

    with mp.workdps(40):
        z = [mp.mpf(float(value)) for value in z]
        loss = mp.fsum(mp.log(1 + mp.exp(-value if label in own else value)) for label, value in enumerate(z))
        gradient = [(-1 if label in own else 1) / (1 + mp.exp(value if label in own else -value))
                    for label, value in enumerate(z)]  # fmt: skip
        return float(loss), np.array([float(part) for part in gradient])


def exact_softmax_loss(z: np.ndarray, own: list[int]) -> tuple[float, np.ndarray]:
    import mpmath as mp

    with mp.workdps(40):
        z = [mp.mpf(float(value)) for value in z]
        whole = mp.fsum(mp.exp(value) for value in z)
        share = mp.mpf(1) / max(len(own), 1)
        loss = mp.fsum(share * (mp.log(whole) - z[label]) for label in own)
        gradient = [bool(own) * mp.exp(value) / whole - (share if label in own else 0) for label, value in enumerate(z)]
        return float(loss), np.array([float(part) for part in gradient])


def exact_topk_entropy_loss(z: np.ndarray, own: list[int], k: int) -> tuple[float, np.ndarray]:
    import mpmath as mp

    with mp.workdps(40):
        z = [mp.mpf(float(value)) for value in z]
        others = sorted((label for label in range(len(z)) if label not in own), key=lambda label: z[label])
        counted = others[: max(len(z) - k, 0)]
        loss, gradient = mp.mpf(0), [mp.mpf(0)] * len(z)
        for label in own:
            whole = 1 + mp.fsum(mp.exp(z[other] - z[label]) for other in counted)
            loss += mp.log(whole)
            for other in counted:
                gradient[other] += mp.exp(z[other] - z[label]) / whole
            gradient[label] -= 1 - 1 / whole
        return float(loss), np.array([float(part) for part in gradient])


def exact_quasibinary_loss(z: np.ndarray, sets: list[list[int]]) -> tuple[float, np.ndarray]:
    """(mean loss over the rows, its gradient); the batch has at least one label."""
    import mpmath as mp

    with mp.workdps(60):
        rows = [[mp.mpf(float(value)) for value in row] for row in z]
        n_own = sum(map(len, sets))
        whole = mp.fsum(mp.exp(value) for row in rows for value in row)
        log_c = mp.log(whole / n_own)
        n_over = sum(value > log_c for row in rows for value in row)
        loss = mp.fsum(max(value - log_c, 0) - (value - log_c if label in own else 0)
                       for row, own in zip(rows, sets, strict=True) for label, value in enumerate(row))  # fmt: skip
        gradient = [[(value > log_c) - (label in own) + (n_own - n_over) * mp.exp(value) / whole
                     for label, value in enumerate(row)] for row, own in zip(rows, sets, strict=True)]  # fmt: skip
        return float(loss / len(rows)), np.array([[float(part / len(rows)) for part in row] for row in gradient])
