"""The check that every answer passes: it finds lost labels and wrong owners; `impute` and stage assign both pass it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle.samples import overlapping, planted, whitened
from tests.eagle.strategies import problems
from xpipe.eagle import impute, plan
from xpipe.eagle.discriminative import find_owners
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.ownership import check_owners
from xpipe.errors import StageError
from xpipe.ground.backend import Backend
from xpipe.grouping.groups import spread_labels
from xpipe.stages.assign import work
from xpipe.stages.assign.messages import Assignment, Settled
from xpipe.stages.label_chunks import ChunkGroups, LabelChunk
from xpipe.stages.matrices import MatrixRef


@given(problems(), st.data())
@settings(deadline=None)
def test_one_entry_less_or_more_is_seen_where_it_matters(problem, data):
    _, Y1, Y2 = problem
    allowed = spread_labels(Y1, Y2)
    check_owners(allowed, Y1, Y2, "baseline")
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
            check_owners(sp.csr_matrix(less, dtype=np.float32), Y1, Y2, "eagle")
    else:
        check_owners(sp.csr_matrix(less, dtype=np.float32), Y1, Y2, "eagle")
    strangers = np.argwhere(allowed.toarray() == 0)
    if len(strangers):
        more = sp.lil_matrix(allowed)
        more[tuple(strangers[0])] = 1
        with pytest.raises(StageError, match=f"label {strangers[0][1]} to sample {strangers[0][0]},"):
            check_owners(sp.csr_matrix(more, dtype=np.float32), Y1, Y2, "eagle")


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("ridge", [None, 1.0, 1e3])
def test_a_group_whose_scores_are_far_below_zero_keeps_its_label(ridge, threshold):
    """All other rows speak against this one: it is -100 times each of them."""
    X = np.ones((200, 1))
    X[7] = -100
    options = {"threshold": threshold} if ridge is None else {"threshold": threshold, "ridge": ridge}
    alone, one_label = sp.identity(200, format="csr"), sp.csr_matrix(np.ones((200, 1)))
    assert impute(sp.csr_matrix(X), alone, one_label, "discriminative", **options).labels.nnz == 200


@pytest.mark.parametrize("method", ["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"])
def test_impute_passes_through_it(monkeypatch, method):
    X, Y = planted(n_samples=100)
    Y1, Y2 = overlapping(Y)
    seen = []
    monkeypatch.setattr(plan, "check_owners", lambda owners, *_: seen.append(owners))
    found = impute(X, Y1, Y2, method)
    assert seen == [found.scores]


def test_a_chunk_that_loses_a_label_fails(monkeypatch, tmp_path):
    Y1, Y2 = sp.csr_matrix(np.eye(3, dtype=np.float32)), sp.csr_matrix(np.ones((3, 2), np.float32))
    lost = sp.csr_matrix(np.array([[1, 1], [1, 1], [1, 0]], dtype=np.float32))
    monkeypatch.setattr(work, "groups_of", lambda *_: ChunkGroups(np.arange(3), np.arange(3), Y1, Y2))
    monkeypatch.setattr(plan, "_assign", lambda *_: plan.Assigned(lost))
    somewhere = MatrixRef(str(tmp_path), "x")
    backend = Backend("cpu", "asked for")
    assignment = Assignment(somewhere, somewhere, somewhere, 2, False, 10, ImputeOptions("eagle"), None, backend)
    with pytest.raises(StageError, match="`eagle` lost a label: group 2"):
        work.assign_chunk(str(tmp_path), LabelChunk("x", 2, 0, 0, 2), Settled(assignment, "eagle"))


@pytest.mark.parametrize("owners", ["one", "posterior"])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("calibration", [(), (-2000.0, 3.0, 0.1, 0), (900.0, 40.0, -0.5, 0), (4.0, 2.0, -0.4, 0)])
def test_chunks_of_labels_lose_nothing_and_are_the_whole(owners, threshold, calibration):
    X, Y = planted(n_samples=200)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 16, 1.0)
    options = {"owners": owners, "threshold": threshold, "calibration": calibration, "most_members": 6, "threads": 1}
    scores = find_owners(rows, Y1, Y2, **options).owners
    check_owners(scores, Y1, Y2, "discriminative")
    assert np.isfinite(scores.data).all()
    assert ((scores.data >= 0) & (scores.data <= 1)).all()
    for first, last in ((0, 5), (5, 12)):
        part = sp.csr_matrix(Y2[:, first:last])
        found = find_owners(rows, Y1, part, **options).owners
        check_owners(found, Y1, part, "discriminative")
        whole = sp.csr_matrix(scores[:, first:last])
        assert found.indptr.tolist() == whole.indptr.tolist()
        assert found.indices.tolist() == whole.indices.tolist()
        assert found.data.tobytes() == whole.data.tobytes()


@pytest.mark.parametrize("lowest", [0.0, 0.1, 0.3, 1.0])
def test_candidates_are_the_other_pairs_above_the_lowest_chance(lowest):
    X, Y = planted(n_samples=200)
    Y1, Y2 = overlapping(Y)
    rows, calibration = whitened(X, 16, 1.0), (4.0, 2.0, -0.4, 0)
    options = {"calibration": calibration, "most_members": 6, "threads": 1}
    found = find_owners(rows, Y1, Y2, threshold=0.4, lowest=lowest, **options)
    every = find_owners(rows, Y1, Y2, threshold=0.0, **options).owners.toarray()
    owned = found.owners.toarray() > 0
    assert (found.owners.toarray()[every > 0.4] > 0).all()
    wanted = np.where((every > lowest) & ~owned, every, 0)
    assert found.candidates.toarray().tobytes() == wanted.tobytes()
    assert (found.candidates.nnz > 0) == (lowest < 0.4)
    one = find_owners(rows, Y1, Y2, owners="one", lowest=lowest, **options)
    assert one.candidates.nnz == 0
