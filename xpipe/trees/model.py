"""LabelTree: train a forest of label trees in this process, predict with it, keep it in a file.

Holds no arithmetic: plans are in `planning`, classifiers in `training`, beam search in `prediction`, probabilities in
`calibration`, files in `storing`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Never, Protocol

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.ground.close_match import did_you_mean
from xpipe.ground.estimator import Estimator, not_fitted
from xpipe.ground.given_features import as_features, check_width
from xpipe.ground.given_labels import as_labels
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, to_triple
from xpipe.ground.sparse_rows import entry_rows
from xpipe.trees.calibration import hold_out, make_calibrated
from xpipe.trees.forest import Forest
from xpipe.trees.options import BEAM, Calibrate, Loss, TreeOptions
from xpipe.trees.planning import plan_forest
from xpipe.trees.prediction import predict_rows
from xpipe.trees.row_parts import UnitWeights, parts_of_units
from xpipe.trees.training import mean_of_units, train_part, unit_costs
from xpipe.trees.training_data import prepare_data, row_scales


class Bar(Protocol):
    """What `fit` reports its progress to, for example a bar of `xpipe.cli.progress`."""

    def expect(self, more: int) -> None:
        """Add work to come."""

    def advance(self, n: int = 1) -> None:
        """Report work that is done."""


class LabelTree(Estimator):
    """Parabel's label trees: similar labels together, and a linear classifier for every child and label.

    An estimator for scikit-learn, too: it is cloned, tuned and put into a `Pipeline` as any other.

    Parameters
    ----------
    n_trees, arity, max_leaf, loss, cost, bias, tolerance, max_rounds, threshold, normalize, seed, calibrate
        As in `TreeOptions`; arity=2 is the paper's tree.

    Raises
    ------
    ConfigError
        There is no such option, or it is out of range.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.trees import LabelTree
    >>> X = Y = sp.eye(4, format="csr")
    >>> LabelTree(n_trees=1, seed=0).fit(X, Y).predict(X, k=1).indices.tolist()
    [0, 1, 2, 3]

    Labels by names, rows as an array:

    >>> tree = LabelTree(n_trees=1).fit([[1, 0], [0, 1], [1, 0]], [["soup"], ["bread"], ["soup"]])
    >>> tree
    LabelTree(n_trees=1)
    >>> [[name for name, _ in row] for row in tree.named(tree.predict([[0, 1], [1, 0]], k=1))]
    [['bread'], ['soup']]
    """

    _forest: Forest | None = None
    _trained_with: TreeOptions | None = None

    def __init__(
        self,
        *,
        n_trees: int = TreeOptions.n_trees,
        arity: int = TreeOptions.arity,
        max_leaf: int = TreeOptions.max_leaf,
        loss: Loss = TreeOptions.loss,
        cost: float = TreeOptions.cost,
        bias: float = TreeOptions.bias,
        tolerance: float = TreeOptions.tolerance,
        max_rounds: int = TreeOptions.max_rounds,
        threshold: float = TreeOptions.threshold,
        normalize: bool = TreeOptions.normalize,
        seed: int = TreeOptions.seed,
        calibrate: Calibrate = TreeOptions.calibrate,
        **unknown: Never,
    ):
        for name in unknown:
            hint = did_you_mean(name, _names()) or ", ".join(_names())
            raise ConfigError("LabelTree has no such option", why=f"there is no `{name}`", fix=hint)
        self.n_trees, self.arity, self.max_leaf, self.loss = n_trees, arity, max_leaf, loss
        self.cost, self.bias, self.tolerance, self.max_rounds = cost, bias, tolerance, max_rounds
        self.threshold, self.normalize, self.seed, self.calibrate = threshold, normalize, seed, calibrate
        _ = self.options  # raises for one that is out of range

    @property
    def options(self) -> TreeOptions:
        """All parameters, checked. Raises ConfigError where one is out of range."""
        try:
            return TreeOptions(**self.get_params())
        except TypeError as error:
            raise ConfigError("an option of LabelTree has a wrong type", why=str(error)) from error

    @property
    def forest(self) -> Forest | None:
        """The trained forest; None before `fit`."""
        return self._forest

    @property
    def classes_(self) -> np.ndarray:
        """The label of each column of a prediction. Raises ConfigError if the tree is not trained."""
        forest = self._trained()
        return np.arange(forest.n_labels) if forest.names is None else forest.names

    @property
    def n_features_in_(self) -> int:
        """The columns of the features it was fitted to; no such attribute before `fit`."""
        if self._forest is None:
            raise AttributeError("the tree is not trained: n_features_in_ is not known")
        return self._forest.n_features

    def fit(
        self,
        X: Any,
        Y: Any,
        label_embedding: sp.csr_matrix | None = None,
        label_scores: sp.csr_matrix | None = None,
        *,
        threads: int | None = None,
        progress: Bar | None = None,
    ) -> LabelTree:
        """Train the forest.

        Parameters
        ----------
        X : scipy sparse matrix or array, array_like or frame, of shape (n_samples, n_features)
            Features. Frames are those of pandas and polars.
        Y : scipy sparse matrix or array, array_like or frame, of shape (n_samples, n_labels), or lists of labels
            Labels; entries that are not 0 are positives. Or one list of names (or whole numbers) per sample: they
            become `classes_`, ascending.
        label_embedding : scipy.sparse.csr_matrix of shape (n_labels, any), optional
            Labels are clustered by these vectors, by default by the sum of their unit rows.
        label_scores : scipy.sparse.csr_matrix of shape (n_samples, n_labels), optional
            The chance that each positive is one, as imputed labels have it; the same stored entries as Y. A positive
            with a chance below 1 counts less, and as a negative as far as the row has other labels.
        threads : int, optional
            By default one per usable core. It changes no byte.
        progress : Bar, optional
            Hears of the work to come and of the work done.

        Returns
        -------
        LabelTree
            Itself.

        Raises
        ------
        DataError
            A matrix is wrong, or does not fit the others.
        """
        threads, options = check_threads(threads), self.options
        X, labels = as_features(X), as_labels(Y)
        data = prepare_data(X, labels.matrix, label_scores, normalize=options.normalize)
        plans = plan_forest(data, label_embedding, options, threads)
        tasks = [
            (plan, unit, part, cost // part.of)
            for plan in plans
            for unit, cost, parts in zip(
                plan.units(), unit_costs(data, plan), parts_of_units(data.label_rows, plan), strict=True
            )
            for part in parts
        ]
        if progress is not None:
            progress.expect(sum(cost for *_, cost in tasks))
        folds = hold_out(data, options)
        found: list[tuple[UnitWeights, ...]] = [()] * len(tasks)

        def work(number: int) -> None:
            plan, unit, part, cost = tasks[number]
            found[number] = train_part(data, plan, unit, options, folds, part)
            if progress is not None:
                progress.advance(cost)

        with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
            # long units first, so that no thread is left alone with one at the end
            list(pool.map(work, sorted(range(len(tasks)), key=lambda number: -tasks[number][-1])))
        units = [
            mean_of_units(found[last + 1 - part.of : last + 1], unit, data.n_features, options)
            for last, (_, unit, part, _) in enumerate(tasks)
            if part.number == part.of - 1
        ]
        forest = make_calibrated(data, plans, units, folds, options, threads)
        self._forest, self._trained_with = replace(forest, names=labels.names), options
        return self

    def predict(self, X: Any, k: int = 5, beam: int = BEAM, *, threads: int | None = None) -> sp.csr_matrix:
        """The k best labels of each row and their probabilities.

        Parameters
        ----------
        X : scipy sparse matrix or array, array_like or frame, of shape (n_rows, n_features)
            Features.
        k : int
            Labels per row. A row has fewer where its beam reaches fewer labels.
        beam : int
            Nodes of a level that are followed. With a beam as wide as the tree, the search is exhaustive.
        threads : int, optional
            By default one per usable core. Neither this nor the other rows change a row's bytes.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_rows, n_labels)
            Probabilities, float32, indices ascending: calibrated ones, unless the option `calibrate` is "none". Labels
            without positives in training are never predicted. Of equal probabilities the smaller label wins.

        Raises
        ------
        ConfigError
            The tree is not trained, or k or beam is below 1.
        DataError
            X is wrong, or has another number of columns than the model.
        """
        forest = self._trained()
        for name, number in {"k": k, "beam": beam}.items():
            if number < 1:
                raise ConfigError(f"`{name}` must be at least 1, got {number}")
        X = as_features(X)
        check_width(X.shape[1], forest.n_features, "LabelTree")
        scales = row_scales(to_triple(X)) if forest.normalize else np.ones(X.shape[0], dtype=np.float32)
        found = predict_rows(forest, X, scales, k, beam, check_threads(threads))
        if forest.calibration is not None:
            found.data = forest.calibration.apply_rows(found.indptr, found.data)
        return found

    def named(self, scores: sp.csr_matrix) -> list[list[tuple[Any, float]]]:
        """The labels of a prediction as names, best first.

        Parameters
        ----------
        scores : scipy.sparse.csr_matrix of shape (n_rows, n_labels)
            What `predict` returned, maybe that of a `Pipeline`.

        Returns
        -------
        list of lists of (label, probability)
            One list per row. A label is its name, or its number where the labels have no names.

        Raises
        ------
        ConfigError
            The tree is not trained.
        """
        found, labels = to_triple(canonical(scores, "scores")), self.classes_
        order = np.lexsort((found.indices, -found.values, entry_rows(found.indptr)))
        pairs = list(zip(labels[found.indices[order]].tolist(), found.values[order].tolist(), strict=True))
        return [pairs[first:last] for first, last in pairwise(found.indptr.tolist())]

    def save(self, path: str) -> None:
        """Write the trained forest to one npz file. The same forest gives the same bytes.

        Parameters
        ----------
        path : str
            The file: a path or a URL.

        Raises
        ------
        ConfigError
            The tree is not trained.
        """
        from xpipe.trees.storing import write_forest

        write_forest(path, self._trained(), self._trained_with or self.options)

    @classmethod
    def load(cls, path: str) -> LabelTree:
        """Read a saved forest, which predicts the same bytes.

        Parameters
        ----------
        path : str
            A file that `save` wrote.

        Returns
        -------
        LabelTree
            The trained forest.

        Raises
        ------
        DataError
            The file is damaged, or is no saved forest.
        """
        from xpipe.trees.storing import read_forest

        return cls.of(*read_forest(path))

    @classmethod
    def of(cls, forest: Forest, options: TreeOptions) -> LabelTree:
        """A tree around a forest that was trained unit by unit.

        Parameters
        ----------
        forest : Forest
            What `make_forest` returned.
        options : TreeOptions
            The options it was trained with.

        Returns
        -------
        LabelTree
            A tree that predicts with this forest.
        """
        tree = cls(**asdict(options))
        tree._forest, tree._trained_with = forest, options
        return tree

    def _trained(self) -> Forest:
        """The forest. Raises ConfigError where there is none, which is scikit-learn's NotFittedError too."""
        if self._forest is None:
            raise not_fitted("the tree is not trained")
        return self._forest

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a forest, as scikit-learn's `check_is_fitted` asks."""
        return self._forest is not None


def _names() -> list[str]:
    """The names of all options."""
    return list(TreeOptions.__dataclass_fields__)
