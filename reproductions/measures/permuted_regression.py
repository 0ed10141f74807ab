"""Regression with permuted responses: estimators with and without assignment beside known correspondences.

Symbols of the paper: B_NoAS regresses sums of groups; B_AS gives each response to the member with the smallest residual
under B_NoAS, then regresses. Holds no page and no expected figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproductions.configuration import Measured, Table


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """RMS error of both estimators over that of known correspondences, for every deviation within groups.

    options: groups, size (of a group), features, responses, deviations (sigma_2), seeds.
    """
    from threadpoolctl import threadpool_limits

    figures, rows = {}, []
    with threadpool_limits(1):  # matrices are tiny: threads would only wait for each other
        for deviation in options["deviations"]:
            errors = np.array([one_draw(options, deviation, seed) for seed in range(options["seeds"])])
            known, without, assigned = np.sqrt((errors**2).mean(axis=0))
            figures[f"B_NoAS at sigma_2 = {deviation:g}"] = without / known
            figures[f"B_AS at sigma_2 = {deviation:g}"] = assigned / known
            theory = rate(options["size"], deviation)
            rows.append((f"{deviation:g}", f"{without / known:.3f}", f"{theory:.3f}", f"{assigned / known:.3f}"))
    columns = ("sigma_2", "B_NoAS", "rate of Theorem 1 for B_NoAS", "B_AS")
    return Measured(figures, (Table("RMS error over that of known correspondences", columns, tuple(rows)),))


def rate(size: int, deviation: float) -> float:
    """What (4) of Theorem 1, over the first term of (5), comes to with sigma_1 = 1: sqrt(g (1 + s^2) / (g + s^2))."""
    return float(np.sqrt(size * (1 + deviation**2) / (size + deviation**2)))


def one_draw(options: Mapping[str, Any], deviation: float, seed: int) -> tuple[float, float, float]:
    """RMS errors of B with known correspondences, of B_NoAS and of B_AS, on one drawn dataset."""
    n_groups, size = options["groups"], options["size"]
    n_features, n_responses = options["features"], options["responses"]
    rng = np.random.default_rng(seed)
    B, _ = np.linalg.qr(rng.standard_normal((n_features, n_responses)))  # all singular values are 1
    centres = rng.standard_normal((n_groups, 1, n_features))
    X = centres + deviation * rng.standard_normal((n_groups, size, n_features))
    Z = X @ B + rng.standard_normal((n_groups, size, n_responses))
    known = regress(X, Z)
    Z = shuffled(Z, rng)
    without = regress(X.sum(axis=1), Z.sum(axis=1))
    assigned = regress(closest_members(X, Z, without), Z)
    known_error, without_error, assigned_error = (
        float(np.sqrt(np.mean((found - B) ** 2))) for found in (known, without, assigned)
    )
    return known_error, without_error, assigned_error


def shuffled(Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Responses in another order within each group."""
    order = np.argsort(rng.random(Z.shape[:2]), axis=1)
    return np.take_along_axis(Z, order[:, :, None], axis=1)


def closest_members(X: np.ndarray, Z: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each response, the features of the member with the smallest residual. A member may be taken twice."""
    fitted = X @ B
    residuals = ((Z[:, :, None, :] - fitted[:, None, :, :]) ** 2).sum(axis=-1)
    return np.take_along_axis(X, residuals.argmin(axis=2)[:, :, None], axis=1)


def regress(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Least squares over all samples."""
    X, Z = X.reshape(-1, X.shape[-1]), Z.reshape(-1, Z.shape[-1])
    return np.asarray(np.linalg.solve(X.T @ X, X.T @ Z))
