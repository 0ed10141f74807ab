"""Chances agree with how many groups have each label, where groups are random."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle.chances import Crowd, crowd_of, label_shifts, shifted, shifts_to, totals_by_rate
from xpipe.ground.sparse_rows import entry_rows
from xpipe.grouping import random_groups, spread_labels


def test_rates_of_random_groups_tell_how_many_own_a_label():
    rng = np.random.default_rng(0)
    rates = np.array([0.01, 0.05, 0.2, 0.4])
    Y = sp.csr_matrix((rng.random((20_000, 4)) < rates).astype(np.float32))
    Y1, Y2 = random_groups(Y, 5, 0)
    found = totals_by_rate(crowd_of(Y1, 0.0), np.asarray(Y2.getnnz(axis=0)))
    np.testing.assert_allclose(found, np.asarray(Y.sum(axis=0)).ravel(), rtol=0.05)
    assert (found >= Y2.getnnz(axis=0)).all()


def test_groups_of_several_sizes():
    crowd = Crowd((1, 3), (40, 60), 1.0)
    p = 0.3
    present = 40 * p + 60 * (1 - (1 - p) ** 3)
    assert totals_by_rate(crowd, np.array([present]))[0] == pytest.approx(p * (40 + 180))
    half = totals_by_rate(crowd, np.array([present / 2]), share=0.5)
    assert half[0] == pytest.approx(p * 110)


def test_a_label_of_no_group_and_of_all_groups():
    found = totals_by_rate(Crowd((4,), (50,), 1.0), np.array([0, 50]))
    assert found[0] == 0
    assert 50 < found[1] < 200
    assert totals_by_rate(Crowd((), (), 0.0), np.array([0])).tolist() == [0]


def test_shifted_chances_add_up():
    rng = np.random.default_rng(1)
    labels = np.sort(rng.integers(0, 6, 500))
    posterior = rng.random(500).astype(np.float32) ** 3
    n_pairs = np.bincount(labels, minlength=8)
    wanted = n_pairs * np.array([0.02, 0.2, 0.5, 0.9, 0.3, 0.4, 0.0, 0.0])
    shift = shifts_to(posterior, labels, wanted)
    sums = np.bincount(labels, shifted(posterior, shift[labels]), 8)
    np.testing.assert_allclose(sums, wanted, rtol=1e-6)
    assert shift[6] == shift[7] == 0


def test_labels_that_cannot_add_up_stay():
    posterior, labels = np.array([0.5, 1.0], np.float32), np.array([0, 1])
    assert shifts_to(posterior, labels, np.array([3.0, 1.0])).tolist() == [0, 0]
    assert shifted(posterior, np.zeros(2)).tolist() == [0.5, 1.0]


def test_members_that_are_alike_keep_their_posteriors():
    Y1 = sp.csr_matrix(np.repeat(np.eye(30, dtype=np.float32), 2, axis=0))
    Y2 = sp.csr_matrix(np.tile(np.array([[1, 0], [1, 1]], np.float32), (15, 1)))
    pairs = spread_labels(Y1, Y2).T.tocsr()
    posterior = np.full(pairs.nnz, 0.5, np.float32)
    labels, n_groups = entry_rows(pairs.indptr), np.asarray(Y2.getnnz(axis=0))
    alike, random = (crowd_of(Y1, likeness) for likeness in (0.3, -0.001))
    assert (alike.weight, random.weight) == (0, 1)
    assert not label_shifts(posterior, labels, n_groups, alike).any()
    assert label_shifts(posterior, labels, n_groups, random).any()
