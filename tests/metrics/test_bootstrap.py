"""Intervals: resamples drawn as they should be, the same every time, and as wide as theory says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.metrics.strategies import random_case
from xpipe import metrics
from xpipe.errors import ConfigError
from xpipe.metrics import _numba
from xpipe.metrics.bootstrap import _resample
from xpipe.metrics.measuring import metrics_of


@pytest.fixture(scope="module")
def measured():
    case = random_case(0, n_rows=400)
    return metrics.measure(case.scores, case.truth, 5, inverse_propensity=1 + np.arange(60) % 9, keep_rows=True)


def test_the_contributions_add_up_to_the_metrics(measured):
    sums = measured.contributions.sum(axis=0, dtype=np.float64)
    for name, values in metrics_of(sums, measured.n_rows).items():
        np.testing.assert_allclose(values, getattr(measured, name), rtol=1e-6)


def test_draws_are_n_of_n_and_even():
    counts = np.empty(1000, np.uint16)
    total = np.zeros(1000)
    for seed in range(400):
        _numba.draw_counts(seed * 7919, counts)
        assert counts.sum() == 1000
        total += counts
    assert abs(total.mean() - 400) < 1e-9
    assert 16 < total.std() < 24  # 20 = sqrt(400) by chance alone
    assert np.mean(counts == 0) == pytest.approx(np.exp(-1), abs=0.06)


def test_a_resample_is_the_sum_over_its_rows(measured):
    flat = measured.contributions.reshape(400, -1)
    sums = np.zeros((3, flat.shape[1]))
    counts = np.empty((3, 400), np.uint16)
    _numba.resample_sums(np.arange(3, dtype=np.uint64), flat, counts, sums)
    np.testing.assert_allclose(sums, counts.astype(np.float64) @ flat, rtol=1e-12)
    assert len(np.unique(sums[:, 0])) == 3


@pytest.mark.parametrize("resamples", [1, 16, 37])
def test_the_same_bytes_for_any_number_of_threads(measured, resamples):
    alone, many = (_resample(measured.contributions, resamples, 5, threads) for threads in (1, 3))
    assert alone.tobytes() == many.tobytes()
    assert alone.shape == (resamples, 9, 5)
    assert (alone[:, _numba.HITS] > 0).all()


def test_seeds_and_confidence_matter(measured):
    first = metrics.intervals(measured, resamples=200, seed=0)
    again = metrics.intervals(measured, resamples=200, seed=0)
    other = metrics.intervals(measured, resamples=200, seed=1)
    narrow = metrics.intervals(measured, resamples=200, confidence=0.5)
    assert set(first) == {"precision", "recall", "f1", "ndcg", "micro_f1", "psp", "psndcg"}
    for name, (low, high) in first.items():
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
        assert (low < getattr(measured, name)).all()
        assert (getattr(measured, name) < high).all()
        assert (narrow[name][1] - narrow[name][0] < high - low).all()


def test_intervals_are_as_wide_as_theory_says(measured):
    low, high = metrics.intervals(measured, resamples=2000)["precision"]
    of_rows = measured.contributions[:, _numba.HITS] / np.arange(1, 6)
    expected = 2 * 1.96 * of_rows.std(axis=0) / np.sqrt(400)
    np.testing.assert_allclose(high - low, expected, rtol=0.12)


@pytest.mark.parametrize("options", [{"resamples": 0}, {"confidence": 1.0}, {"confidence": 0.0}])
def test_wrong_options(measured, options):
    with pytest.raises(ConfigError, match="intervals need"):
        metrics.intervals(measured, **options)


def test_rows_must_have_been_kept():
    with pytest.raises(ConfigError, match="keep_rows=True"):
        metrics.intervals(metrics.measure(np.ones((2, 3)), np.eye(2, 3)))
