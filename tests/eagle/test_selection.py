"""Choices by held-out groups: calibration, threshold, and the walk over a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpipe.eagle import selection, trial
from xpipe.eagle.slopes import SLOPES


def trial_of(truth, n_groups):
    return trial.Trial(np.arange(len(truth)), None, None, None, truth, truth.mean(axis=1), n_groups, 4)


@dataclass(frozen=True)
class Tried:
    point: float
    likelihood: float


def test_calibration_is_recovered_from_groups_it_made():
    rng = np.random.default_rng(0)
    n_groups = rng.integers(1, 500, 200)
    scores = np.exp(rng.normal(-3, 1, (200, 400, 5)))  # five members per group
    hazards = np.exp(5 - 0.5 * np.log(n_groups)[:, None, None]) * scores**2
    truth = rng.random((200, 400)) < -np.expm1(-hazards.sum(axis=2))
    sums = np.stack([np.log((scores**slope).sum(axis=2)) for slope in SLOPES])
    held = trial_of(truth, n_groups)
    found, likelihood = selection.calibrate(trial.Forecast(sums[0], sums), held)
    assert tuple(found) == pytest.approx((5, 2, -0.5, 0), abs=0.1)
    assert likelihood < 0
    noise = np.stack([rng.permutation(line.ravel()).reshape(line.shape) for line in sums])
    worse = selection.calibrate(trial.Forecast(noise[0], noise), held)[1]
    assert worse < likelihood - 0.01
    upside_down = trial.Forecast(sums[0], -sums)  # scores that speak against owning are of no use
    assert selection.calibrate(upside_down, held)[0] is None


def test_threshold_gives_the_highest_expected_f1():
    chances = np.random.default_rng(0).beta(0.3, 2, 500)

    def expected_f1(threshold):
        chosen = chances > threshold
        return 2 * chances[chosen].sum() / (chosen.sum() + chances.sum())

    found = selection.threshold_of(chances)
    assert expected_f1(np.nextafter(found, 0)) == pytest.approx(max(expected_f1(c - 1e-12) for c in chances))
    assert found == pytest.approx(expected_f1(found) / 2, abs=0.01)  # a known property of the best threshold
    found = selection.threshold_of(chances, recall=4.0)
    chosen = chances > found
    f2 = 5 * chances[chosen].sum() / (chosen.sum() + 4 * chances.sum())
    assert found == pytest.approx(f2 / 5, abs=0.01)


def test_climbing_finds_the_top():
    grid = (1.0, 3.0, 10.0, 30.0, 100.0)
    best, seen = selection.climb(grid, (3,), lambda x: Tried(x, -((np.log(x) - np.log(5.0)) ** 2)))
    assert best.point == 3.0
    assert set(seen) == set(grid)
    assert selection.top_of(seen, best.point) == pytest.approx(5.0, rel=0.01)  # between the points of the grid
    best, seen = selection.climb(grid, (3,), lambda x: Tried(x, x))
    assert (best.point, set(seen)) == (100.0, {30.0, 100.0})
    assert selection.top_of(seen, best.point) == 100.0


def test_climbing_from_two_places_finds_the_higher_hill():
    heights = (1.0, 2.0, 1.0, 0.0, 3.0, 4.0, 1.0)
    for starts in ((1, 4), (4, 1)):
        best, seen = selection.climb(tuple(range(7)), starts, lambda at: Tried(at, heights[int(at)]))
        assert (best.point, set(seen)) == (5, {1, 4, 5, 6})
    best, _ = selection.climb((0.0, 1.0), (1, 0), lambda at: Tried(at, 1.0))
    assert best.point == 1.0  # of equal starts the first


@given(st.lists(st.sampled_from([-np.inf, -2.0, -1.0, np.nan]), min_size=1, max_size=9), st.data())
def test_climbing_keeps_the_attempt_it_names_and_equals_stay_near_the_start(values, data):
    start = data.draw(st.integers(0, len(values) - 1))
    best, seen = selection.climb(tuple(range(len(values))), (start,), lambda at: Tried(at, values[int(at)]))
    np.testing.assert_equal(best.likelihood, values[int(best.point)])
    np.testing.assert_equal(seen, {at: values[int(at)] for at in seen})
    between = range(min(start, best.point), max(start, best.point))
    assert all(values[at] < best.likelihood for at in between if at != best.point) or best.point == start
    if len(set(values)) == 1:
        assert best.point == start
    top = selection.top_of(seen, best.point)
    assert min(seen) <= top <= max(seen)


def test_descending_stops_where_the_likelihood_is_no_longer_good_enough():
    grid = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

    def attempt(x: float) -> Tried:
        return Tried(x, -(0.2 + 0.01 * (np.log(x) - np.log(12.0)) ** 2))

    _, seen = selection.climb(grid, (3,), attempt)
    for loss, exact in ((0.02, 12 * np.exp(-np.sqrt(0.4))), (0.5, 12 * np.exp(-np.sqrt(10)))):
        found, tried = selection.descend(grid, seen, loss, attempt)
        assert found == pytest.approx(exact, rel=0.15)
        assert set(seen) <= set(tried)
    assert selection.descend(grid, seen, 9.0, attempt)[0] == 0.3  # all are good enough


@given(st.lists(st.sampled_from([-3.0, -2.0, -1.0, -1.01]), min_size=1, max_size=9), st.data())
def test_descending_never_ends_far_below_the_best(values, data):
    grid = tuple(2.0**at for at in range(len(values)))

    def attempt(x: float) -> Tried:
        return Tried(x, float(np.interp(np.log2(x), np.arange(len(values)), values)))

    _, seen = selection.climb(grid, (data.draw(st.integers(0, len(values) - 1)),), attempt)
    found, tried = selection.descend(grid, seen, 0.02, attempt)
    assert grid[0] <= found <= max(tried, key=lambda point: tried[point])
    assert attempt(found).likelihood >= max(seen.values()) * 1.03  # a line is not the curve: nearly good enough


def test_explained_is_a_share_and_needs_no_scale():
    rng = np.random.default_rng(0)
    truth = rng.random((20, 200)) < 0.1
    held = trial_of(truth, np.full(20, 20))

    def explained(chances):
        return selection.explained(trial.Forecast(np.log1p(-chances), np.zeros(1)), held)

    noise = rng.uniform(0.01, 0.2, truth.shape)
    right = np.where(truth, 0.3, 0.02) * rng.uniform(0.5, 1.5, truth.shape)
    assert explained(noise) == pytest.approx(0, abs=0.01)
    assert explained(right) > 0.9
    weak = np.where(truth, 0.3, 0.1) * rng.uniform(0.2, 1.8, truth.shape)
    assert 0.05 < explained(weak) < explained(right)
    assert explained(1 - (1 - weak) ** 0.1) == pytest.approx(explained(weak), abs=1e-4)  # less sure, as right
