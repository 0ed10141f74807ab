"""Choices of `auto`: which method is chosen, and that choices survive a file."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from tests.eagle.samples import planted
from xpipe.eagle import impute
from xpipe.eagle.choice import Choice, best_method
from xpipe.grouping import given_groups, random_groups


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


@pytest.mark.parametrize(
    ("baseline", "centred", "discriminative", "taken"),
    [
        (0.573, 0.595, 0.582, "discriminative"),  # EURLEX57K in groups of four: F1 0.918 and 0.950
        (0.2, 0.40, 0.35, "centred"),  # clearly more
        (0.9, 0.40, 0.35, "baseline"),  # far more
    ],
)
def test_another_method_must_explain_clearly_more(baseline, centred, discriminative, taken):
    explained = {"baseline": baseline, "eagle": 0.0, "centred": centred, "discriminative": discriminative}
    assert best_method(explained) == taken


def test_choices_survive_json():
    for calibration in ((5.0, 2.0, -0.5, 2.0), ()):
        tried = {"ridge": {"3": -0.1}}
        choice = Choice("discriminative", 3.0, calibration, 0.4, 10, "because", tried)
        read = json.loads(json.dumps(asdict(choice)))
        assert Choice(**{**read, "calibration": tuple(read["calibration"])}) == choice
