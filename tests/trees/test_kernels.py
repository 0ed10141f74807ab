"""Kernels against plain numpy: lanes, gathering, shuffling, the shape of trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from xpipe.ground.accelerate import jit
from xpipe.ground.sparse import to_matrix, to_triple
from xpipe.ground.sparse_rows import slice_rows
from xpipe.trees import TrainingData, TreeOptions, plan_forest, prepare_data, training, vectors
from xpipe.trees._lanes_numba import LANES, MANY_LANES, add_many_products, add_products, add_row
from xpipe.trees._solver_numba import shuffle
from xpipe.trees.training_data import Piece, RowsInMemory


class TwoPieces(RowsInMemory):
    """Rows in two pieces, as files have them."""

    def __new__(cls, triple, cut):
        made = super().__new__(cls, triple)
        made.cut = cut
        return made

    def pieces(self, rows):
        yield Piece(slice_rows(self.triple, 0, self.cut), 0, rows[rows < self.cut])
        yield Piece(slice_rows(self.triple, self.cut, self.n_rows), self.cut, rows[rows >= self.cut] - self.cut)


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
    data = TrainingData(TwoPieces(to_triple(X), 10), 25, scales, sp.csr_matrix((1, 30), dtype=np.float32))
    features, node = training._gather(data, rows, 0.5)
    expected = X[rows].toarray() * scales[rows, None]
    found = np.zeros_like(expected)
    shared = features.features[features.places >= 0]
    own = sp.csr_matrix((node.values, node.columns.astype(np.int32), node.indptr), shape=(4, len(shared)))
    found[:, shared] = own.toarray()
    for feature, place, value in zip(*features, strict=True):
        if place < 0:
            found[-1 - place, feature] = value
    assert features.features.tolist() == np.flatnonzero(expected.any(axis=0)).tolist()
    assert shared.tolist() == np.flatnonzero((expected != 0).sum(axis=0) > 1).tolist()
    assert 0 < len(shared) < len(features.features)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(node.squares, (expected**2).sum(axis=1) + 0.25, rtol=1e-6)
    np.testing.assert_allclose(node.alone, node.squares - 0.25 - own.power(2).sum(axis=1).A1, atol=1e-6)


@pytest.mark.parametrize("most", [3, 1000])
def test_label_vectors_are_the_largest_sums(monkeypatch, most):
    X, Y = oracles.planted(60, 40, 12)
    monkeypatch.setattr(vectors, "MOST_ENTRIES", most)
    monkeypatch.setattr(vectors, "ENTRIES_AT_ONCE", 200)  # several labels at once, and several times
    data = prepare_data(X, Y)
    found = to_matrix(vectors.sum_rows(data, data.labels), 40)
    pieces = replace(data, X=TwoPieces(data.X.triple, 25))
    assert vectors.sum_rows(pieces, data.labels).values.tobytes() == found.data.tobytes()
    sums = Y[:, data.labels].toarray().T @ (X.toarray() * data.scales[:, None])
    least = np.sort(sums, axis=1)[:, ::-1][:, min(most, 40) - 1]
    np.testing.assert_allclose(found.toarray(), np.where(sums >= least[:, None] - 1e-6, sums, 0), atol=1e-5)
    given = to_matrix(to_triple(sp.csr_matrix(sums.astype(np.float32))), 40)
    np.testing.assert_allclose(vectors.prune_vectors(given).toarray(), found.toarray(), atol=1e-5)


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
