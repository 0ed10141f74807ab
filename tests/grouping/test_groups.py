"""Groups of samples: every rule against unions in plain Python; golden random groups."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, label_matrices
from xpipe.errors import ConfigError, DataError
from xpipe.grouping.groups import (
    binarised,
    given_groups,
    kmeans_groups,
    likeness,
    membership_of_ids,
    random_groups,
    spread_labels,
)


def assert_ones(matrix: sp.csr_matrix) -> None:
    assert matrix.data.dtype == np.float32
    assert (matrix.data == 1).all()
    assert sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape).has_canonical_format


@given(label_matrices(), st.integers(1, 10), st.integers(0, 2**63 - 1))
def test_random_groups(Y, size, seed):
    Y1, Y2 = random_groups(Y, size, seed)
    n_samples, n_labels = Y.shape
    assert_ones(Y1)
    assert_ones(Y2)
    n_groups = -(-n_samples // size)
    assert Y1.shape == (n_samples, n_groups)
    assert Y2.shape == (n_groups, n_labels)
    membership = oracles.sets_of(Y1)
    assert all(len(groups) == 1 for groups in membership)  # every sample in exactly one
    sizes = [sum(group in groups for groups in membership) for group in range(n_groups)]
    assert sizes == [min(size, n_samples - size * group) for group in range(n_groups)]  # the last takes the rest
    assert oracles.sets_of(Y2) == oracles.labels_of_groups(membership, oracles.sets_of(Y), n_groups)


def test_random_groups_are_golden():
    Y1, Y2 = random_groups(sp.csr_matrix(np.eye(10, dtype=np.float32)), size=4, seed=0)
    assert Y1.indices.tolist() == [1, 0, 2, 1, 1, 0, 0, 2, 1, 0]
    assert oracles.sets_of(Y2) == [{1, 5, 6, 9}, {0, 3, 4, 8}, {2, 7}]


def test_the_seed_changes_the_groups():
    Y = sp.csr_matrix(np.eye(50, dtype=np.float32))
    first, again, other = (random_groups(Y, 5, seed)[0].indices.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("size", [0, -3])
def test_a_group_has_at_least_one_sample(size):
    with pytest.raises(ConfigError, match=f"at least 1, got {size}"):
        random_groups(sp.csr_matrix((3, 2)), size)


@settings(deadline=None)
@given(st.data(), st.integers(0, 3), st.sampled_from([0.0, 1.0]), st.integers(0, 2**63 - 1))
def test_kmeans_groups(data, depth, noise, seed):
    n_samples = data.draw(st.integers(2**depth, 12))
    X, Y = data.draw(csr_matrices(n_rows=n_samples)), data.draw(label_matrices(n_rows=n_samples))
    Y1, Y2 = kmeans_groups(X, Y, depth, seed, noise)
    assert_ones(Y1)
    assert_ones(Y2)
    assert Y1.shape == (n_samples, 2**depth)
    assert Y2.shape == (2**depth, Y.shape[1])
    membership = oracles.sets_of(Y1)
    assert all(len(groups) == 1 for groups in membership)  # every sample in exactly one
    sizes = Y1.getnnz(axis=0)
    assert sizes.max() - sizes.min() <= 1
    assert oracles.sets_of(Y2) == oracles.labels_of_groups(membership, oracles.sets_of(Y), 2**depth)


def test_kmeans_groups_hold_samples_that_look_alike():
    kinds = np.array([2, 0, 1, 3, 3, 1, 0, 2, 2, 3, 0, 1])
    X = sp.csr_matrix(np.eye(4, dtype=np.float32)[kinds] * 5 + 1)
    Y1, Y2 = kmeans_groups(X, sp.csr_matrix(np.eye(4, dtype=np.float32)[kinds]), depth=2)
    assert Y2.nnz == 4  # each group has the one label of its kind
    assert Y1.getnnz(axis=0).tolist() == [3, 3, 3, 3]
    for threads in (1, 4):
        assert (kmeans_groups(X, sp.csr_matrix((12, 1)), depth=2, threads=threads)[0] != Y1).nnz == 0


def test_kmeans_groups_that_cannot_be():
    X, Y = sp.csr_matrix((5, 3), dtype=np.float32), sp.csr_matrix((5, 2), dtype=np.float32)
    with pytest.raises(ConfigError, match="depth 3 is too deep for 5 samples") as caught:
        kmeans_groups(X, Y, depth=3)
    assert caught.value.fix == "a depth of at most 2"
    with pytest.raises(ConfigError, match="noise must be a number from 0"):
        kmeans_groups(X, Y, depth=1, noise=-1)
    with pytest.raises(DataError, match="do not fit each other") as refused:
        kmeans_groups(X, Y[:4], depth=1)
    assert refused.value.why == "features have 5 rows, labels 4"


@st.composite
def ids_and_labels(draw):
    Y = draw(label_matrices())
    return np.array(draw(st.lists(st.integers(-1, 5), min_size=Y.shape[0], max_size=Y.shape[0])), dtype=np.int64), Y


@given(ids_and_labels())
def test_groups_given_as_ids(both):
    ids, Y = both
    Y1, Y2 = given_groups(ids, Y)
    assert_ones(Y1)
    assert_ones(Y2)
    n_groups = max([-1, *ids.tolist()]) + 1
    assert Y1.shape == (len(ids), n_groups)
    assert Y2.shape == (n_groups, Y.shape[1])
    membership = oracles.membership_of_ids(ids.tolist())
    assert oracles.sets_of(Y1) == membership
    assert oracles.sets_of(Y2) == oracles.labels_of_groups(membership, oracles.sets_of(Y), n_groups)


@st.composite
def overlapping_groups(draw, values):
    n_samples = draw(st.integers(0, 8))
    return draw(csr_matrices(n_rows=n_samples, values=values)), draw(csr_matrices(n_rows=n_samples, values=values))


@given(overlapping_groups(values=st.sampled_from([1.0, -1.0, 0.0, 1e-30, 3.0])))
def test_groups_given_as_a_matrix_may_overlap_and_weights_do_not_cancel(both):
    Y1, Y = both
    membership, group_labels = given_groups(Y1, Y)
    assert_ones(membership)
    assert_ones(group_labels)
    sets = oracles.sets_of(Y1)
    assert oracles.sets_of(membership) == sets
    assert oracles.sets_of(group_labels) == oracles.labels_of_groups(sets, oracles.sets_of(Y), Y1.shape[1])


@given(st.data())
def test_spread_labels_is_the_union_over_groups(data):
    values = st.sampled_from([1.0, -1.0, 0.0, 1e-30])
    Y1 = data.draw(csr_matrices(values=values))
    Y2 = data.draw(csr_matrices(n_rows=Y1.shape[1], values=values))
    found = spread_labels(Y1, Y2)
    assert_ones(found)
    assert found.shape == (Y1.shape[0], Y2.shape[1])
    assert oracles.sets_of(found) == oracles.spread_labels(oracles.sets_of(Y1), oracles.sets_of(Y2))


@given(csr_matrices())
def test_binarised_is_the_pattern_and_a_copy(matrix):
    before = matrix.data.copy()
    found = binarised(matrix)
    assert_ones(found)
    assert oracles.sets_of(found) == oracles.sets_of(matrix)
    np.testing.assert_array_equal(matrix.data, before)


def test_groups_of_other_samples_are_refused():
    with pytest.raises(DataError, match="groups and labels do not fit") as caught:
        given_groups(np.array([0, 1, 1]), sp.csr_matrix((4, 2)))
    assert caught.value.why == "groups are given for 3 samples, labels for 4"


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (np.array([0, -2, -3]), "got -2"),
        (np.array([0, 2**40]), "got 1099511627776"),
        (np.array([0.5, 1.0]), "array of float64"),
        (np.array([[0], [1]]), "shape (2, 1)"),
        (np.array(["a", "b"]), "array of <U1"),
    ],
)
def test_what_is_no_group_id(ids, says):
    with pytest.raises(DataError) as caught:
        membership_of_ids(ids)
    assert says in caught.value.what


def test_no_samples_at_all():
    for groups in (np.array([]), np.array([], dtype=np.int64), sp.csr_matrix((0, 3))):
        Y1, Y2 = given_groups(groups, sp.csr_matrix((0, 7)))
        assert Y1.shape[0] == 0
        assert Y2.shape == (Y1.shape[1], 7)


def test_likeness_is_the_mean_correlation_of_two_members():
    rng = np.random.default_rng(0)
    X = sp.random(60, 30, 0.3, "csr", np.float32, random_state=rng)
    ids = np.repeat(np.arange(15), 4)
    Y1 = membership_of_ids(ids)
    dense = X.toarray().astype(np.float64) - X.toarray().mean(axis=0)
    products = dense @ dense.T
    pairs = (ids[:, None] == ids[None]) & ~np.eye(60, dtype=bool)
    assert likeness(X, Y1) == pytest.approx(products[pairs].mean() / np.diag(products).mean(), abs=1e-6)
    assert likeness(sp.csr_matrix(X[ids]), Y1) == pytest.approx(1)  # copies
    assert likeness(X, membership_of_ids(np.arange(60))) == 0  # no two samples share a group
