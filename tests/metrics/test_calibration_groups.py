"""Calibration by label frequency: groups of `break_down`, each with the figures of its own predictions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from tests.metrics.test_calibration import case, top, torchmetrics_ece
from xpipe import metrics
from xpipe.errors import ConfigError, DataError


@pytest.mark.parametrize("groups", [1, 2, 4, 20])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_each_group_has_its_own_predictions(groups, k):
    P, Y = case(3)
    frequency = np.array([5, 1, 9, 9, 2, 0, 7, 3, 1])
    found = metrics.calibration_by_frequency(sp.csr_matrix(P), Y, frequency, k, groups=groups, bins=5)
    order = np.argsort(-frequency, kind="stable")
    parts = np.array_split(order, min(groups, 9))
    broken = metrics.break_down(metrics.measure(sp.csr_matrix(P), Y, k), frequency, groups=groups)
    assert [group.labels for group in found] == [group.labels for group in broken]
    assert [group.frequency for group in found] == [group.frequency for group in broken]
    assert [group.predicted for group in found] == [group.predicted for group in broken]
    for group, labels in zip(found, parts, strict=True):
        kept = np.zeros_like(P)
        for row in range(len(P)):
            best = sorted((-P[row, label], label) for label in np.flatnonzero(P[row]))[:k]
            for _, label in best:
                kept[row, label] = P[row, label] if label in labels else 0
        confidences, hits = top(kept, Y, k)
        assert group.predicted == len(hits)
        assert group.confidence == pytest.approx(confidences.mean())
        assert group.accuracy == pytest.approx(hits.mean())
        assert group.ece == pytest.approx(torchmetrics_ece(confidences, hits, 5))


def test_frequencies_come_from_the_rows_by_default():
    P, Y = case(4)
    own = metrics.calibration_by_frequency(P, Y, k=3)
    assert own == metrics.calibration_by_frequency(P, Y, metrics.label_frequency(sp.csr_matrix(Y)), k=3)
    assert sum(group.predicted for group in own) == metrics.reliability(P, Y, 3).count.sum()


def test_labels_that_are_never_predicted_have_no_figures():
    P, Y = np.array([[0.9, 0.0]]), np.array([[1, 0]])
    _, rare = metrics.calibration_by_frequency(sp.csr_matrix(P), Y, k=1, groups=2)
    assert (rare.predicted, rare.confidence, rare.accuracy, rare.ece) == (0, None, None, None)


def test_wrong_calls_are_refused():
    P, Y = case(5)
    with pytest.raises(DataError, match="frequencies have shape"):
        metrics.calibration_by_frequency(P, Y, np.ones(3))
    with pytest.raises(ConfigError, match="bins"):
        metrics.calibration_by_frequency(P, Y, bins=0)


def test_the_assessment_has_all_of_it():
    P, Y = case(6)
    labelled = Y.any(axis=1)
    frequency = np.arange(9)
    found = metrics.assess(sp.csr_matrix(P), Y, 3, frequency=frequency)
    inside = sp.csr_matrix(P[labelled]), Y[labelled]
    assert found["ece"] == metrics.ece(*inside, 3)
    assert found["ace"] == metrics.ace(*inside, 3)
    groups = metrics.calibration_by_frequency(*inside, frequency, 3)
    assert found["by_frequency"] == [dataclasses.asdict(group) for group in groups]
