"""LabelTree as its users see it: it learns, it is the same for any threads, and odd data is no accident."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from xpipe.cli.progress import Progress
from xpipe.errors import ConfigError, DataError
from xpipe.trees import LabelTree, TreeOptions, make_forest, plan_forest, prepare_data, train_unit


def same_forest(one, other) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one.weights, other.weights, strict=True)) and all(
        a.order.tobytes() == b.order.tobytes() and [c.tobytes() for c in a.bounds] == [c.tobytes() for c in b.bounds]
        for a, b in zip(one.plans, other.plans, strict=True)
    )


def precision_at_1(tree, X, Y) -> float:
    best = np.asarray(tree.predict(X, k=1).argmax(axis=1)).ravel()
    return float(np.mean(np.asarray(Y[np.arange(X.shape[0]), best]).ravel() > 0))


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("arity", [2, 3, 64])
def test_it_learns(loss, arity):
    X, Y = oracles.planted(500, 60, 40)
    known = np.flatnonzero(np.diff(Y.indptr))
    X, Y = X[known], Y[known]
    tree = LabelTree(n_trees=2, arity=arity, max_leaf=8, loss=loss, cost=10.0).fit(X[:300], Y[:300])
    assert precision_at_1(tree, X[300:], Y[300:]) > 0.8


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    X, Y = oracles.planted(300, 40, 70)
    options = {"n_trees": 2, "arity": 4, "max_leaf": 8, "seed": 3}
    one = LabelTree(**options).fit(X, Y, threads=1)
    assert same_forest(one.forest, LabelTree(**options).fit(X, Y, threads=threads).forest)


def test_the_seed_changes_the_trees():
    X, Y = oracles.planted(300, 40, 70)
    forests = [LabelTree(n_trees=2, arity=2, max_leaf=8, seed=seed).fit(X, Y).forest for seed in (0, 1)]
    assert not same_forest(*forests)
    assert forests[0].plans[0].order.tolist() != forests[0].plans[1].order.tolist()


def test_units_in_any_order_give_the_same_forest():
    X, Y = oracles.planted(200, 40, 50)
    options = TreeOptions(n_trees=2, arity=3, max_leaf=5)
    data = prepare_data(X, Y)
    plans = plan_forest(data, None, options)
    units = [(plan, unit) for plan in plans for unit in plan.units()]
    found = [train_unit(data, *pair, options) for pair in reversed(units)][::-1]
    tree = LabelTree.of(make_forest(data, plans, found, options), options)
    assert same_forest(tree.forest, LabelTree(n_trees=2, arity=3, max_leaf=5).fit(X, Y).forest)


@pytest.mark.parametrize(("arity", "max_leaf"), [(2, 7), (3, 4), (4, 1), (8, 2), (64, 100), (100, 3), (128, 1)])
def test_every_label_with_positives_is_in_every_tree_once(arity, max_leaf):
    X, Y = oracles.planted(100, 30, 50)
    tree = LabelTree(n_trees=2, arity=arity, max_leaf=max_leaf).fit(X, Y)
    for plan in tree.forest.plans:
        assert sorted(plan.order) == np.flatnonzero(np.diff(Y.tocsc().indptr)).tolist()
        assert np.diff(plan.bounds[-1]).max() <= max_leaf
        for level in range(plan.depth - 1):
            assert np.diff(plan.child_ptr(level)).max() <= arity
            assert set(plan.bounds[level]) <= set(plan.bounds[level + 1])
        assert plan.bounds[0].tolist() == [0, len(plan.order)]


def test_the_embedding_decides_who_is_together():
    X, Y = oracles.planted(200, 40, 16)
    side = np.arange(16) % 2
    embedding = sp.csr_matrix(np.eye(2, dtype=np.float32)[side])
    tree = LabelTree(n_trees=1, arity=2, max_leaf=8).fit(X, Y, embedding)
    (plan,) = tree.forest.plans
    assert plan.bounds[1].tolist() == [0, 8, 16]
    assert len(set(side[plan.order[:8]])) == len(set(side[plan.order[8:]])) == 1


def test_label_scores_weigh_the_positives():
    X, Y = oracles.planted(200, 40, 16)
    scores = Y.copy()
    scores.data[:] = 1.0
    options = {"n_trees": 1, "max_leaf": 16, "tolerance": 1e-3, "max_rounds": 500}
    plain = LabelTree(**options).fit(X, Y)
    assert same_forest(plain.forest, LabelTree(**options).fit(X, Y, None, scores).forest)
    scores.data[:] = 0.01
    light = LabelTree(**options).fit(X, Y, label_scores=scores)
    assert light.predict(X, k=16, beam=99).sum() < 0.6 * plain.predict(X, k=16, beam=99).sum()


def test_labels_without_positives_are_never_predicted():
    X, Y = oracles.planted(100, 30, 20)
    wide = sp.csr_matrix((Y.data, 2 * Y.indices + 1, Y.indptr), shape=(100, 42))
    found = LabelTree(n_trees=2, max_leaf=5, arity=2).fit(X, wide).predict(X, k=42, beam=99)
    assert found.shape == (100, 42)
    assert set(found.indices) == set(wide.indices)


def test_odd_rows_change_nothing_for_the_others():
    """Rows without labels reach no node."""
    X, Y = oracles.planted(100, 30, 20)
    more = sp.vstack([X, X[:7]]).tocsr(), sp.vstack([Y, sp.csr_matrix((7, 20), dtype=np.float32)]).tocsr()
    options = {"n_trees": 1, "max_leaf": 5, "arity": 2}
    assert same_forest(LabelTree(**options).fit(X, Y).forest, LabelTree(**options).fit(*more).forest)


def test_rows_without_features_can_have_labels():
    X, Y = oracles.planted(60, 30, 8)
    X = sp.vstack([sp.csr_matrix((20, 30), dtype=np.float32), X[20:]]).tocsr()
    found = LabelTree(n_trees=1, max_leaf=3, arity=2).fit(X, Y).predict(X, k=3)
    assert np.isfinite(found.data).all()
    assert (np.diff(found.indptr) == 3).all()


@pytest.mark.parametrize("shape", [(0, 5, 4), (6, 0, 4), (6, 5, 0), (6, 5, 4)])
def test_nothing_to_learn_from(shape):
    n_samples, n_features, n_labels = shape
    X = sp.csr_matrix((n_samples, n_features), dtype=np.float32)
    tree = LabelTree(n_trees=2).fit(X, sp.csr_matrix((n_samples, n_labels), dtype=np.float32))
    found = tree.predict(sp.csr_matrix((3, n_features), dtype=np.float32))
    assert found.shape == (3, n_labels)
    assert found.nnz == 0


def test_one_label():
    X = sp.csr_matrix(np.eye(3, dtype=np.float32))
    tree = LabelTree(n_trees=3).fit(X, sp.csr_matrix(np.ones((3, 1), dtype=np.float32)))
    found = tree.predict(X, k=5)
    assert found.indices.tolist() == [0, 0, 0]
    assert (found.data > 0.9).all()


def test_no_rows_to_predict():
    X, Y = oracles.planted(50, 30, 8)
    assert LabelTree(n_trees=1).fit(X, Y).predict(X[:0]).shape == (0, 8)


def test_lengths_of_rows_count_only_on_request():
    X, Y = oracles.planted(100, 30, 12)
    longer = sp.diags(np.arange(1.0, 101.0)).astype(np.float32) @ X
    longer = sp.csr_matrix(longer.astype(np.float32))
    for normalize, alike in ((True, True), (False, False)):
        tree = LabelTree(n_trees=1, normalize=normalize).fit(X, Y)
        found, expected = tree.predict(longer, k=12).toarray(), tree.predict(X, k=12).toarray()
        assert np.allclose(found, expected, atol=1e-5) == alike


def test_progress_hears_of_all_the_work():
    class Told:
        expected = done = 0

        def expect(self, more):
            self.expected += more

        def advance(self, n=1):
            self.done += n

    X, Y = oracles.planted(100, 30, 40)
    told = Told()
    LabelTree(n_trees=2, max_leaf=10).fit(X, Y, progress=told)
    assert told.expected == told.done > 0


def test_a_bar_shows_it(capsys):
    X, Y = oracles.planted(50, 30, 8)
    with Progress("plain") as progress:
        bar = progress.stage("train", unit="steps")
        LabelTree(n_trees=1).fit(X, Y, progress=bar)
        bar.done()
    assert "train: done, 500 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_trees": 0}, "`n_trees` must be at least 1"),
        ({"arity": 1}, "`arity` must be at least 2"),
        ({"max_leaf": 0}, "`max_leaf` must be at least 1"),
        ({"max_rounds": 0}, "`max_rounds` must be at least 1"),
        ({"cost": 0.0}, "`cost` must be above 0"),
        ({"cost": float("nan")}, "`cost` must be above 0"),
        ({"tolerance": -1.0}, "`tolerance` must be above 0"),
        ({"bias": -1.0}, "`bias` must be at least 0"),
        ({"threshold": float("inf")}, "`threshold` must be at least 0"),
        ({"loss": "hinge"}, "`loss` must be one of squared_hinge, logistic"),
        ({"calibrate": "yes"}, "`calibrate` must be one of isotonic, none"),
        ({"leaf": 5}, "no such option"),
    ],
)
def test_wrong_options_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        LabelTree(**options)


def test_wrong_calls_are_refused(tmp_path):
    X, Y = oracles.planted(30, 20, 6)
    with pytest.raises(ConfigError, match="not trained"):
        LabelTree().predict(X)
    with pytest.raises(ConfigError, match="not trained"):
        LabelTree().save(str(tmp_path / "tree.npz"))
    tree = LabelTree(n_trees=1).fit(X, Y)
    for call in ({"k": 0}, {"beam": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="must be at least 1"):
            tree.predict(X, **call)
    with pytest.raises(DataError, match="do not fit the model"):
        tree.predict(X[:, :10])
    with pytest.raises(DataError, match="label_embedding does not fit"):
        LabelTree().fit(X, Y, X[:3])
    with pytest.raises(DataError, match="do not fit each other"):
        LabelTree().fit(X[:3], Y)
    with pytest.raises(ConfigError, match="threads"):
        LabelTree().fit(X, Y, threads=0)
