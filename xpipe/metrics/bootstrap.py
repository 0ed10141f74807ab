"""How certain metrics are: intervals from resampled rows (percentile bootstrap).

Holds no metric: `measuring` gives the contribution of each row, and a resample is a sum over rows drawn with
replacement.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xpipe.errors import ConfigError
from xpipe.ground.machine import check_threads
from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import read_only
from xpipe.metrics.measuring import Measured, metrics_of
from xpipe.metrics.options import CONFIDENCE, RESAMPLES

BATCH = 16  # resamples that share one reading of the rows


def intervals(
    measured: Measured,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Compute bootstrap intervals of each metric that is a mean or a ratio of sums over rows.

    An interval says how much another draw of as many rows could change the metric, not how much another training run
    would. Macro F1 and coverage are sums over labels and have no interval.

    Parameters
    ----------
    measured : Measured
        From `measure(..., keep_rows=True)`.
    resamples : int, default 1000
        How many draws of rows.
    confidence : float, default 0.95
        Between 0 and 1.
    seed : int, default 0
        For the draws.
    threads : int, optional
        Default: one per usable core. The number changes no byte of the result.

    Returns
    -------
    dict of str to ndarray of float64, shape (2, k)
        Lower and upper ends at ranks 1..k, by the name of the metric.

    Raises
    ------
    ConfigError
        If the contributions of rows are missing, or an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import intervals, measure
    >>> scores, truth = np.tile([[0.9, 0.1]], (50, 1)), np.tile([[1, 0], [0, 1]], (25, 1))
    >>> low, high = intervals(measure(scores, truth, k=1, keep_rows=True), resamples=200)["precision"][:, 0]
    >>> bool(0.3 < low < 0.5 < high < 0.7)
    True
    """
    if measured.contributions is None:
        raise ConfigError("intervals need the contribution of each row", fix="measure(..., keep_rows=True)")
    if resamples < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"intervals need at least 1 resample and a confidence between 0 and 1, got {resamples} and {confidence}",
            fix="resamples=1000, confidence=0.95",
        )
    sums = _resample(measured.contributions, resamples, seed, check_threads(threads))
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return {name: np.quantile(values, ends, axis=0) for name, values in metrics_of(sums, measured.n_rows).items()}


def _resample(contributions: np.ndarray, resamples: int, seed: int, threads: int) -> np.ndarray:
    """Sums of the contributions over each resample, float64 [resamples, quantities, k]."""
    from xpipe.metrics import _numba

    n_rows = len(contributions)
    flat = read_only(contributions.reshape(n_rows, -1))
    seeds = bit_generator(seed, "metrics", "bootstrap").random_raw(resamples)
    sums = np.zeros((resamples, flat.shape[1]))

    def work(first: int) -> None:
        batch = slice(first, first + BATCH)
        _numba.resample_sums(seeds[batch], flat, np.empty((BATCH, n_rows), np.uint16), sums[batch])

    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-metrics") as pool:
        list(pool.map(work, range(0, resamples, BATCH)))
    return sums.reshape(resamples, *contributions.shape[1:])
