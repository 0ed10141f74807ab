"""Trials: what is held out contributes nothing, limits are kept, and forecasts equal a dense twin."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import planted, whitened
from tests.eagle.test_discriminative import scorer_without
from xpipe.eagle import trial
from xpipe.eagle._posteriors_numba import CEILING, RULED_OUT
from xpipe.grouping import random_groups, spread_labels


def test_a_forecast_equals_a_dense_twin_that_never_saw_the_group():
    X, Y = planted(n_samples=200, n_features=40)
    Y1, Y2 = random_groups(Y, 4, 0)
    rows = whitened(X, 40, 0.5)
    held = trial.set_aside(Y1, Y2, seed=1)
    owners = sp.csr_matrix(sp.csr_matrix(spread_labels(held.Y1, held.Y2)).T)
    owners.data = np.linspace(0.1, 0.9, owners.nnz, dtype=np.float32)
    found = trial.forecast(rows, held, owners, threads=2, powers=np.array([1.0, 1.5]))
    score_without = scorer_without(X, 0.5)
    for at, label in enumerate(held.labels):
        for place in range(held.held_members.shape[0]):
            members = held.held_members[place].indices
            scores = score_without(members, members, owners[label].toarray().ravel())
            expected = np.log1p(-np.clip(scores, RULED_OUT, CEILING)).sum()
            assert found.log_none[at, place] == pytest.approx(expected, rel=5e-4, abs=2e-3)
            total = (np.maximum(scores, RULED_OUT) ** 1.5).sum()
            assert np.exp(found.log_sums[1, at, place]) == pytest.approx(total, rel=2e-3, abs=2e-3)
            assert held.held_labels[at, place] == (Y[members, label].sum() > 0)


def test_held_out_groups_contribute_nothing():
    _, Y = planted()
    Y1, Y2 = random_groups(Y, 4, 0)
    held = trial.set_aside(Y1, Y2, seed=0)
    held_samples = np.unique(held.held_members.indices)
    assert len(held_samples) == 4 * held.held_members.shape[0] > 0
    assert held.Y1[held_samples].nnz == 0
    assert spread_labels(held.Y1, held.Y2)[held_samples].nnz == 0
    untouched = np.setdiff1d(np.arange(Y.shape[0]), held_samples)
    assert (held.Y1[untouched] != Y1[untouched]).nnz == 0
    np.testing.assert_allclose(
        held.rates, (Y2[np.diff(held.Y1.tocsc().indptr) > 0].toarray() > 0).mean(axis=0)[held.labels]
    )


def test_a_trial_keeps_within_its_limits(monkeypatch):
    _, Y = planted(n_samples=2000)
    Y1, Y2 = random_groups(Y, 4, 0)
    monkeypatch.setattr(trial, "MOST_PAIRS", 2500)
    monkeypatch.setattr(trial, "MOST_HELD_ROWS", 41)
    held = trial.set_aside(Y1, Y2, seed=0)
    assert held.held_members.nnz == 40
    assert 0 < spread_labels(held.Y1, held.Y2).nnz <= 2500
    assert len(held.labels) < Y.shape[1]
    needed = held.samples()
    small = held.of_samples(needed)
    assert spread_labels(small.Y1, small.Y2).nnz == spread_labels(held.Y1, held.Y2).nnz
    assert small.held_members.nnz == 40


def test_all_groups_can_take_part_with_the_groups_near_them():
    _, Y = planted()
    Y1, Y2 = random_groups(Y, 4, 0)
    near = np.roll(np.arange(Y1.shape[1]), 1)[:, None].astype(np.int32)
    labels = np.array([0, 3])
    found = trial.take_part(Y1, Y2, labels, near)
    assert (found.Y1 != Y1).nnz == 0
    assert found.Y2.getnnz(axis=0)[labels].tolist() == Y2.getnnz(axis=0)[labels].tolist() == found.n_groups.tolist()
    having = Y2.toarray()[:, labels] > 0
    beside = np.roll(having, -1, axis=0) & ~having  # group g - 1 is near group g
    np.testing.assert_array_equal(found.beside.toarray()[:, labels] > 0, beside)
    needed = np.flatnonzero(Y1.toarray() @ (having | beside).any(axis=1))
    assert found.samples().tolist() == needed.tolist()
    small = found.of_samples(found.samples())
    assert spread_labels(small.Y1, small.Y2).nnz == spread_labels(Y1, found.Y2).nnz


@pytest.mark.parametrize("most", [1, 5, 7, 11, 12, 400])
def test_a_trial_of_fewer_labels_has_at_most_so_many(most):
    _, Y = planted()
    held = trial.set_aside(*random_groups(Y, 4, 0), seed=0)
    fewer = held.of_labels(most)
    assert most / 2 < len(fewer.labels) <= most or len(fewer.labels) == len(held.labels)
    assert set(fewer.labels) <= set(held.labels)
    assert set(np.flatnonzero(fewer.Y2.getnnz(axis=0))) == set(fewer.labels)
    for at, label in enumerate(fewer.labels):
        place = held.labels.tolist().index(label)
        assert fewer.held_labels[at].tolist() == held.held_labels[place].tolist()
        assert fewer.n_groups[at] == held.n_groups[place]
