"""LabelTree: fit a forest of label trees in this process, predict with it, keep it in a file.

Holds no arithmetic: plans are `planning`, classifiers `training`, beam search `prediction`, files `storing`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, to_triple
from xpipe.trees.forest import Forest, join_units
from xpipe.trees.options import TreeOptions
from xpipe.trees.planning import TreePlan, label_vectors, plan_tree
from xpipe.trees.prediction import predict_rows
from xpipe.trees.training import TrainingData, UnitWeights, row_scales, state_data, train_unit, unit_costs


class Bar(Protocol):
    """What `fit` tells its progress to: a stage of `xpipe.cli.progress`, whose rate gives the time left."""

    def expect(self, more: int) -> None: ...

    def advance(self, n: int = 1) -> None: ...


class LabelTree:
    """Parabel's label trees: labels that look alike together, a linear classifier at every child and label.

    Options are those of `TreeOptions`: LabelTree(n_trees=3, arity=64, seed=0); arity=2 is the paper's tree.
    """

    def __init__(self, **options: Any):
        try:
            self.options = TreeOptions(**options)
        except TypeError as error:
            raise ConfigError("LabelTree has no such option", why=str(error), fix=", ".join(_names())) from error
        self.forest: Forest | None = None

    def fit(
        self,
        X: sp.csr_matrix,
        Y: sp.csr_matrix,
        label_embedding: sp.csr_matrix | None = None,
        label_scores: sp.csr_matrix | None = None,
        *,
        threads: int | None = None,
        progress: Bar | None = None,
    ) -> LabelTree:
        """Train the forest; gives itself.

        X: samples x features. Y: samples x labels; entries that are not zero are positives. label_embedding: labels x
        any features; labels are clustered by it, by default by the sum of their unit rows. label_scores: same entries
        as Y, values >= 0; how much each positive counts. threads: default one a usable core; it changes no byte.
        progress: hears of the work to come and of the work done.

        Raises DataError where a matrix is wrong or does not fit the others.
        """
        threads = check_threads(threads)
        data = state_data(X, Y, label_scores, normalize=self.options.normalize)
        plans = plan_forest(data, label_embedding, self.options, threads)
        tasks = [
            (plan, unit, cost)
            for plan in plans
            for unit, cost in zip(plan.units(), unit_costs(data, plan), strict=True)
        ]
        if progress is not None:
            progress.expect(sum(cost for _, _, cost in tasks))
        found: list[UnitWeights | None] = [None] * len(tasks)

        def work(number: int) -> None:
            plan, unit, cost = tasks[number]
            found[number] = train_unit(data, plan, unit, self.options)
            if progress is not None:
                progress.advance(cost)

        with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
            # the long ones first: no thread is left alone with one at the end
            list(pool.map(work, sorted(range(len(tasks)), key=lambda number: -tasks[number][2])))
        self.forest = make_forest(data, plans, [unit for unit in found if unit is not None], self.options)
        return self

    def predict(self, X: sp.csr_matrix, k: int = 5, beam: int = 10, *, threads: int | None = None) -> sp.csr_matrix:
        """The k best labels of each row and their probabilities: CSR, rows x labels, float32, indices ascending.

        beam: nodes of a level that are followed; as wide as the tree, the search is exhaustive. A row has fewer than k
        entries where its beam reaches fewer labels. Labels without positives in training are never predicted.
        Ties go to the smaller label. Neither other rows nor `threads` change a row's bytes.
        """
        if self.forest is None:
            raise ConfigError("the tree is not trained", fix="call fit first, or load a model")
        for name, number in {"k": k, "beam": beam}.items():
            if number < 1:
                raise ConfigError(f"`{name}` must be at least 1, got {number}")
        X = canonical(X, "features (X)")
        if X.shape[1] != self.forest.n_features:
            raise DataError(
                "the features do not fit the model",
                why=f"they have {X.shape[1]:,} columns, the model was trained on {self.forest.n_features:,}",
            )
        scales = row_scales(to_triple(X)) if self.forest.normalize else np.ones(X.shape[0], dtype=np.float32)
        return predict_rows(self.forest, X, scales, k, beam, check_threads(threads))

    def save(self, path: str) -> None:
        """Write the trained forest to one npz file; the same forest gives the same bytes."""
        from xpipe.trees.storing import write_forest

        if self.forest is None:
            raise ConfigError("the tree is not trained", fix="call fit first, or load a model")
        write_forest(path, self.forest, self.options)

    @classmethod
    def load(cls, path: str) -> LabelTree:
        """A saved forest; it predicts the same bytes. Raises DataError for a file that is damaged or something else."""
        from xpipe.trees.storing import read_forest

        return cls.of(*read_forest(path))

    @classmethod
    def of(cls, forest: Forest, options: TreeOptions) -> LabelTree:
        """A forest that was trained unit by unit."""
        tree = cls()
        tree.forest, tree.options = forest, options
        return tree


def plan_forest(
    data: TrainingData, label_embedding: sp.csr_matrix | None, options: TreeOptions, threads: int | None = None
) -> tuple[TreePlan, ...]:
    """The plans of all trees; none where no label has positives."""
    labels = data.labels
    if label_embedding is None:
        vectors = label_vectors(data.X, data.n_features, data.scales, data.label_rows[labels])
    else:
        vectors = canonical(label_embedding, "label_embedding")
        if vectors.shape[0] != data.n_labels:
            raise DataError(
                "label_embedding does not fit the labels",
                why=f"it has {vectors.shape[0]:,} rows, the labels (Y) {data.n_labels:,} columns",
            )
        vectors = vectors[labels]
    return tuple(
        plan_tree(vectors, labels, tree, options.arity, options.max_leaf, options.seed, threads)
        for tree in range(options.n_trees if len(labels) else 0)
    )


def make_forest(
    data: TrainingData, plans: tuple[TreePlan, ...], units: list[UnitWeights], options: TreeOptions
) -> Forest:
    """The forest of plans and their trained units, which are in the order of the plans and of `TreePlan.units`."""
    return Forest(data.n_features, data.n_labels, options.loss, options.normalize, plans, join_units(units))


def _names() -> list[str]:
    return list(TreeOptions.__dataclass_fields__)
