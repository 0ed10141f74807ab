"""Balanced spherical k-means: sizes, a dense twin of one split, planted clusters, ties, threads, noise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import csr_matrices
from xpipe.errors import ConfigError, DataError
from xpipe.ground.seeding import bit_generator
from xpipe.grouping import clustering
from xpipe.grouping.clustering import Node, balanced_partition, bounds_of, check_depth, split_node


def random_rows(n_rows, n_features=30, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return sp.random(n_rows, n_features, density, "csr", np.float32, random_state=rng, data_rvs=rng.standard_normal)


def planted_rows(n_clusters, size, words=8, n_background=60, seed=0):
    """Rows with most of their words from their cluster; (X, cluster of each row), rows in random order."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.repeat(np.arange(n_clusters), size))
    dense = np.zeros((len(clusters), n_clusters * words + n_background), dtype=np.float32)
    for row, cluster in enumerate(clusters):
        dense[row, cluster * words + rng.choice(words, 6, replace=False)] = rng.uniform(0.5, 1.5, 6)
        dense[row, n_clusters * words + rng.choice(n_background, 6, replace=False)] = rng.uniform(0.2, 0.6, 6)
    return sp.csr_matrix(dense), clusters


def purity(parts, clusters):
    """Share of rows in the commonest cluster of their part."""
    return sum(np.bincount(clusters[parts == part]).max() for part in np.unique(parts)) / len(parts)


def assert_balanced(found, n_rows, n_leaves, arity):
    assert sorted(found.order.tolist()) == list(range(n_rows))
    assert found.n_leaves == n_leaves
    for level, bounds in enumerate(found.bounds):
        sizes = np.diff(bounds)
        assert len(sizes) == arity**level
        assert sizes.sum() == n_rows
        assert sizes.max() - sizes.min() <= 1
        if level:
            assert set(found.bounds[level - 1]) <= set(bounds)
    leaves = found.leaf_of_row()
    assert np.bincount(leaves, minlength=n_leaves).tolist() == np.diff(found.bounds[-1]).tolist()
    for leaf in range(n_leaves):
        rows = found.order[found.bounds[-1][leaf] : found.bounds[-1][leaf + 1]]
        assert (np.diff(rows) > 0).all()
        assert (leaves[rows] == leaf).all()


# The twin of one split: dense rows, noise written out as 512 more columns, sums made anew in every round.


def twin_vectors(X, noise, seed):
    dense = X.toarray().astype(np.float64)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, lengths, out=np.zeros_like(dense), where=lengths > 0)
    extra = np.zeros((len(dense), 512))
    if noise:
        words = bit_generator(seed, "cluster", "noise").random_raw(len(dense) * 4).reshape(-1, 4)
        for row, numbers in enumerate(words.tolist()):
            for block in range(32):
                byte = numbers[block // 8] >> (8 * (block % 8)) & 255
                extra[row, 16 * block + byte // 16] = noise * (2 * (byte % 16) - 15) / np.sqrt(85 * 32)
    return np.hstack([dense, extra])


def twin_assign(scores, sizes, assigned):
    assigned = assigned.copy()
    for _ in range(2):
        for one in range(len(sizes)):
            for two in range(one + 1, len(sizes)):
                both = np.flatnonzero((assigned == one) | (assigned == two))
                best = both[np.argsort(-(scores[both, one] - scores[both, two]), kind="stable")]
                assigned[best[: sizes[one]]] = one
                assigned[best[sizes[one] :]] = two
    return assigned


def twin_split(vectors, arity, seed, rounds):
    n_rows = len(vectors)
    draws = bit_generator(seed, "cluster", 0).random_raw(arity)
    lengths = np.linalg.norm(vectors, axis=1)
    weights = (lengths > 0).astype(float)
    nearest = np.full(n_rows, -1.0)
    centres = []
    for draw in draws.tolist():
        if weights.sum() > 0:
            seed_row = np.flatnonzero(np.cumsum(weights) > (draw >> 11) / 2**53 * weights.sum())[0]
        else:
            seed_row = draw % n_rows
        centres.append(vectors[seed_row] / (lengths[seed_row] or 1))
        cosines = np.divide(vectors @ centres[-1], lengths, out=np.ones(n_rows), where=lengths > 0)
        nearest = np.maximum(nearest, cosines)
        nearest[seed_row] = np.inf
        weights = np.where((1 - nearest > 1e-12) & (lengths > 0), 1 - nearest, 0)
    sizes = [n_rows // arity + (child < n_rows % arity) for child in range(arity)]
    assigned = twin_assign(vectors @ np.array(centres).T, sizes, np.repeat(np.arange(arity), sizes))
    for _ in range(rounds):
        sums = np.array([vectors[assigned == child].sum(axis=0) for child in range(arity)])
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        before, assigned = assigned, twin_assign(vectors @ (sums / np.where(norms > 0, norms, 1)).T, sizes, assigned)
        if (before == assigned).all():
            break
    return assigned


@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize("arity", [2, 3, 5])
@pytest.mark.parametrize("rounds", [0, 1, 30])
def test_one_split_is_that_of_the_dense_twin(arity, rounds, noise):
    for seed in range(8):
        X = random_rows(60 + seed, seed=seed)
        found = balanced_partition(X, depth=1, arity=arity, seed=seed, noise=noise, rounds=rounds).leaf_of_row()
        expected = twin_split(twin_vectors(X, noise, seed), arity, seed, rounds)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 8, 13, 31, 32, 33, 64, 100, 127])
@pytest.mark.parametrize("depth", range(8))
def test_sizes_differ_by_at_most_one(n_rows, depth):
    X = random_rows(n_rows)
    if 2**depth > n_rows:
        with pytest.raises(ConfigError, match=f"depth {depth} is too deep for {n_rows} samples"):
            balanced_partition(X, depth=depth)
    else:
        assert_balanced(balanced_partition(X, depth=depth), n_rows, 2**depth, 2)


@pytest.mark.parametrize(("arity", "depth"), [(3, 1), (3, 4), (4, 3), (5, 2), (16, 1), (16, 2)])
def test_any_arity(arity, depth):
    assert_balanced(balanced_partition(random_rows(311), depth=depth, arity=arity), 311, arity**depth, arity)


@pytest.mark.parametrize(
    ("n_rows", "most", "arity", "depth"),
    [(100, 100, 2, 0), (100, 99, 2, 1), (100, 10, 2, 4), (100, 10, 16, 1), (5, 1, 4, 2), (0, 3, 2, 0), (1, 1, 2, 0)],
)
def test_leaves_of_at_most_so_many_rows(n_rows, most, arity, depth):
    found = balanced_partition(random_rows(n_rows), max_leaf_size=most, arity=arity)
    assert found.depth == depth
    assert np.diff(found.bounds[-1]).max() <= most
    assert_balanced(found, n_rows, arity**depth, arity)


@settings(deadline=None)
@given(csr_matrices(most=12), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1e6]), st.integers(0, 2**63))
def test_any_matrix_is_cut(X, depth, noise, seed):
    if 2**depth <= X.shape[0]:
        assert_balanced(balanced_partition(X, depth=depth, noise=noise, seed=seed), X.shape[0], 2**depth, 2)


@pytest.mark.parametrize(("arity", "depth", "n_clusters"), [(2, 3, 8), (2, 1, 2), (4, 1, 4), (3, 2, 9)])
def test_planted_clusters_are_found(arity, depth, n_clusters):
    """A first cut may go through a cluster of so flat a set, and k-means stays there: not all of them every time."""
    found = []
    for seed in range(5):
        X, clusters = planted_rows(n_clusters, 30, seed=seed)
        found.append(purity(balanced_partition(X, depth=depth, arity=arity, seed=seed).leaf_of_row(), clusters))
    assert min(found) > 0.8
    assert np.mean(found) > 0.9


def test_the_length_of_a_row_does_not_matter():
    X, _ = planted_rows(4, 20)
    scales = 2.0 ** np.random.default_rng(0).integers(-30, 30, X.shape[0])
    scaled = sp.csr_matrix(sp.diags(scales) @ X)
    assert balanced_partition(scaled, depth=2).order.tolist() == balanced_partition(X, depth=2).order.tolist()


def test_ties_go_by_row_number():
    alike = sp.csr_matrix(np.ones((10, 3), dtype=np.float32))
    assert balanced_partition(alike, depth=1).order.tolist() == list(range(10))
    zeros = sp.csr_matrix((11, 3), dtype=np.float32)
    assert balanced_partition(zeros, depth=2).order.tolist() == list(range(11))
    assert balanced_partition(zeros, depth=1, arity=4).order.tolist() == list(range(11))
    assert balanced_partition(sp.csr_matrix((6, 0), dtype=np.float32), depth=1).order.tolist() == list(range(6))


def test_rows_that_are_the_same_fill_up_in_order():
    """Six of one kind, two of another, four rows of zeros: the halves are six and six."""
    rows = [0, 1, 0, 2, 0, 2, 0, 1, 0, 2, 0, 2]
    X = sp.csr_matrix(np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32)[rows])
    for seed in range(5):
        halves = balanced_partition(X, depth=1, seed=seed).leaf_of_row()
        of_first_kind = halves[[0, 2, 4, 6, 8, 10]]
        assert len(set(of_first_kind)) == 1
        assert set(halves) == {0, 1}


@pytest.mark.parametrize(("arity", "noise", "rounds"), [(2, 0.0, 30), (2, 0.3, 3), (5, 0.0, 30), (3, 0.5, 0)])
@pytest.mark.parametrize("n_rows", [9, 64, 300])
def test_threads_that_share_a_node_split_it_as_one_does(monkeypatch, arity, noise, rounds, n_rows):
    X = sp.random(n_rows, 40, 0.1, "csr", dtype=np.float32, rng=np.random.default_rng(n_rows))  # some rows are empty
    one = balanced_partition(X, depth=2, arity=arity if n_rows > 9 else 2, noise=noise, rounds=rounds, threads=1)
    monkeypatch.setattr(clustering, "WIDE_ROWS", 1)
    shared, wide = [], clustering._LevelSplit.wide
    monkeypatch.setattr(clustering._LevelSplit, "wide", lambda *given: shared.append(given[1]) or wide(*given))
    for threads in (2, 7, 40):
        many = balanced_partition(
            X, depth=2, arity=arity if n_rows > 9 else 2, noise=noise, rounds=rounds, threads=threads
        )
        assert many.order.tobytes() == one.order.tobytes()
    assert {0, 1} <= set(shared)


def test_the_seed_and_the_purpose_decide_and_threads_do_not():
    X = random_rows(500)
    first = balanced_partition(X, depth=5, seed=3, noise=0.3, threads=1)
    for threads in (2, 3, 8):
        again = balanced_partition(X, depth=5, seed=3, noise=0.3, threads=threads)
        assert again.order.tolist() == first.order.tolist()
    for other in ({"seed": 4}, {"purpose": ("tree", 0)}, {"noise": 0.31}):
        found = balanced_partition(X, **{"depth": 5, "seed": 3, "noise": 0.3, **other})
        assert found.order.tolist() != first.order.tolist()


def test_golden():
    X, _ = planted_rows(4, 3)
    assert balanced_partition(X, depth=2, seed=0).leaf_of_row().tolist() == [3, 0, 2, 1, 1, 3, 0, 1, 2, 3, 2, 0]


def test_noise_goes_from_clean_to_random():
    X, clusters = planted_rows(8, 64)
    rng = np.random.default_rng(100)
    chance = np.mean([purity(rng.permutation(512) // 64, clusters) for _ in range(20)])
    found = {
        noise: np.mean(
            [
                purity(balanced_partition(X, depth=3, noise=noise, seed=seed).leaf_of_row(), clusters)
                for seed in range(9)
            ]
        )
        for noise in (0, 0.01, 3, 20, 1e6)
    }
    assert found[0] > 0.95
    assert found[0.01] > 0.95
    assert chance + 0.2 < found[3] < found[0] - 0.05
    assert abs(found[20] - chance) < 0.02
    assert abs(found[1e6] - chance) < 0.02


def test_in_the_limit_of_noise_the_rows_play_no_part():
    one, other = (
        balanced_partition(X, depth=3, noise=1e6).leaf_of_row() for X in (planted_rows(8, 64)[0], random_rows(512))
    )
    assert (one == other).mean() > 0.99


def test_zero_rows_are_spread_by_noise():
    zeros = sp.csr_matrix((64, 3), dtype=np.float32)
    assert balanced_partition(zeros, depth=1, noise=0.1).order.tolist() != list(range(64))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"depth": -1}, "depth must be at least 0, got -1"),
        ({"depth": 5}, "depth 5 is too deep for 20 samples"),
        ({"depth": 10**9}, "too deep"),
        ({"depth": 3, "arity": 3}, "depth 3 is too deep"),
        ({"depth": 1, "arity": 1}, "arity must be at least 2, got 1"),
        ({"depth": 1, "noise": -0.5}, "noise must be a number from 0 to 1e\\+06, got -0.5"),
        ({"depth": 1, "noise": float("nan")}, "noise"),
        ({"depth": 1, "noise": float("inf")}, "noise"),
        ({"depth": 1, "rounds": -1}, "rounds must be at least 0"),
        ({"max_leaf_size": 0}, "max_leaf_size must be at least 1, got 0"),
        ({}, "either depth or max_leaf_size"),
        ({"depth": 1, "max_leaf_size": 4}, "either depth or max_leaf_size"),
    ],
)
def test_what_cannot_be_asked_for(options, says):
    with pytest.raises(ConfigError, match=says):
        balanced_partition(random_rows(20), **options)


def test_too_deep_says_how_deep():
    with pytest.raises(ConfigError) as caught:
        check_depth(20, 5)
    assert caught.value.why == "2**5 groups are more than there are samples"
    assert caught.value.fix == "a depth of at most 4"


def test_a_matrix_that_breaks_the_rules_is_refused():
    X = random_rows(20)
    X.data[3] = np.nan
    with pytest.raises(DataError, match="not finite"):
        balanced_partition(X, depth=1)


@pytest.mark.parametrize(("arity", "depth", "cuts"), [(2, 5, (0, 1, 2, 5)), (2, 4, (0, 3, 4)), (3, 3, (0, 2, 3))])
@pytest.mark.parametrize("n_rows", [307, 40])
def test_node_by_node_it_is_the_same_partition(arity, depth, cuts, n_rows):
    X = random_rows(n_rows, seed=2)
    if arity**depth > n_rows:
        depth, cuts = cuts[-2], cuts[:-1]
    whole = balanced_partition(X, depth=depth, arity=arity, seed=7, purpose=("tree", 1), threads=2)
    order, bounds = np.arange(n_rows), bounds_of(n_rows, depth, arity)
    assert [own.tolist() for own in bounds] == [own.tolist() for own in whole.bounds]
    for level, last in pairwise(cuts):
        for number, (start, stop) in enumerate(pairwise(bounds[level].tolist())):
            rows = order[start:stop]
            assert (np.diff(rows) > 0).all()
            node = Node(level, number)
            order[start:stop] = rows[split_node(X[rows], node, last - level, arity=arity, seed=7, purpose=("tree", 1))]
    assert order.tolist() == whole.order.tolist()
