"""The plan of every method: chunks of labels, each with the rows it needs, give the bytes that `impute` gives."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.invariants import CHOOSING, METHODS
from tests.eagle.samples import overlapping, overlapping_alike, planted
from xpipe.eagle import impute, plan
from xpipe.eagle.imputation import MatrixRows
from xpipe.eagle.options import ImputeOptions


def chunk_of(Y1: sp.csr_matrix, Y2: sp.csr_matrix, first: int, last: int, near: np.ndarray | None = None) -> plan.Chunk:
    """Labels first to last - 1 with the groups that have them, those near them, and the samples of these groups."""
    labels = sp.csr_matrix(Y2[:, first:last])
    groups = np.flatnonzero(labels.getnnz(axis=1))
    if near is not None:
        groups = np.setdiff1d(np.union1d(groups, near[groups]), [-1])
    members = sp.csr_matrix(Y1[:, groups])
    samples = np.flatnonzero(members.getnnz(axis=1))
    return plan.Chunk(samples, sp.csr_matrix(members[samples]), sp.csr_matrix(labels[groups]), groups)


def rows_of_all(found: sp.csr_matrix, samples: np.ndarray, n_samples: int) -> sp.csr_matrix:
    """The rows of a chunk at the places of their samples."""
    lengths = np.zeros(n_samples, dtype=np.int64)
    lengths[samples] = np.diff(found.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_matrix((found.data, found.indices, indptr), shape=(n_samples, found.shape[1]))


@pytest.mark.parametrize("cuts", [(0, 12), (0, 5, 12), tuple(range(13))])
@pytest.mark.parametrize("method", METHODS)
def test_chunks_of_labels_give_the_bytes_of_impute(method, cuts):
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    whole = impute(X, Y1, Y2, method, seed=3, rounds=4, threads=1)
    features, options = MatrixRows(X), ImputeOptions(method, rounds=4, seed=3)
    decision = plan.decide(options, features, Y1, Y2, 2)
    parts = []
    for first, last in pairwise(cuts):
        chunk = chunk_of(Y1, Y2, first, last)
        found = plan.assign_chunk(decision, features, chunk, threads=1)
        assert (found.objective is None) == (decision.method in ("baseline", "discriminative"))
        parts.append(rows_of_all(found.scores, chunk.samples, X.shape[0]))
    joined = sp.csr_matrix(sp.hstack(parts))
    joined.sort_indices()
    assert joined.indptr.tolist() == whole.scores.indptr.tolist()
    assert joined.indices.tolist() == whole.scores.indices.tolist()
    assert joined.data.tobytes() == whole.scores.data.tobytes()


@pytest.mark.parametrize("alike", [False, True])
def test_chunks_of_many_labels_with_many_rows_change_no_byte(alike):
    """A product for several labels at once may round a label by its place among them: on some processors only."""
    X, Y = planted(n_samples=2000, n_labels=37, n_features=301)
    Y1, Y2 = overlapping_alike(X, Y, 5) if alike else overlapping(Y)
    features, options = MatrixRows(X), ImputeOptions("discriminative", ridge=3.0, rounds=3)
    decision = plan.decide(options, features, Y1, Y2, 2)
    assert (decision.near is not None) == alike
    whole = plan.assign_chunk(decision, features, plan.Chunk(None, Y1, Y2), threads=2)
    for first, last in ((0, 5), (3, 20), (36, 37)):
        chunk = chunk_of(Y1, Y2, first, last, decision.near)
        found = plan.assign_chunk(decision, features, chunk, threads=1)
        for some, all_of_them in ((found.scores, whole.scores), (found.candidates, whole.candidates)):
            wanted = sp.csr_matrix(all_of_them[chunk.samples][:, first:last])
            assert some.nnz
            assert some.indices.tolist() == wanted.indices.tolist()
            assert some.data.tobytes() == wanted.data.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_only_methods_that_choose_have_a_choice(method):
    X, Y = planted(n_samples=200)
    Y1, Y2 = overlapping(Y)
    options = ImputeOptions(method)
    decision = plan.decide(options, MatrixRows(X), Y1, Y2, 1)
    assert options.chooses == (method in CHOOSING) == (decision.choice is not None) == (decision.whitener is not None)
    assert decision.method in METHODS[1:]
    assert method in ("auto", decision.method)


def test_the_mean_row_is_asked_for_where_the_plan_says_so():
    X, Y = planted(n_samples=200)
    Y1, Y2 = overlapping(Y)

    class Watched(MatrixRows):
        asked = False

        def mean(self, *, scaled: bool) -> np.ndarray:
            self.asked = True
            return super().mean(scaled=scaled)

    for method in METHODS:
        options, features = ImputeOptions(method), Watched(X)
        decision = plan.decide(options, features, Y1, Y2, 1)
        plan.assign_chunk(decision, features, plan.Chunk(None, Y1, Y2), threads=1)
        assert features.asked == plan.needs_mean(options)


def test_every_default_of_impute_is_that_of_the_options():
    defaults = {name: value.default for name, value in inspect.signature(impute).parameters.items()}
    options = ImputeOptions()
    for name, value in vars(options).items():
        assert defaults[name] == value
