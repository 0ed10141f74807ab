"""Label order: fewer sign changes, the same answer every time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.argmaxability.oracles import as_rows
from xpipe.argmaxability import _ordering_numba as kernels
from xpipe.argmaxability import order_labels, sign_changes
from xpipe.errors import ConfigError


def shuffled_topics(n_topics=12, size=8, n_sets=400, seed=0):
    """Sets that are stretches of a topic's labels, plus a stray label now and then; labels in random order."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(n_topics * size)
    sets = []
    for _ in range(n_sets):
        topic, begin = rng.integers(n_topics), rng.integers(size - 3)
        labels = topic * size + begin + np.arange(rng.integers(2, size - begin + 1))
        if rng.random() < 0.3:
            labels = np.append(labels, rng.integers(n_topics * size))
        sets.append(names[np.unique(labels)])
    return as_rows(sets, n_topics * size)


def test_order_lowers_both_figures():
    Y = shuffled_topics()
    order = order_labels(Y)
    assert sorted(order.tolist()) == list(range(Y.shape[1]))
    before, after = sign_changes(Y), sign_changes(Y[:, order])
    assert after.mean() < 0.5 * before.mean()
    assert after.max() < before.max()
    assert (order_labels(Y) == order).all()


def test_rounds_trade_mean_for_largest():
    """One set of labels that never meet otherwise: common pairs tear it apart, its own weight brings it together."""
    common = [[2 * pair, 2 * pair + 1] for pair in range(10)] * 20
    Y = as_rows([*common, list(range(0, 20, 2))], 20)
    plain = sign_changes(Y[:, order_labels(Y, rounds=0)])
    generous = sign_changes(Y[:, order_labels(Y, mean_tolerance=1.0)])
    assert generous.max() < plain.max()
    assert generous.mean() > plain.mean()
    default = sign_changes(Y[:, order_labels(Y)])
    assert default.mean() <= plain.mean() * 1.01


def test_a_chain_of_pairs_is_found_whole():
    names = np.random.default_rng(1).permutation(30)
    Y = as_rows([[names[i], names[i + 1]] for i in range(29)], 30)
    order = order_labels(Y)
    assert sign_changes(Y[:, order]).max() <= 2
    assert order.tolist() in (names.tolist(), names[::-1].tolist())


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_labels_and_no_sets(n):
    assert sorted(order_labels(sp.csr_matrix((4, n), dtype=np.float32)).tolist()) == list(range(n))
    assert sorted(order_labels(sp.csr_matrix(np.ones((2, n), dtype=np.float32))).tolist()) == list(range(n))


def test_bad_options_are_refused():
    for options in ({"rounds": -1}, {"mean_tolerance": -0.1}):
        with pytest.raises(ConfigError, match="must not be negative"):
            order_labels(shuffled_topics(), **options)


def test_the_old_name_of_mean_tolerance_warns():
    Y = shuffled_topics()
    with pytest.warns(DeprecationWarning, match="mean_tolerance"):
        assert (order_labels(Y, give=1.0) == order_labels(Y, mean_tolerance=1.0)).all()


def worth(order, weights) -> float:
    return sum(weights[a, b] for a, b in itertools.pairwise(order))


def random_graph(rng, n, low, high):
    """(weights as a dense matrix, as a graph, a random order of the labels)."""
    dense = np.triu(rng.integers(low, high, (n, n)), 1)
    dense = (dense + dense.T).astype(float)
    matrix = sp.csr_matrix(dense)
    graph = kernels.Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
    return dense, graph, rng.permutation(n)


@given(st.integers(4, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_moves_gain_what_they_say(n, seed):
    """Every move keeps a permutation and changes the worth of the path by exactly the gain."""
    rng = np.random.default_rng(seed)
    dense, graph, order = random_graph(rng, n, 0, 4)
    for _ in range(20):
        s, t = rng.choice(n, 2, replace=False)
        length, forward, before = int(rng.integers(1, 4)), bool(rng.integers(2)), bool(rng.integers(2))
        place = np.argsort(order)
        gain = kernels.segment_gain(kernels.Path(order, place), graph, s, t, length, forward, before)
        if gain == -np.inf:
            continue
        worth_before = worth(order, dense)
        kernels.move_segment(kernels.Path(order, place), s, t, length, forward, before)
        assert sorted(order.tolist()) == list(range(n))
        assert (place == np.argsort(order)).all()
        assert abs(place[s] - place[t]) == 1
        assert worth(order, dense) - worth_before == pytest.approx(gain)


@given(st.integers(3, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_local_search_never_loses_and_is_near_the_best(n, seed):
    rng = np.random.default_rng(seed)
    dense, graph, order = random_graph(rng, n, 1, 9)
    start = worth(order, dense)
    near_ptr = np.arange(n + 1, dtype=np.int64) * (n - 1)
    near = np.concatenate([np.argsort(-dense[a], kind="stable")[: n - 1] for a in range(n)])
    path = kernels.Path(order, np.argsort(order))
    kernels.improve_path(path, graph, kernels.Near(near_ptr, near), np.arange(n), n)
    best = max(worth(path, dense) for path in itertools.permutations(range(n)))
    assert sorted(order.tolist()) == list(range(n))
    assert worth(order, dense) >= max(start, 0.75 * best)
