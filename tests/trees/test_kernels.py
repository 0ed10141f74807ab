"""Kernels against plain numpy: lanes, gathering, shuffling, the shape of trees."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from xpipe.ground.accelerate import jit
from xpipe.trees import TreeOptions, plan_forest, prepare_data
from xpipe.trees._gather_numba import NodeRows, SparseRows, count_features, gather_rows
from xpipe.trees._lanes_numba import LANES, MANY_LANES, add_many_products, add_products, add_row
from xpipe.trees._solver_numba import shuffle


@jit
def call_products(columns, values, start, stop, block, lane, sums):
    add_products(columns, values, start, stop, block, block.shape[1], lane, sums)


@jit
def call_many_products(columns, values, start, stop, block, lane, sums):
    add_many_products(columns, values, start, stop, block, block.shape[1], lane, sums)


@jit
def call_add_row(columns, values, start, stop, block, lane, steps):
    add_row(columns, values, start, stop, block, block.shape[1], lane, steps)


def lanes_case(seed: int, width: int):
    draw = np.random.default_rng(seed)
    columns = draw.choice(30, 11, replace=False).astype(np.uint32)
    block = draw.standard_normal((30, width)).astype(np.float32)
    return columns, draw.standard_normal(11).astype(np.float32), block, draw.standard_normal(width).astype(np.float32)


@pytest.mark.parametrize(("start", "stop"), [(0, 11), (3, 4), (2, 9), (5, 5)])
@pytest.mark.parametrize(("call", "size"), [(call_products, LANES), (call_many_products, MANY_LANES)])
def test_products_of_a_row_with_some_lanes(call, size, start, stop):
    width = 2 * MANY_LANES
    columns, values, block, sums = lanes_case(0, width)
    for lane in (0, width - size):
        expected = sums.copy()
        for entry in range(start, stop):  # in this order, each product rounded: the same bytes
            expected[lane : lane + size] += values[entry] * block[columns[entry], lane : lane + size]
        found = sums.copy()
        call(columns, values, start, stop, block, lane, found)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("start", "stop"), [(0, 11), (3, 4), (5, 5)])
def test_a_row_is_added_to_some_lanes(start, stop):
    columns, values, block, steps = lanes_case(1, 3 * LANES)
    expected = block.copy()
    for entry in range(start, stop):
        expected[columns[entry], LANES : 2 * LANES] += values[entry] * steps[LANES : 2 * LANES]
    call_add_row(columns, values, start, stop, block, LANES, steps)
    assert block.tobytes() == expected.tobytes()


def test_gathered_rows_are_the_rows():
    X, _ = oracles.planted(30, 25, 10)
    X = sp.csr_matrix(X.multiply(np.arange(25) % 3 != 1)).astype(np.float32)
    X.eliminate_zeros()
    rows, scales = np.array([2, 3, 17, 29]), np.linspace(0.5, 2, 30).astype(np.float32)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    seen = np.zeros(25, np.uint8)
    n_entries, n_features = count_features(indptr, indices, rows, seen)
    features, numbers = np.empty(n_features, np.int32), np.empty(25, np.uint32)
    node = NodeRows(
        np.empty(5, np.int64), np.empty(n_entries, np.uint32), np.empty(n_entries, np.float32), np.empty(4, np.float32)
    )
    gather_rows(SparseRows(indptr, indices, X.data, scales), rows, seen, 0.5, numbers, features, node)
    expected = X[rows].toarray() * scales[rows, None]
    assert features.tolist() == np.flatnonzero(expected.any(axis=0)).tolist()
    found = sp.csr_matrix((node.values, node.columns.astype(np.int32), node.indptr), shape=(4, n_features)).toarray()
    np.testing.assert_array_equal(found, expected[:, features])
    np.testing.assert_allclose(node.squares, (expected**2).sum(axis=1) + 0.25, rtol=1e-6)


def test_shuffles_are_permutations_of_what_is_asked():
    items = np.arange(20)
    state = shuffle(items, 15, np.uint64(7))
    assert sorted(items[:15]) == list(range(15))
    assert items[15:].tolist() == [15, 16, 17, 18, 19]
    again = np.arange(20)
    assert shuffle(again, 15, np.uint64(7)) == state != np.uint64(7)
    assert again.tolist() == items.tolist()
    shuffle(again, 15, state)
    assert again.tolist() != items.tolist()


def test_a_wide_tree_is_the_binary_one_with_levels_left_out():
    X, Y = oracles.planted(300, 40, 90)
    data = prepare_data(X, Y)
    plans = {
        arity: plan_forest(data, None, TreeOptions(n_trees=1, arity=arity, max_leaf=4), 1)[0] for arity in (2, 4, 8, 64)
    }
    for arity, plan in plans.items():
        assert plan.order.tolist() == plans[2].order.tolist()
        assert plan.bounds[-1].tolist() == plans[2].bounds[-1].tolist()
        assert all(any(np.array_equal(level, other) for other in plans[2].bounds) for level in plan.bounds)
        assert max(np.diff(plan.child_ptr(level)).max() for level in range(plan.depth - 1)) <= arity
    assert [plans[arity].depth for arity in (2, 4, 8, 64)] == [6, 4, 3, 2]
