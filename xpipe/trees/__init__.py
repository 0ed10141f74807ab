"""Label trees: a forest of Parabel's trees, trained on sparse rows and searched with a beam.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use.

    tree = LabelTree(n_trees=3, seed=0).fit(X, Y)
    scores = tree.predict(X_test, k=5)      # CSR of probabilities
    tree.save("tree.npz");  tree = LabelTree.load("tree.npz")

`fit` trains in threads of this process. To spread the work over many machines, call what it calls:

    options = TreeOptions(n_trees=3, seed=0)
    data    = prepare_data(X, Y, label_scores)              # checked, labels transposed
    plans   = plan_forest(data, label_embedding, options)   # small: the order of the labels and where nodes begin
    units   = [(plan, unit) for plan in plans for unit in plan.units()]
    costs   = [unit_costs(data, plan) for plan in plans]    # how long each takes, about: for chunks of equal cost
    folds   = hold_out(data, options)                       # rows that calibrate the forest
    found   = [train_unit_without(data, plan, unit, options, folds) for plan, unit in units]  # in any order, anywhere
    forest  = make_calibrated(data, plans, found, folds, options, threads=1)  # `found` in the order of `units`
    tree    = LabelTree.of(forest, options)

A unit is some children of one node. It needs the rows that reach its node and their labels, nothing of other units:
`prepare_data(X[rows], Y[rows], ...)` with `rows` ascending and every row among them that has a label below the node
(`unit_rows(...).rows`, or more) gives the same bytes as the whole data. All units below one node are a subtree, and
need the rows of that node only. Where very many rows reach a node, it is trained in parts (`row_parts`), which can be
spread as well. UnitWeights and TreePlan are plain arrays, fit for a file.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

OLD_NAMES = {"state_data": "prepare_data"}

__getattr__, __dir__, __all__ = public_names(__name__, __file__, OLD_NAMES)
