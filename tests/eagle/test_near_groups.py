"""Groups near each group, against a slow search."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import overlapping_alike, planted
from xpipe.eagle import near_groups
from xpipe.eagle.numbering import with_groups_in_order
from xpipe.eagle.spectrum import leading_directions


def problem():
    X, Y = planted(n_samples=600)
    Y1, Y2, _ = with_groups_in_order(*overlapping_alike(X, Y, 6))
    return X, Y1, Y2, leading_directions(X, 80)


@pytest.mark.parametrize("at_once", [None, 7])
def test_near_groups_are_those_of_a_slow_search(monkeypatch, at_once):
    X, Y1, _, spectrum = problem()
    if at_once:
        monkeypatch.setattr(near_groups, "ROWS_AT_ONCE", at_once)
        monkeypatch.setattr(near_groups, "GROUPS_AT_ONCE", at_once)
    found = near_groups.near_groups(lambda samples: X[samples], Y1, spectrum, 0, threads=2)
    dense, members = X.toarray().astype(np.float64), Y1.toarray() > 0
    centres = np.array([dense[own].mean(axis=0) - dense.mean(axis=0) for own in members.T])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    assert found.shape == (Y1.shape[1], near_groups.NEAR)
    for group, near in enumerate(found):
        cosines = centres @ centres[group]
        cosines[group] = -np.inf
        np.testing.assert_allclose(cosines[near], np.sort(cosines)[::-1][: near_groups.NEAR], atol=1e-5)


def test_of_very_many_groups_some_are_compared(monkeypatch):
    X, Y1, _, spectrum = problem()
    monkeypatch.setattr(near_groups, "MOST_COMPARED", 20)
    found = near_groups.near_groups(lambda samples: X[samples], Y1, spectrum, 0)
    assert len(np.unique(found)) == 20
    assert not (found == np.arange(len(found))[:, None]).any()


def test_few_groups_have_fewer_near_ones():
    X = sp.csr_matrix(np.eye(6, dtype=np.float32))
    Y1 = sp.csr_matrix(np.repeat(np.eye(3, dtype=np.float32), 2, axis=0))
    found = near_groups.near_groups(lambda samples: X[samples], Y1, leading_directions(X), 0)
    assert [sorted(near) for near in found.tolist()] == [[1, 2], [0, 2], [0, 1]]
    one = near_groups.near_groups(
        lambda samples: X[samples], sp.csr_matrix(np.ones((6, 1), dtype=np.float32)), leading_directions(X), 0
    )
    assert one.shape == (1, 0)


def test_groups_beside_a_label_lack_it_and_are_near_one_that_has_it():
    _, _, Y2, _ = problem()
    rng = np.random.default_rng(0)
    near = rng.integers(-1, Y2.shape[0], (Y2.shape[0], 3)).astype(np.int32)
    found = near_groups.beside(near, Y2).toarray()
    having = Y2.toarray() > 0
    for label in range(Y2.shape[1]):
        reached = set(near[having[:, label]].ravel().tolist()) - {-1}
        assert set(np.flatnonzero(found[:, label])) == reached - set(np.flatnonzero(having[:, label]))
    assert set(np.unique(found)) <= {0.0, 1.0}
