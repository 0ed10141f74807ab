"""Two small regressions that choices rest on: logistic, and complementary log-log. Both by damped Newton steps.

Holds nothing of labels or groups: inputs are [terms, points], truth is one number or bool per point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

STEPS = 50  # at most
SETTLED = 1e-8  # the loss must fall by more than this for another step
SHORTEST = 1e-4  # of a step, as a part of the full Newton step
DAMPING = 1e-6  # added to the diagonal of the second derivatives


def logistic_loss(inputs: np.ndarray, truth: np.ndarray) -> float:
    """The smallest mean log loss of a logistic regression."""

    def loss_at(weights: np.ndarray) -> float:
        odds = np.einsum("t,tp->p", weights, inputs)
        return float((np.logaddexp(0, odds) - truth * odds).mean())

    def derivatives(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        odds = np.einsum("t,tp->p", weights, inputs)
        chance = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        slope = np.einsum("tp,p->t", inputs, chance - truth)
        return slope, np.einsum("tp,sp->ts", inputs * (chance * (1 - chance)), inputs)

    weights = np.zeros(len(inputs))
    weights[0] = np.log((truth.mean() + 1e-9) / (1 - truth.mean() + 1e-9))
    _, loss = _descend(loss_at, derivatives, weights)
    return loss


def hazards_of(log_hazard: np.ndarray) -> np.ndarray:
    """-log P(not true), within the range of floats."""
    hazard: np.ndarray = np.minimum(np.exp(np.clip(log_hazard, -30, 30)), 100)
    return hazard


def fit_hazards(inputs: np.ndarray, truth: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, float]:
    """(weights, mean loss) of a complementary log-log regression, -log P(not true) = exp(known + weights @ inputs).

    By Fisher scoring. The first row of `inputs` must be ones.
    """

    def hazard_at(weights: np.ndarray) -> np.ndarray:
        return hazards_of(known + np.einsum("t,tp->p", weights, inputs))

    def loss_at(weights: np.ndarray) -> float:
        hazard = hazard_at(weights)
        return float(np.where(truth, -np.log(-np.expm1(-hazard)), hazard).mean())

    def derivatives(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hazard = hazard_at(weights)
        slope = np.einsum("tp,p->t", inputs, np.where(truth, -hazard / np.expm1(hazard), hazard))
        return slope, np.einsum("tp,sp->ts", inputs * (hazard**2 / np.expm1(hazard)), inputs)

    weights = np.zeros(len(inputs))
    weights[0] = np.log(-np.log1p(-min(truth.mean(), 1 - 1e-9) + 1e-12)) - np.log(np.exp(np.minimum(known, 30)).mean())
    return _descend(loss_at, derivatives, weights)


def _descend(
    loss_at: Callable[[np.ndarray], float],
    derivatives: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    weights: np.ndarray,
) -> tuple[np.ndarray, float]:
    """(weights, loss) after Newton steps. A full step may overshoot where few points are true; it is halved then."""
    best = loss_at(weights)
    for _ in range(STEPS):
        slope, curve = derivatives(weights)
        newton = np.linalg.solve(curve + DAMPING * np.eye(len(weights)), slope)
        length = 1.0
        loss = loss_at(weights - newton)
        while loss > best and length > SHORTEST:
            length /= 2
            loss = loss_at(weights - length * newton)
        if loss > best - SETTLED:
            break
        weights, best = weights - length * newton, loss
    return weights, best
