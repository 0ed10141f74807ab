"""Points for many label sets at once on a GPU: accelerated ascent of a smoothed least margin, as matrix products.

Holds no verdicts: a point found here is proved like any other, and a set without one goes on to the searches. Written
against an array module (xp = cupy or numpy), so that the same lines run without a GPU.

For signs y, rows a_i = y_i w_i / ||w_i|| and |x| <= 1, the least margin min_i a_i.x is replaced by
-mu log sum_i exp(-a_i.x / mu), which is below it by at most mu log n. Its gradient is the mean of the rows weighted by
their share of the sum, with Lipschitz constant 1 / mu. mu falls from stage to stage.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.ground.sparse_rows import entry_rows

STAGES = 6
STEPS = 40  # per stage
WIDEST, FALL = 0.1, 0.45  # mu of the first stage, and the factor from stage to stage
SCORES = 1 << 26  # scores held at once


def find_points(xp: Any, directions: np.ndarray, indptr: np.ndarray, indices: np.ndarray, enough: float) -> np.ndarray:
    """One point per set in box units (float64 [n_sets, d]); NaN where the least margin found is not positive.

    directions: rows of length 1; indptr, indices: the label sets as positions in them; enough: a radius that suffices.
    """
    n_sets = len(indptr) - 1
    points = np.full((n_sets, directions.shape[1]), np.nan)
    rows = xp.asarray(directions, dtype=xp.float32)
    at_once = max(1, SCORES // max(len(rows), 1))
    for start in range(0, n_sets, at_once):
        part = indptr[start : start + at_once + 1]
        labels = indices[part[0] : part[-1]]
        points[start : start + at_once] = _ascend(xp, rows, part - part[0], labels, enough)
    return points


def _ascend(xp: Any, rows: Any, indptr: np.ndarray, labels: np.ndarray, enough: float) -> np.ndarray:
    """`find_points` for sets whose scores fit into memory together."""
    n_sets = len(indptr) - 1
    signs = xp.full((n_sets, len(rows)), -1, dtype=xp.float32)
    signs[xp.asarray(entry_rows(indptr)), xp.asarray(labels)] = 1
    x = _into_ball(xp, signs @ rows)
    best, best_x = xp.full(n_sets, -xp.inf, dtype=xp.float32), x.copy()
    live, mu = xp.arange(n_sets), WIDEST
    for _ in range(STAGES):
        x, best[live], best_x[live] = _climb(xp, rows, signs, x, best[live], best_x[live], mu)
        left = xp.flatnonzero(best[live] < enough)  # the others have a radius that suffices
        live, signs, x = live[left], signs[left], x[left]
        if not len(live):
            break
        mu *= FALL
    scale = xp.maximum(xp.abs(best_x).max(axis=1, keepdims=True), 1e-30)
    found = xp.where((best > 0)[:, None], best_x / scale, xp.nan)
    return _to_host(found).astype(np.float64)


def _climb(xp: Any, rows: Any, signs: Any, x: Any, best: Any, best_x: Any, mu: float) -> tuple[Any, Any, Any]:
    """One stage of the ascent. Returns for all sets (last x, best radius so far, its point)."""
    y, momentum = x, 1.0
    for _ in range(STEPS):
        margins = signs * (y @ rows.T)
        least = margins.min(axis=1)
        radius = least / xp.maximum(xp.abs(y).max(axis=1), 1e-30)
        better = radius > best
        best, best_x = xp.where(better, radius, best), xp.where(better[:, None], y, best_x)
        shares = xp.exp((least[:, None] - margins) / mu)
        shares *= signs / shares.sum(axis=1, keepdims=True)
        climbed = _into_ball(xp, y + mu * (shares @ rows))
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        y = climbed + (momentum - 1) / following * (climbed - x)
        x, momentum = climbed, following
    return x, best, best_x


def _into_ball(xp: Any, x: Any) -> Any:
    """Each row scaled to length 1 where it is longer."""
    length = xp.sqrt((x * x).sum(axis=1, keepdims=True))
    return x / xp.maximum(length, 1.0)


def _to_host(array: Any) -> np.ndarray:
    """A numpy array, from the GPU if it is there."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
