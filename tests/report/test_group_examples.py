"""Easy and doubtful groups against a slow search, with groups that share members."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.ground.sparse import to_triple
from xpipe.report.group_examples import MOST_MEMBERS, GroupScores, Words, example, members_of


def problem(seed: int, shared: bool):
    """(Y1, Y2, chances): labels of groups, and some chances of their members."""
    rng = np.random.default_rng(seed)
    Y1 = np.zeros((40, 9), dtype=np.float32)
    Y1[np.arange(40), rng.integers(0, 9, 40)] = 1
    if shared:
        Y1[rng.integers(0, 40, 8), rng.integers(0, 9, 8)] = 1
    Y2 = (rng.random((9, 12)) < 0.3).astype(np.float32)
    chances = ((Y1 @ Y2) > 0) * (rng.random((40, 12)) < 0.5) * rng.random((40, 12)).astype(np.float32)
    return sp.csr_matrix(Y1), sp.csr_matrix(Y2), sp.csr_matrix(chances.astype(np.float32))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("cut", [0, 13, 40])
def test_the_likeliest_owner_counts_for_every_label_of_every_group(shared, cut):
    Y1, Y2, chances = problem(3, shared)
    scores = GroupScores(Y1, Y2)
    for first, part in ((0, chances[:cut]), (cut, chances[cut:])):
        scores.add(first, to_triple(sp.csr_matrix(part)))
    dense = chances.toarray()
    for group in range(9):
        labels = np.flatnonzero(Y2[[group]].toarray().ravel())
        members = np.flatnonzero(Y1[:, [group]].toarray().ravel())
        best = [dense[members, label].max(initial=0) for label in labels]
        assert scores.means()[group] == pytest.approx(np.mean(best) if best else 0)
        np.testing.assert_array_equal(members_of(Y1, group), members)


def test_extremes_are_the_ends_of_the_order_and_groups_of_one_are_left_out():
    Y1 = sp.csr_matrix(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32))
    Y2 = sp.csr_matrix(np.ones((3, 2), dtype=np.float32))
    chances = sp.csr_matrix(np.array([[0.9, 0], [0, 0.8], [0.3, 0], [0, 0.2], [0.1, 0.1]], dtype=np.float32))
    scores = GroupScores(Y1, Y2)
    scores.add(0, to_triple(chances))
    assert scores.extremes(1) == ([0], [1])
    assert scores.extremes(5) == ([], [1, 0])  # no group is both


def test_an_example_has_members_labels_owners_and_what_is_left_out():
    Y1 = sp.csr_matrix(np.ones((8, 1), dtype=np.float32))
    Y2 = sp.csr_matrix(np.ones((1, 3), dtype=np.float32))
    chances = np.zeros((8, 3), dtype=np.float32)
    chances[5, 0], chances[2, 1], chances[:, 2] = 0.25, 0.75, 0.5
    truth = sp.csr_matrix((chances == 0.75).astype(np.float32))
    scores = GroupScores(Y1, Y2)
    scores.add(0, to_triple(sp.csr_matrix(chances)))
    words = Words({place: 100 + place for place in range(8)}, {2: "two"}, {5: "text of five"})
    found = example(0, scores, sp.csr_matrix(chances), truth, np.arange(8), words, (["brand"], ["a", "b", "c"]))
    assert (found.name, found.chance, found.more_members) == ("brand", 0.5, 8 - MOST_MEMBERS)
    assert [each.name for each in found.labels] == ["a", "c", "b"]  # the most doubtful first
    assert [(owner.row, owner.chance, owner.right) for owner in found.labels[2].owners] == [(102, 0.75, True)]
    assert (found.labels[1].owners[0].right, found.labels[1].more) == (False, 4)
    members = {member.row: member for member in found.members}
    assert members[102].id == "two"
    assert members[105].text == "text of five"
