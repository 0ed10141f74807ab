"""Reliability of forecasts for groups set aside, against a slow count."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle.reliability import reliability_of
from xpipe.eagle.slopes import SLOPES
from xpipe.eagle.trial import Forecast, Trial


def test_bins_are_those_of_a_slow_count():
    rng = np.random.default_rng(0)
    shape = (5, 40)
    log_sums = rng.normal(-1, 1.5, (len(SLOPES), *shape))
    n_groups = rng.integers(1, 30, 5)
    truth = rng.random(shape) < 0.3
    empty = sp.csr_matrix((1, 1), dtype=np.float32)
    trial = Trial(np.arange(5), empty, empty, empty, truth, np.full(5, 0.3), n_groups, 4)
    found = reliability_of(Forecast(np.zeros(shape), log_sums), trial, (0.4, float(SLOPES[3]), -0.2, 0.0))
    inside: dict[int, list[tuple[float, bool]]] = {place: [] for place in range(10)}
    for label in range(5):
        for group in range(40):
            hazard = np.exp(0.4) * n_groups[label] ** -0.2 * np.exp(log_sums[3, label, group])
            chance = 1 - np.exp(-hazard)
            inside[min(int(10 * chance), 9)].append((chance, bool(truth[label, group])))
    assert sum(each["count"] for each in found) == 200
    for place, each in enumerate(found):
        assert each["count"] == len(inside[place])
        if inside[place]:
            assert each["confidence"] == pytest.approx(np.mean([chance for chance, _ in inside[place]]), abs=1e-6)
            assert each["accuracy"] == pytest.approx(np.mean([true for _, true in inside[place]]), abs=1e-6)


def test_without_a_calibration_there_are_no_chances():
    assert reliability_of(None, None, ()) == []
