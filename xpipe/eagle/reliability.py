"""How far forecasts for groups set aside can be believed: of those that say 30%, how many came true?

Holds no forecast (`trial`) and no fitting (`selection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle.slopes import slope_number
from xpipe.eagle.trial import Forecast, Trial

BINS = 10


def reliability_of(forecast: Forecast | None, trial: Trial, calibration: Sequence[float]) -> list[dict[str, Any]]:
    """Bins of the chances that held-out groups have labels: mean chance, share that has the label, and count.

    forecast: with the sums of scores to the powers SLOPES. calibration: the fields of a `Calibration`. Without either,
    there are no chances, and the list is empty.
    """
    if forecast is None or not len(calibration):
        return []
    numbers = Calibration(*calibration)
    n_groups = np.log(np.maximum(trial.n_groups, 1))[:, None]
    log_hazards = numbers.offset + numbers.per_group * n_groups + forecast.log_sums[slope_number(numbers.slope)]
    chances = -np.expm1(-np.exp(np.minimum(log_hazards, 700.0)))
    return _bins(chances.ravel(), trial.held_labels.ravel())


def _bins(chances: np.ndarray, truth: np.ndarray) -> list[dict[str, Any]]:
    """The bins, of equal width."""
    places = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    means = np.bincount(places, weights=chances, minlength=BINS) / np.maximum(counts, 1)
    shares = np.bincount(places, weights=truth, minlength=BINS) / np.maximum(counts, 1)
    return [
        {
            "from": place / BINS,
            "to": (place + 1) / BINS,
            "count": int(counts[place]),
            "confidence": round(float(means[place]), 6),
            "accuracy": round(float(shares[place]), 6),
        }
        for place in range(BINS)
    ]
