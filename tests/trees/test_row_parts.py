"""Nodes of many rows are trained in parts: every row is in one, and their mean is what each has learnt, added up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trees import oracles
from xpipe.trees import (
    LabelTree,
    TreeOptions,
    hold_out,
    make_calibrated,
    plan_forest,
    prepare_data,
    row_parts,
    train_unit,
    train_unit_without,
    unit_rows,
)
from xpipe.trees.row_parts import Part, parts_of, parts_of_units
from xpipe.trees.training import mean_of_units, train_part

OPTIONS = TreeOptions(n_trees=2, arity=3, max_leaf=5)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of so few rows that small data has some."""
    monkeypatch.setattr(row_parts, "ROWS_OF_PART", 40)


def units_of(data, options):
    return [(plan, unit) for plan in plan_forest(data, None, options, 1) for unit in plan.units()]


def rows_in(X, Y, plan, unit, part):
    """The training data without the rows that reach the node but are in other parts."""
    reached = unit_rows(prepare_data(X, Y).label_rows, plan, unit).rows
    chosen = reached[part.number :: part.of]
    return prepare_data(X[chosen], Y[chosen])


def test_a_part_learns_from_its_rows_alone(small_parts):
    X, Y = oracles.planted(250, 30, 30)
    data, several = prepare_data(X, Y), 0
    options = TreeOptions(n_trees=1, arity=3, max_leaf=5, tolerance=1e-4, max_rounds=3000, threshold=0)
    for plan, unit in units_of(data, options):
        parts = parts_of(len(unit_rows(data.label_rows, plan, unit).rows))
        several += len(parts) > 1
        for part in parts if len(parts) > 1 else []:
            (found,) = train_part(data, plan, unit, options, (), part)
            own = train_unit(rows_in(X, Y, plan, unit, part), plan, unit, options)  # visits rows in another order
            near = [oracles.unit_matrix(each, X.shape[1]) for each in (found, own)]
            np.testing.assert_allclose(*near, atol=1e-3)
    assert several > 2


def test_the_mean_is_the_mean(small_parts):
    X, Y = oracles.planted(250, 30, 30)
    data, several = prepare_data(X, Y), 0
    for threshold in (0.0, 0.1):
        options = TreeOptions(n_trees=1, arity=3, max_leaf=5, threshold=threshold)
        for plan, unit in units_of(data, options):
            parts = parts_of(len(unit_rows(data.label_rows, plan, unit).rows))
            found = [train_part(data, plan, unit, options, (), part) for part in parts]
            dense = np.mean([oracles.unit_matrix(own, X.shape[1]) for (own,) in found], axis=0, dtype=np.float32)
            expected = dense.copy()
            expected[:-1][np.abs(dense[:-1]) < threshold] = 0
            (mean,) = mean_of_units(found, unit, X.shape[1], options)
            np.testing.assert_allclose(oracles.unit_matrix(mean, X.shape[1]), expected, atol=1e-6)
            assert mean.feature_ptr[-1] == len(mean.lanes) == len(mean.weights)
            assert (np.diff(mean.feature_ptr) > 0).all()
            assert (np.diff(mean.features) > 0).all()
            several += len(parts) > 1
    assert several > 2


def test_fit_gives_what_units_give(small_parts):
    X, Y = oracles.planted(250, 30, 30)
    tree = LabelTree(n_trees=2, arity=3, max_leaf=5)
    data, folds = prepare_data(X, Y), hold_out(prepare_data(X, Y), tree.options)
    plans = plan_forest(data, None, tree.options)
    units = [(plan, unit) for plan in plans for unit in plan.units()]
    found = [train_unit_without(data, *own, tree.options, folds) for own in units]
    forest = make_calibrated(data, plans, found, folds, tree.options, threads=1)
    for threads in (1, 3):
        tree.fit(X, Y, threads=threads)
        for mine, expected in zip(oracles.forest_units(tree.forest), oracles.forest_units(forest), strict=True):
            for one, other in zip(mine, expected, strict=True):
                assert one.tobytes() == other.tobytes()
        assert tree.forest.calibration is not None
        assert forest.calibration is not None


def test_parts_are_counted_by_the_rows_that_reach_the_node(small_parts):
    X, Y = oracles.planted(400, 30, 40)
    data = prepare_data(X, Y)
    for plan in plan_forest(data, None, OPTIONS, 1):
        counted = [len(unit_rows(data.label_rows, plan, unit).rows) for unit in plan.units()]
        assert parts_of_units(data.label_rows, plan) == [parts_of(n_rows) for n_rows in counted]
        assert len({len(parts_of(n_rows)) for n_rows in counted}) > 1


def test_few_rows_are_one_part():
    assert parts_of(0) == parts_of(399_999) == [Part(0, 1)]
    assert [part.number for part in parts_of(1_200_000)] == list(range(6))


def test_parts_predict_as_well(monkeypatch):
    X, Y = oracles.planted(3000, 60, 40)
    train, test = slice(0, 2000), slice(2000, 3000)
    hits = {}
    for rows in (10**9, 500):
        monkeypatch.setattr(row_parts, "ROWS_OF_PART", rows)
        tree = LabelTree(n_trees=1, max_leaf=10, arity=4).fit(X[train], Y[train])
        best = tree.predict(X[test], k=1)
        hits[rows] = best.astype(bool).multiply(Y[test].astype(bool)).nnz / 1000
    assert hits[500] > hits[10**9] - 0.03
