"""Metrics by label frequency: groups from head to tail that add up to the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.metrics import oracles
from tests.metrics.strategies import cases, random_case
from xpipe import metrics
from xpipe.errors import DataError


@settings(deadline=None, max_examples=60)  # the first call compiles
@given(cases())
def test_groups_are_those_counted_by_hand(case):
    frequency = np.arange(case.n_labels) * 7 % 5  # several labels of each frequency
    measured = metrics.measure(case.scores, case.truth, case.k)
    groups = metrics.break_down(measured, frequency, groups=3)
    order = sorted(range(case.n_labels), key=lambda label: (-frequency[label], label))
    ranked = [set(oracles.rank(row)[: case.k]) for row in case.predictions]
    assert [group.labels for group in groups] == [
        len(range(start, case.n_labels, len(groups))) for start in range(len(groups))
    ]
    first = 0
    for group in groups:
        labels = set(order[first : first + group.labels])
        first += group.labels
        true = [owned & labels for owned in case.true]
        predicted = [found & labels for found in ranked]
        hits = [a & b for a, b in zip(true, predicted, strict=True)]
        assert group.frequency == (max(frequency[list(labels)]), min(frequency[list(labels)]))
        assert group.true == sum(map(len, true))
        assert group.predicted == sum(map(len, predicted))
        assert group.hits == sum(map(len, hits))
        assert group.f1 == pytest.approx(oracles.f1_of_sets(predicted, true, 0)[0])
        known = set().union(*true)
        assert group.covered == (len(set().union(*hits)) / len(known) if known else 0)
    assert first == case.n_labels


def test_shares_add_up_to_precision():
    case = random_case(1)
    measured = metrics.measure(case.scores, case.truth, 5)
    groups = metrics.break_down(measured)
    assert len(groups) == 10
    assert sum(group.share_of_precision for group in groups) == pytest.approx(measured.precision[-1])
    assert sum(group.true for group in groups) == case.truth.nnz
    assert [group.frequency[0] for group in groups] == sorted((g.frequency[0] for g in groups), reverse=True)
    for group in groups:
        assert group.precision == pytest.approx(group.hits / group.predicted)
        assert group.recall == pytest.approx(group.hits / group.true)


def test_frequencies_of_other_labels():
    measured = metrics.measure(np.ones((2, 3)), np.eye(2, 3))
    with pytest.raises(DataError, match="there are 3 labels"):
        metrics.break_down(measured, np.ones(4))
