"""How sure the metrics are: intervals from resampled rows (percentile bootstrap).

Holds no metric: what each row adds comes from `measuring`, and a resample is a sum over rows drawn with replacement.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xpipe.errors import ConfigError
from xpipe.ground.machine import check_threads
from xpipe.ground.seeding import bit_generator
from xpipe.ground.sparse import read_only
from xpipe.metrics.measuring import Measured, metrics_of

BATCH = 16  # resamples that share one reading of the rows


def intervals(
    measured: Measured,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Lower and upper ends [2, k] of each metric that is a mean or a ratio of sums over rows.

    measured: of `measure` with keep_rows=True. They say how much another draw of as many rows could have changed the
    metric; not how much another training run would. Macro F1 and coverage, which go by label, have none. The same
    bytes for any number of threads.
    """
    if measured.contributions is None:
        raise ConfigError("intervals need what each row adds", fix="measure(..., keep_rows=True)")
    if resamples < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"intervals need at least 1 resample and a confidence between 0 and 1, got {resamples} and {confidence}",
            fix="resamples=1000, confidence=0.95",
        )
    sums = _resample(measured.contributions, resamples, seed, check_threads(threads))
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return {name: np.quantile(values, ends, axis=0) for name, values in metrics_of(sums, measured.n_rows).items()}


def _resample(contributions: np.ndarray, resamples: int, seed: int, threads: int) -> np.ndarray:
    """Sums of the contributions over each resample: resamples x quantities x k, float64."""
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
