"""Expected quality: the arithmetic, the interval, and planted data whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import planted
from xpipe.eagle import impute
from xpipe.eagle.regression import fit_hazards
from xpipe.eagle.slopes import SLOPES
from xpipe.eagle.trial import Forecast, set_aside
from xpipe.eagle.trust import (
    PRIOR,
    HeldOut,
    TrialQuality,
    _figure,
    expectation,
    expected_by_trial,
    expected_quality,
    places_of,
    quality_of,
)
from xpipe.grouping import random_groups

FIGURES = ("precision", "recall", "f1")


def test_quality_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    truth, chosen = rng.random(200) < 0.3, rng.random(200) < 0.4
    hits = (truth & chosen).sum()
    found = quality_of(hits, chosen.sum(), truth.sum())
    precision, recall = hits / chosen.sum(), hits / truth.sum()
    assert found == pytest.approx((precision, recall, 2 * precision * recall / (precision + recall)))
    assert quality_of(0, 0, 0) == (0, 0, 0)


def test_an_interval_holds_its_figure_and_stays_between_0_and_1():
    for value in (0.0, 1e-6, 0.02, 0.5, 0.97, 1.0):
        for spread in (0.001, 0.02, 0.4):
            found = _figure(value, spread)
            assert 0 <= found.low <= found.value <= found.high <= 1
            assert found.high - found.low > 0
    assert _figure(0.5, 0.1).high - 0.5 == pytest.approx(0.196, abs=1e-3)


def test_a_less_certain_calibration_gives_a_wider_interval():
    sure = expected_quality(80, 100, 160.0, TrialQuality((0.8, 0.5, 0.6), (0.0, 0.0, 0.0)))
    unsure = expected_quality(80, 100, 160.0, TrialQuality((0.8, 0.5, 0.6), (0.1, 0.1, 0.1)))
    for name in FIGURES:
        narrow, wide = getattr(sure, name), getattr(unsure, name)
        assert narrow.value == wide.value
        assert wide.high - wide.low > narrow.high - narrow.low


def test_what_nobody_knows_is_said():
    found, why = expectation(None, 10, None, None)
    assert found is None
    assert "not known" in why
    by_trial, why = expectation(TrialQuality((0.7, 0.6, 0.65), (0.01,) * 3), 10, None, None)
    assert by_trial == expected_by_trial(TrialQuality((0.7, 0.6, 0.65), (0.01,) * 3), 10)
    assert by_trial.precision.value == 0.7
    assert "some labels" in why


def test_places_of_pairs():
    pairs = sp.csr_matrix(np.array([[1, 0, 1], [0, 1, 1]], np.float32))
    some = sp.csr_matrix(np.array([[0, 0, 1], [0, 1, 0]], np.float32))
    assert places_of(pairs, some).tolist() == [False, True, True, False]


def held_out(n_groups: int, seed: int = 0) -> tuple[HeldOut, np.ndarray]:
    """Held-out groups whose labels follow a calibration, and its parameters."""
    rng = np.random.default_rng(seed)
    Y1, Y2 = random_groups(sp.csr_matrix((rng.random((8 * n_groups, 30)) < 0.2).astype(np.float32)), 2, seed)
    trial = set_aside(Y1, Y2, seed)
    at = np.array([0.2, 0.0, SLOPES[3]])
    sums = np.array([slope * rng.normal(-1, 1, trial.held_labels.shape) for slope in SLOPES])
    present = rng.random(trial.held_labels.shape) < -np.expm1(-np.exp(at[0] + sums[3]))
    trial.held_labels[:] = present
    return HeldOut(Forecast(sums[0], sums), trial), at


def level(held: HeldOut) -> np.ndarray:
    """What the offset of an average label is made of: offset and per_group alone cannot be told apart well."""
    return np.array([1.0, held.log_groups.mean(), 0.0])


def refitted(held: HeldOut) -> np.ndarray:
    """The parameters that make the labels of the held-out groups most likely, at a fixed slope."""
    inputs = np.stack([np.ones(held.truth.size), held.log_groups.ravel()])
    weights, _ = fit_hazards(inputs, held.truth.ravel(), held.forecast.log_sums[3].ravel())
    return np.array([*weights, SLOPES[3]])


def test_more_held_out_groups_tell_more():
    few, many = (level(held) @ held.covariance(at) @ level(held) for held, at in (held_out(20), held_out(300)))
    assert 0 < many < few / 3


def test_the_covariance_is_that_of_repeated_fits():
    tried = [held_out(100, seed) for seed in range(20)]
    fits = [level(held) @ refitted(held) for held, _ in tried]
    said = [np.sqrt(level(held) @ held.covariance(at) @ level(held)) for held, at in tried]
    assert np.std(fits) == pytest.approx(np.mean(said), rel=0.5)


def test_groups_that_tell_nothing_leave_the_prior():
    held, at = held_out(20)
    held.forecast.log_sums[:] = -29.0  # nobody can have a label: its truth says nothing about the parameters
    held.truth[:] = False
    np.testing.assert_allclose(np.sqrt(np.diag(held.covariance(at)))[0], PRIOR[0], rtol=0.1)


def test_expected_figures_are_near_the_true_ones():
    X, Y = planted(1200, 12, seed=3)
    found = impute(X, *random_groups(Y, 5, 0), "discriminative", threads=1)
    hits = found.labels.multiply(Y).sum()
    true = dict(zip(FIGURES, quality_of(hits, found.labels.nnz, Y.nnz), strict=True))
    assert found.trust is not None
    for name in FIGURES:
        figure = getattr(found.trust, name)
        assert figure.value == pytest.approx(true[name], abs=0.05), name
        assert figure.low - 0.02 <= true[name] <= figure.high + 0.02, name


def test_a_method_without_chances_has_no_expectation():
    X, Y = planted(100)
    assert impute(X, *random_groups(Y, 4, 0), "eagle0", threads=1).trust is None
