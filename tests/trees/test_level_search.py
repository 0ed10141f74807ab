"""Beam search unit by unit: the bytes of the search in a whole forest."""

from __future__ import annotations

import random

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.ground.sparse import to_triple
from xpipe.trees import TreeOptions, make_forest, plan_forest, prediction, prepare_data, train_unit
from xpipe.trees._gather_numba import SparseRows
from xpipe.trees.level_search import ScoredUnit, best_labels, first_beams, follow, score_unit
from xpipe.trees.prediction import predict_rows


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize(
    ("arity", "n_trees", "beam", "max_leaf"),
    [(2, 1, 2, 3), (4, 2, 3, 5), (4, 1, 100, 3), (300, 2, 3, 300), (3, 1, 4, 200)],
)
def test_units_in_any_order_give_the_bytes_of_the_whole_search(loss, arity, n_trees, beam, max_leaf):
    n_labels = 40 if max_leaf < 100 else 290  # more children than a unit has
    X = sp.random(120, 60, 0.15, "csr", dtype=np.float32, rng=np.random.default_rng(0))
    Y = sp.random(120, n_labels, 0.05, "csr", dtype=np.float32, rng=np.random.default_rng(1))
    options = TreeOptions(n_trees=n_trees, arity=arity, max_leaf=max_leaf, loss=loss)
    data = prepare_data(X, Y)
    plans = plan_forest(data, None, options)
    learnt = {(plan.tree, unit): train_unit(data, plan, unit, options) for plan in plans for unit in plan.units()}
    forest = make_forest(data, plans, learnt.values(), options)
    rows = SparseRows(*to_triple(X), data.scales)
    beams = first_beams(n_trees, 120)
    for level in range(plans[0].depth):
        wanted = [key for key in learnt if key[1].level == level]
        random.Random(level).shuffle(wanted)
        scored = [
            ScoredUnit(tree, unit, score_unit(rows, 60, beams[tree], unit, learnt[tree, unit], loss))
            for tree, unit in wanted
        ]
        if level < plans[0].depth - 1:
            beams = follow(plans, level, beams, scored, beam)
    found = best_labels(plans, beams, scored, 5, n_labels, beam)
    expected = predict_rows(forest, X, data.scales, 5, beam, 1)
    for name in ("indptr", "indices", "data"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    assert prediction.CHUNK_ROWS > 120  # the whole search has all rows at once, too
