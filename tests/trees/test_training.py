"""Units of training: rows that reach a node, classifiers near their optimum, weights without the small ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import csr_matrices
from tests.trees import oracles
from xpipe.errors import DataError
from xpipe.trees import TreeOptions, plan_forest, prepare_data, train_unit, training, unit_costs, unit_rows
from xpipe.trees._lanes_numba import LANES


def all_units(data, options):
    return [(plan, unit) for plan in plan_forest(data, None, options, 1) for unit in plan.units()]


@given(csr_matrices(values=st.sampled_from([0.0, 0.25, 1.0, 3.0]), most=12), st.integers(2, 4), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_rows_reach_a_node_by_the_labels_below_it(scores, arity, max_leaf):
    Y = scores.copy()
    Y.data[:] = 1
    data = prepare_data(sp.csr_matrix((Y.shape[0], 3), dtype=np.float32), Y, scores)
    options = TreeOptions(n_trees=1, arity=arity, max_leaf=max_leaf)
    dense, positive = scores.toarray(), Y.toarray() > 0
    for plan, unit in all_units(data, options):
        children = oracles.children_of(plan, unit.level, unit.node)
        rows, table = oracles.rows_of_node(dense, positive, children)
        found = unit_rows(data.label_rows, plan, unit)
        own, doubts = np.full((len(rows), len(children)), -1.0), np.ones((len(rows), len(children)))
        for place in range(len(found.rows)):
            for at in range(found.owner_ptr[place], found.owner_ptr[place + 1]):
                own[place, unit.first_child + found.owners[at]] = found.weights[at]
                doubts[place, unit.first_child + found.owners[at]] = found.doubts[at]
        assert found.rows.tolist() == rows.tolist()
        np.testing.assert_allclose(own, table, rtol=1e-6)
        np.testing.assert_allclose(doubts, oracles.doubts_of(table), rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("arity", "bias", "cost"), [(2, 1.0, 1.0), (20, 0.5, 3.0)])
def test_classifiers_are_near_their_optimum(loss, weighted, arity, bias, cost):
    X, Y = oracles.planted(90, 40, 25)
    scores = Y.copy()
    scores.data = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], Y.nnz).astype(np.float32)
    options = TreeOptions(
        n_trees=1,
        arity=arity,
        max_leaf=4,
        loss=loss,
        bias=bias,
        cost=cost,
        tolerance=1e-4,
        max_rounds=3000,
        threshold=0,
    )
    data = prepare_data(X, Y, scores if weighted else None)
    rows_of_all = np.hstack([oracles.unit_rows(X.toarray()), np.full((X.shape[0], 1), bias)])
    for plan, unit in all_units(data, options):
        children = oracles.children_of(plan, unit.level, unit.node)
        rows, table = oracles.rows_of_node((scores if weighted else Y).toarray(), Y.toarray() > 0, children)
        doubts = oracles.doubts_of(table)
        found = oracles.unit_matrix(train_unit(data, plan, unit, options), X.shape[1])
        found[-1] /= bias
        for lane in range(unit.last_child - unit.first_child):
            own = table[:, unit.first_child + lane]
            # a positive that is uncertain stands twice: once as a positive, once as a negative
            there, doubt = rows_of_all[rows], doubts[:, unit.first_child + lane]
            costs = cost * np.concatenate([np.clip(own, 0, None), doubt])
            problem = (np.vstack([there, there]), np.repeat([1.0, -1.0], len(rows)), costs, loss)
            least = oracles.objective(oracles.best_classifier(*problem), *problem)
            assert oracles.objective(found[:, lane], *problem) == pytest.approx(least, rel=1e-3, abs=1e-4)


def test_agrees_with_liblinear():
    svm = pytest.importorskip("sklearn.svm")
    X, Y = oracles.planted(200, 60, 30)
    options = TreeOptions(n_trees=1, max_leaf=30, cost=1.0, tolerance=1e-4, max_rounds=3000, threshold=0)
    data = prepare_data(X, Y)
    ((plan, unit),) = all_units(data, options)
    found = oracles.unit_matrix(train_unit(data, plan, unit, options), X.shape[1])
    rows = unit_rows(data.label_rows, plan, unit).rows
    for lane, label in enumerate(plan.order):
        model = svm.LinearSVC(tol=1e-6, max_iter=100_000, C=1.0, intercept_scaling=1.0)
        model.fit(oracles.unit_rows(X.toarray())[rows], Y[rows, label].toarray().ravel() > 0)
        np.testing.assert_allclose(found[:-1, lane], model.coef_[0], atol=2e-3)
        np.testing.assert_allclose(found[-1, lane], model.intercept_[0], atol=2e-3)


def test_the_tolerance_decides_how_near():
    X, Y = oracles.planted(150, 40, 20)
    data = prepare_data(X, Y)
    above = {}
    for tolerance in (1.0, 0.1, 0.01):
        options = TreeOptions(n_trees=1, max_leaf=20, cost=1.0, tolerance=tolerance, max_rounds=1000, threshold=0)
        ((plan, unit),) = all_units(data, options)
        found = oracles.unit_matrix(train_unit(data, plan, unit, options), X.shape[1])
        rows = unit_rows(data.label_rows, plan, unit).rows
        own = np.hstack([oracles.unit_rows(X.toarray())[rows], np.ones((len(rows), 1))])
        above[tolerance] = 0.0
        for lane, label in enumerate(plan.order):
            signs = np.where(Y[rows, label].toarray().ravel() > 0, 1.0, -1.0)
            problem = (own, signs, np.ones(len(rows)), "squared_hinge")
            least = oracles.objective(oracles.best_classifier(*problem), *problem)
            above[tolerance] = max(above[tolerance], oracles.objective(found[:, lane], *problem) / least - 1)
    assert above[1.0] > above[0.1] > above[0.01]
    assert above[0.1] < 0.05
    assert above[0.01] < 0.001


@pytest.mark.parametrize("threshold", [0.05, 0.3])
def test_small_weights_are_left_out(threshold):
    X, Y = oracles.planted(120, 30, 40)
    data = prepare_data(X, Y)
    for plan, unit in all_units(data, TreeOptions(n_trees=1, arity=3, max_leaf=5)):
        whole = oracles.unit_matrix(train_unit(data, plan, unit, TreeOptions(threshold=0)), 30)
        found = train_unit(data, plan, unit, TreeOptions(threshold=threshold))
        expected = np.where(np.abs(whole) >= np.float32(threshold), whole, 0)
        expected[-1] = whole[-1]  # biases stay
        np.testing.assert_array_equal(oracles.unit_matrix(found, 30), expected)
        assert (np.diff(found.feature_ptr) > 0).all()
        assert (np.diff(found.features) > 0).all()


def test_a_unit_needs_only_its_own_rows():
    X, Y = oracles.planted(150, 30, 30)
    options = TreeOptions(n_trees=2, arity=3, max_leaf=4)
    data = prepare_data(X, Y)
    for plan, unit in all_units(data, options):
        rows = unit_rows(data.label_rows, plan, unit).rows
        own = train_unit(prepare_data(X[rows], Y[rows]), plan, unit, options)
        for part, expected in zip(own, train_unit(data, plan, unit, options), strict=True):
            assert part.tobytes() == expected.tobytes()


def test_wide_nodes_are_cut_into_units():
    X, Y = oracles.planted(300, 20, 150)
    data = prepare_data(X, Y)
    (plan,) = plan_forest(data, None, TreeOptions(n_trees=1, max_leaf=150), 1)
    units = plan.units()
    assert [(unit.first_child, unit.last_child) for unit in units] == [(0, 128), (128, len(plan.order))]
    costs = unit_costs(data, plan)
    assert len(costs) == 2
    assert costs[0] == costs[1] > 0  # both visit the same rows
    alone = train_unit(data, plan, units[1], TreeOptions())
    assert len(alone.biases) == len(plan.order) - 128 <= 2 * LANES


def test_values_of_labels_do_not_matter_but_zeros_are_no_positives():
    X, Y = oracles.planted(60, 20, 10)
    other = Y.copy()
    other.data = np.random.default_rng(0).choice([-1.0, 2.0, 0.5], Y.nnz).astype(np.float32)
    zeroed = sp.csr_matrix(Y + sp.csr_matrix(np.full(Y.shape, 7.0, dtype=np.float32)))
    zeroed.data = np.where(Y.toarray().ravel() > 0, 1, 0).astype(np.float32)
    expected = prepare_data(X, Y).label_rows
    for given_labels in (other, zeroed):
        found = prepare_data(X, given_labels).label_rows
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.indptr.tolist() == expected.indptr.tolist()


def test_scores_that_do_not_fit_are_refused():
    X, Y = oracles.planted(20, 10, 6)
    fewer = Y.copy()
    fewer.data[0] = 0
    fewer.eliminate_zeros()
    for scores, text in ((fewer, "do not fit"), (-Y, "below 0"), (sp.csr_matrix(Y[:, :5]), "do not fit")):
        with pytest.raises(DataError, match=text):
            prepare_data(X, Y, scores)
    with pytest.raises(DataError, match="do not fit"):
        prepare_data(X[:5], Y)


def test_many_rows_take_fewer_rounds(monkeypatch):
    X, Y = oracles.planted(200, 40, 30)
    data = prepare_data(X, Y)
    monkeypatch.setattr(training, "MANY_ROWS", 10**9)
    wanted = {rounds: _all_units_with(data, rounds) for rounds in (3, 20)}
    assert wanted[3] != wanted[20]
    monkeypatch.setattr(training, "MANY_ROWS", 1)  # any number of rows is many
    monkeypatch.setattr(training, "FEWEST", 3)
    assert _all_units_with(data, 20) == wanted[3]
    assert _all_units_with(data, 2) != wanted[3]  # never more than asked for


def _all_units_with(data, rounds):
    options = TreeOptions(n_trees=1, max_leaf=10, arity=4, max_rounds=rounds)
    return [b"".join(part.tobytes() for part in train_unit(data, *own, options)) for own in all_units(data, options)]
