"""Calibrated forests: the same trees and the same order of labels, with probabilities that held-out rows confirm."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from tests.trees.test_model import same_forest
from xpipe.trees import (
    LabelTree,
    TreeOptions,
    hold_out,
    plan_forest,
    prepare_data,
    train_unit,
    train_unit_without,
    training,
)
from xpipe.trees import calibration as calibrating

SMALL = {"n_trees": 2, "arity": 3, "max_leaf": 6}


def noisy(n_samples: int, seed: int = 0):
    """Rows of which the features say less than a tree believes."""
    X, Y = oracles.planted(n_samples, 40, 30, seed)
    draw = np.random.default_rng(seed + 1)
    Y = Y.toarray()
    kept = (Y > 0) & (draw.random(Y.shape) < 0.5)
    return X, sp.csr_matrix(kept.astype(np.float32))


def error(found, Y) -> float:
    """ECE over ten bins of all predictions."""
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    hits = np.asarray(Y[rows, found.indices]).ravel() > 0
    bins = np.minimum((10 * found.data).astype(int), 9)
    return sum(abs((found.data - hits)[bins == number].sum()) for number in range(10)) / len(hits)


def test_calibration_changes_no_tree_and_no_order():
    X, Y = noisy(600)
    own, calibrated = (LabelTree(**SMALL, calibrate=how).fit(X, Y) for how in ("none", "isotonic"))
    assert own.forest.calibration is None
    assert calibrated.forest.calibration is not None
    assert same_forest(own.forest, calibrated.forest)
    X_test, _ = noisy(200, seed=5)
    before, after = own.predict(X_test, k=8), calibrated.predict(X_test, k=8)
    assert before.indices.tobytes() == after.indices.tobytes()
    assert before.indptr.tobytes() == after.indptr.tobytes()
    assert ((after.data > 0) & (after.data <= 1)).all()
    for first, last in pairwise(before.indptr):
        orders = [np.argsort(-found.data[first:last], kind="stable").tolist() for found in (before, after)]
        assert orders[0] == orders[1]
        assert len(set(after.data[first:last])) == len(set(before.data[first:last]))
    np.testing.assert_array_equal(calibrated.predict(X_test, k=2).max(axis=1).toarray(), after.max(axis=1).toarray())


def test_probabilities_are_those_of_new_rows():
    X, Y = noisy(6000)
    labelled = np.flatnonzero(np.diff(Y.indptr))
    X, Y, X_test, Y_test = X[labelled[:3000]], Y[labelled[:3000]], X[labelled[3000:]], Y[labelled[3000:]]
    own, calibrated = (LabelTree(**SMALL, calibrate=how).fit(X, Y) for how in ("none", "isotonic"))
    before, after = (error(tree.predict(X_test), Y_test) for tree in (own, calibrated))
    assert after < 0.04
    assert after < before / 2


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_what_is_held_out_is_forgotten(loss, monkeypatch):
    """Classifiers without some rows are those that the others alone give, after enough rounds."""
    monkeypatch.setattr(training, "FORGETTING", 1)
    X, Y = oracles.planted(120, 30, 20)
    options = TreeOptions(n_trees=1, arity=3, max_leaf=5, loss=loss, tolerance=1e-4, max_rounds=3000, threshold=0)
    data = prepare_data(X, Y)
    (plan,) = plan_forest(data, None, options)
    folds = [np.arange(0, 120, 4), np.arange(1, 120, 5), np.zeros(0, np.int64)]
    for unit in plan.units():
        whole, *without = train_unit_without(data, plan, unit, options, folds)
        for part, expected in zip(whole, train_unit(data, plan, unit, options), strict=True):
            assert part.tobytes() == expected.tobytes()
        for fold, found in zip(folds, without, strict=True):
            others = np.setdiff1d(np.arange(120), fold)
            alone = train_unit(prepare_data(X[others], Y[others]), plan, unit, options)
            np.testing.assert_allclose(oracles.unit_matrix(found, 30), oracles.unit_matrix(alone, 30), atol=3e-3)


def test_a_node_that_loses_all_its_rows():
    X = sp.csr_matrix(np.eye(6, dtype=np.float32))
    data, options = prepare_data(X, X), TreeOptions(n_trees=1, arity=2, max_leaf=3)
    (plan,) = plan_forest(data, None, options)
    for unit in plan.units():
        _, without = train_unit_without(data, plan, unit, options, [np.arange(6)])
        assert np.abs(without.biases).max() < 1e-6
        assert len(without.weights) == 0


def test_held_out_rows_are_labelled_seeded_and_not_too_many(monkeypatch):
    X, Y = oracles.planted(200, 20, 8)
    data, labelled = prepare_data(X, Y), np.flatnonzero(np.diff(Y.indptr))
    rows, more = hold_out(data, TreeOptions())
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert set(rows) | set(more) <= set(labelled)
    assert not set(rows) & set(more)
    assert len(rows) == len(more) == int(calibrating.SHARE * len(labelled))
    assert hold_out(data, TreeOptions())[0].tolist() == rows.tolist()
    assert hold_out(data, TreeOptions(seed=1))[0].tolist() != rows.tolist()
    assert hold_out(data, TreeOptions(calibrate="none")) == ()
    monkeypatch.setattr(calibrating, "HELD_OUT", 7)
    assert [len(rows) for rows in hold_out(data, TreeOptions())] == [7]
    assert hold_out(prepare_data(X[:3], Y[:3]), TreeOptions()) == ()


def test_label_scores_are_chances():
    X, Y = oracles.planted(1500, 40, 30)
    scores = Y.copy()
    scores.data[:] = 0.5
    tree = LabelTree(**SMALL).fit(X, Y, label_scores=scores)
    found = tree.predict(X, k=5)
    assert found.data.max() < 0.6
    scores.data[:] = 4.0  # weights that are no chances count as certain
    assert LabelTree(**SMALL).fit(X, Y, label_scores=scores).predict(X, k=5).data.max() > 0.8


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_byte_of_the_file(tmp_path, threads):
    X, Y = noisy(400)
    for name, number in (("one", 1), ("many", threads)):
        LabelTree(**SMALL).fit(X, Y, threads=number).save(str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
