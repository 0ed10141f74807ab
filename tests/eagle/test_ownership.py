"""The check that every answer passes: it sees a label lost and an owner too many, and both ways lead through it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle.strategies import problems
from tests.eagle.test_discriminative import overlapping, planted, whitened
from xpipe.eagle import imputation, impute
from xpipe.eagle.discriminative import find_owners
from xpipe.eagle.ownership import checked
from xpipe.errors import StageError
from xpipe.grouping.groups import spread_labels
from xpipe.stages.assign import work as assign_labels
from xpipe.stages.label_chunks import LabelChunk


@given(problems(), st.data())
@settings(deadline=None)
def test_one_entry_less_or_more_is_seen_where_it_matters(problem, data):
    _, Y1, Y2 = problem
    allowed = spread_labels(Y1, Y2)
    assert checked(allowed, Y1, Y2, "baseline") is allowed
    if not allowed.nnz:
        return
    sample, label = (part[data.draw(st.integers(0, allowed.nnz - 1))] for part in allowed.nonzero())
    less = sp.lil_matrix(allowed)
    less[sample, label] = 0
    with_label = np.flatnonzero(Y2.toarray()[:, label])
    left = np.flatnonzero(less.toarray()[:, label])
    sole = [g for g in with_label if Y1[:, [g]].nnz and not Y1[left][:, [g]].nnz]  # groups that have no other owner
    if sole:
        with pytest.raises(StageError, match=f"lost a label: group {sole[0]} "):
            checked(sp.csr_matrix(less, dtype=np.float32), Y1, Y2, "eagle")
    else:
        checked(sp.csr_matrix(less, dtype=np.float32), Y1, Y2, "eagle")
    strangers = np.argwhere(allowed.toarray() == 0)
    if len(strangers):
        more = sp.lil_matrix(allowed)
        more[tuple(strangers[0])] = 1
        with pytest.raises(StageError, match=f"label {strangers[0][1]} to sample {strangers[0][0]},"):
            checked(sp.csr_matrix(more, dtype=np.float32), Y1, Y2, "eagle")


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("ridge", [None, 1.0, 1e3])
def test_a_group_whose_scores_are_far_below_zero_keeps_its_label(ridge, threshold):
    """All other rows say that this one is the opposite of the label, by a hundred times."""
    X = np.ones((200, 1))
    X[7] = -100
    options = {"threshold": threshold} if ridge is None else {"threshold": threshold, "ridge": ridge}
    alone, one_label = sp.identity(200, format="csr"), sp.csr_matrix(np.ones((200, 1)))
    assert impute(sp.csr_matrix(X), alone, one_label, "discriminative", **options).labels.nnz == 200


@pytest.mark.parametrize("method", ["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"])
def test_impute_and_the_stage_pass_through_it(monkeypatch, method):
    X, Y = planted(n_samples=100)
    Y1, Y2 = overlapping(Y)
    seen = []
    monkeypatch.setattr(imputation, "checked", lambda owners, *_: seen.append(owners))
    found = impute(X, Y1, Y2, method)
    assert seen == [found.labels]


def test_a_chunk_that_loses_a_label_fails(monkeypatch, tmp_path):
    Y1, Y2 = sp.csr_matrix(np.eye(3, dtype=np.float32)), sp.csr_matrix(np.ones((3, 2), np.float32))
    lost = sp.csr_matrix(np.array([[1, 1], [1, 1], [1, 0]], dtype=np.float32))
    monkeypatch.setattr(assign_labels, "groups_of", lambda *_: (np.arange(3), Y1, Y2))
    monkeypatch.setattr(assign_labels, "_scores", lambda *_: (lost, None))
    settled = assign_labels.Settled(problem=None, method="eagle", choice=None)
    with pytest.raises(StageError, match="`eagle` lost a label: group 2"):
        assign_labels.assign_chunk(str(tmp_path), LabelChunk("x", 2, 0, 0, 2), settled)


@pytest.mark.parametrize("owners", ["one", "posterior"])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("calibration", [(), (-2000.0, 3.0, 0.1, 2), (900.0, 40.0, -0.5, 8), (4.0, 2.0, -0.4, 2)])
def test_chunks_of_labels_lose_nothing_and_are_the_whole(owners, threshold, calibration):
    X, Y = planted(n_samples=200)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 16, 1.0)
    options = {"owners": owners, "threshold": threshold, "calibration": calibration, "most_members": 6, "threads": 1}
    labels, scores = find_owners(rows, Y1, Y2, **options)
    checked(labels, Y1, Y2, "discriminative")
    assert np.isfinite(scores.data).all()
    assert ((scores.data >= 0) & (scores.data <= 1)).all()
    for first, last in ((0, 5), (5, 12)):
        part = sp.csr_matrix(Y2[:, first:last])
        found, chances = find_owners(rows, Y1, part, **options)
        checked(found, Y1, part, "discriminative")
        assert (found != labels[:, first:last]).nnz == 0
        assert (chances != scores[:, first:last]).nnz == 0
