"""Which ridge is taken where all groups take part in a trial."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle import ridge as ridges
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.ridge import Fit, RidgeWhitener, try_all_groups
from xpipe.eagle.whitening import empty_whitener

CALIBRATED = (1.0, 2.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("saved_by_ridge", "given", "taken"),
    [
        ({251: 0.2}, 251, 251),  # tells something: no other is tried
        ({251: -0.03, 100: -0.02, 30: 0.07, 10: 0.23, 3: -0.01}, 251, 10),  # Gutenberg in 256 k-means groups
        ({251: -0.03, 100: 0.07, 30: 0.05}, 251, 100),
        ({25: -0.03, 10: -0.02, 3: -0.04, 1: 0.02, 0.3: 0.01}, 25, 1),
        ({25: -0.03, 10: -0.02, 3: -0.04, 1: -0.02, 0.3: -0.01}, 25, 25),  # nothing tells anything
        ({0.2: -0.03}, 0.2, 0.2),  # below all others
    ],
)
def test_a_lower_ridge_is_taken_only_where_scores_tell_nothing(monkeypatch, saved_by_ridge, given, taken):
    tried = []

    def whitened(at):
        tried.append(at)
        return at

    def fit(rows, *_):
        saved = saved_by_ridge[rows]
        return Fit(fitted=rows, calibration=CALIBRATED if saved > 0 else ()), saved

    monkeypatch.setattr(ridges, "whitener_of", lambda spectrum, ridge: ridge)
    monkeypatch.setattr(ridges, "whiten", lambda X, whitener, threads: whitened(whitener))
    monkeypatch.setattr(ridges, "_fit_all_labels", fit)
    found = try_all_groups(sp.csr_matrix((1, 1)), None, RidgeWhitener(given, given), None, ImputeOptions(), 1)
    assert found.at.ridge == taken
    assert found.fit.fitted == taken
    assert tried == list(saved_by_ridge)  # nothing else was tried


def test_a_ridge_that_the_user_gave_stays(monkeypatch):
    monkeypatch.setattr(ridges, "whiten", lambda X, whitener, threads: whitener)
    monkeypatch.setattr(ridges, "_fit_all_labels", lambda *_: (Fit(fitted=None, calibration=()), -1.0))
    at = RidgeWhitener(251.0, empty_whitener(1))
    found = try_all_groups(sp.csr_matrix(np.eye(1)), None, at, None, ImputeOptions(ridge=251.0), 1)
    assert found.at is at
