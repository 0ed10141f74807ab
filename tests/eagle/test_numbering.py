"""Numbers of groups and labels that follow from their members."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.eagle.invariants import groups_differ
from tests.eagle.strategies import problems
from xpipe.eagle.numbering import renumbered, with_groups_in_order
from xpipe.eagle.problem import as_ones


def same(one, other) -> bool:
    return all(a.shape == b.shape and (a != b).nnz == 0 for a, b in zip(one, other, strict=True))


@given(problems(most=12), st.randoms())
def test_any_numbering_becomes_the_same(problem, random):
    _, Y1, Y2 = problem
    *expected, old = renumbered(Y1, Y2)
    assert (as_ones(Y1[:, old], "Y1") != expected[0]).nnz == 0
    groups = random.sample(range(Y1.shape[1]), Y1.shape[1])
    assert same(renumbered(sp.csr_matrix(Y1[:, groups]), sp.csr_matrix(Y2[groups]))[:2], expected)
    if groups_differ(Y1):
        labels = random.sample(range(Y2.shape[1]), Y2.shape[1])
        assert same(renumbered(Y1, sp.csr_matrix(Y2[:, labels]))[:2], expected)
        assert same(renumbered(*expected)[:2], expected)


@given(problems(most=12))
def test_only_groups_without_samples_and_labels_without_groups_go(problem):
    _, Y1, Y2 = problem
    kept, kept_labels, _ = renumbered(Y1, Y2)
    filled = np.asarray(Y1.getnnz(axis=0)) > 0
    assert kept.nnz == Y1.nnz
    assert kept_labels.nnz == Y2[filled].nnz
    assert sorted(map(tuple, kept.toarray().T)) == sorted(map(tuple, Y1[:, filled].toarray().T))
    *smaller, old = with_groups_in_order(Y1, Y2)
    assert same(smaller, (Y1[:, old], Y2[old]))
    assert sorted(old) == np.flatnonzero(filled).tolist()
    members = [np.flatnonzero(column).tolist() for column in smaller[0].toarray().T]
    assert members == sorted(members)
