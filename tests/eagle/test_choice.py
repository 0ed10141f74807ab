"""Choices without true labels: trials, forecasts against a dense twin, calibration, and which method is taken."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.eagle.test_discriminative import planted, whitened
from xpipe.eagle import impute, selection
from xpipe.eagle._owners_numba import CEILING, RULED_OUT
from xpipe.eagle.choice import Choice
from xpipe.grouping import given_groups, random_groups, spread_labels


def test_foretelling_equals_a_dense_twin():
    X, Y = planted(n_samples=200, n_features=40)
    Y1, Y2 = random_groups(Y, 4, 0)
    rows = whitened(X, 40, 0.5)
    trial = selection.set_aside(Y1, Y2, seed=1)
    owners = sp.csr_matrix(sp.csr_matrix(spread_labels(trial.Y1, trial.Y2)).T)
    found = selection.foretell(rows, trial, owners, threads=2, powers=np.array([1, 3]))
    dense = X.toarray().astype(np.float64)
    weights = np.linalg.inv(dense.T @ dense + 0.5 * np.eye(40)) @ dense.T @ owners.toarray().T
    chances = np.clip(dense @ weights, RULED_OUT, CEILING)
    for at, label in enumerate(trial.labels):
        for place in range(trial.held_members.shape[0]):
            members = trial.held_members[place].indices
            expected = np.log1p(-chances[members, label]).sum()
            assert found.log_none[at, place] == pytest.approx(expected, abs=2e-3)
            norm = (np.maximum((dense @ weights)[members, label], RULED_OUT) ** 3).sum() ** (1 / 3)
            assert np.exp(found.log_norms[1, at, place]) == pytest.approx(norm, abs=2e-3)
            assert trial.held_labels[at, place] == (Y[members, label].sum() > 0)


def test_groups_set_aside_teach_nothing():
    _, Y = planted()
    Y1, Y2 = random_groups(Y, 4, 0)
    trial = selection.set_aside(Y1, Y2, seed=0)
    held_samples = np.unique(trial.held_members.indices)
    assert len(held_samples) == 4 * trial.held_members.shape[0] > 0
    assert trial.Y1[held_samples].nnz == 0
    assert spread_labels(trial.Y1, trial.Y2)[held_samples].nnz == 0
    untouched = np.setdiff1d(np.arange(Y.shape[0]), held_samples)
    assert (trial.Y1[untouched] != Y1[untouched]).nnz == 0
    np.testing.assert_allclose(
        trial.rates, (Y2[np.diff(trial.Y1.tocsc().indptr) > 0].toarray() > 0).mean(axis=0)[trial.labels]
    )


def test_a_trial_keeps_within_its_limits(monkeypatch):
    _, Y = planted(n_samples=2000)
    Y1, Y2 = random_groups(Y, 4, 0)
    monkeypatch.setattr(selection, "MOST_PAIRS", 2500)
    monkeypatch.setattr(selection, "MOST_HELD_ROWS", 41)
    trial = selection.set_aside(Y1, Y2, seed=0)
    assert trial.held_members.nnz == 40
    assert 0 < spread_labels(trial.Y1, trial.Y2).nnz <= 2500
    assert len(trial.labels) < Y.shape[1]
    needed = trial.samples()
    small = trial.of_samples(needed)
    assert spread_labels(small.Y1, small.Y2).nnz == spread_labels(trial.Y1, trial.Y2).nnz
    assert small.held_members.nnz == 40


def trial_of(truth, n_groups):
    return selection.Trial(np.arange(len(truth)), None, None, None, truth, truth.mean(axis=1), n_groups, 4)


def test_calibration_is_recovered_from_groups_it_made():
    rng = np.random.default_rng(0)
    n_groups = rng.integers(1, 500, 200)
    log_norm = rng.normal(-3, 1, (200, 400))
    hazard = np.exp(5 + 2 * log_norm - 0.5 * np.log(n_groups)[:, None])
    truth = rng.random(hazard.shape) < -np.expm1(-hazard)
    norms = np.stack([log_norm] * len(selection.POWERS))  # groups of one: all norms are alike
    found = selection.calibrate(selection.Forecast(log_norm, norms), trial_of(truth, n_groups), 0.0)
    assert (found.offset, found.slope, found.per_group) == pytest.approx((5, 2, -0.5), abs=0.05)
    assert found.power == 2  # independent members
    alike = selection.calibrate(selection.Forecast(log_norm, norms), trial_of(truth, n_groups), 0.5)
    assert alike.power == 3
    upside_down = selection.Forecast(log_norm, -norms)  # scores that speak against owning are of no use
    assert selection.calibrate(upside_down, trial_of(truth, n_groups), 0.0) is None


def test_threshold_gives_the_highest_expected_f1():
    chances = np.random.default_rng(0).beta(0.3, 2, 500)

    def expected_f1(threshold):
        chosen = chances > threshold
        return 2 * chances[chosen].sum() / (chosen.sum() + chances.sum())

    found = selection.threshold_of(chances)
    assert expected_f1(np.nextafter(found, 0)) == pytest.approx(max(expected_f1(c - 1e-12) for c in chances))
    assert found == pytest.approx(expected_f1(found) / 2, abs=0.01)  # a known property of the best threshold


def test_likelihood_and_climb():
    truth = np.array([[True, False, False, True]])
    sure = np.log1p(-np.array([[0.9, 0.1, 0.2, 0.8]]))
    assert selection.likelihood(sure, truth) == pytest.approx(np.log([0.9, 0.9, 0.8, 0.8]).mean())
    best, seen = selection.climb((1.0, 2.0, 3.0, 4.0, 5.0), 3, lambda x: Tried(x, -((x - 2.0) ** 2)))
    assert best.point == 2.0
    assert set(seen) == {1.0, 2.0, 3.0, 4.0, 5.0}


@dataclass(frozen=True)
class Tried:
    point: float
    likelihood: float


@given(st.lists(st.sampled_from([-np.inf, -2.0, -1.0, np.nan]), min_size=1, max_size=9), st.data())
def test_climbing_keeps_the_attempt_it_names_and_equals_stay_near_the_start(values, data):
    start = data.draw(st.integers(0, len(values) - 1))
    best, seen = selection.climb(tuple(range(len(values))), start, lambda at: Tried(at, values[at]))
    np.testing.assert_equal(best.likelihood, values[best.point])
    np.testing.assert_equal(seen, {at: values[at] for at in seen})
    between = range(min(start, best.point), max(start, best.point))
    assert all(values[at] < best.likelihood for at in between if at != best.point) or best.point == start
    if len(set(values)) == 1:
        assert best.point == start


def test_explained_is_a_share_and_needs_no_scale():
    rng = np.random.default_rng(0)
    truth = rng.random((20, 200)) < 0.1
    trial = trial_of(truth, np.full(20, 20))

    def explained(chances):
        return selection.explained(selection.Forecast(np.log1p(-chances), np.zeros(1)), trial)

    noise = rng.uniform(0.01, 0.2, truth.shape)
    right = np.where(truth, 0.3, 0.02) * rng.uniform(0.5, 1.5, truth.shape)
    assert explained(noise) == pytest.approx(0, abs=0.01)
    assert explained(right) > 0.9
    weak = np.where(truth, 0.3, 0.1) * rng.uniform(0.2, 1.8, truth.shape)
    assert 0.05 < explained(weak) < explained(right)
    assert explained(1 - (1 - weak) ** 0.1) == pytest.approx(explained(weak), abs=1e-4)  # less sure, as right


def test_homogeneous_groups_keep_the_baseline_and_mixed_ones_are_split():
    X, Y = planted(n_samples=1200)
    ids = np.repeat(np.arange(400), 3)
    rng = np.random.default_rng(1)
    alike = X[ids].copy()  # every group: three copies of a sample with some words lost, all with its labels
    alike.data[rng.random(alike.nnz) < 0.1] = 0
    alike.eliminate_zeros()
    Y1, Y2 = given_groups(ids, Y[ids])
    kept = impute(alike, Y1, Y2, "auto")
    assert kept.trace["method"] == "baseline"
    assert kept.labels.nnz == Y[ids].nnz
    assert "alike" in kept.trace["choice"]["why"]
    split = impute(X, *random_groups(Y, 4, 0), "auto")
    assert split.trace["method"] == "discriminative"
    tried = split.trace["choice"]["tried"]
    assert set(tried["explained"]) == {"baseline", "eagle0", "eagle", "centred", "discriminative"}


def test_choices_survive_json():
    for calibration in ((5.0, 2.0, -0.5, 2.0), ()):
        choice = Choice("discriminative", 3.0, calibration, 0.4, 10, "because", {"ridge": {"3": -0.1}})
        read = json.loads(json.dumps(asdict(choice)))
        assert Choice(**{**read, "calibration": tuple(read["calibration"])}) == choice
