"""LabelTree: train a forest of label trees in this process, predict with it, keep it in a file.

Holds no arithmetic: plans are in `planning`, classifiers in `training`, beam search in `prediction`, probabilities in
`calibration`, files in `storing`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, Unpack

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, to_triple
from xpipe.trees.calibration import hold_out, make_calibrated
from xpipe.trees.forest import Forest
from xpipe.trees.options import BEAM, OptionValues, TreeOptions
from xpipe.trees.planning import plan_forest
from xpipe.trees.prediction import predict_rows
from xpipe.trees.training import UnitWeights, train_unit_without, unit_costs
from xpipe.trees.training_data import prepare_data, row_scales


class Bar(Protocol):
    """What `fit` reports its progress to, for example a bar of `xpipe.cli.progress`."""

    def expect(self, more: int) -> None:
        """Add work to come."""

    def advance(self, n: int = 1) -> None:
        """Report work that is done."""


class LabelTree:
    """Parabel's label trees: similar labels together, and a linear classifier for every child and label.

    Parameters
    ----------
    **options
        Those of `TreeOptions`, for example n_trees, arity and seed; arity=2 is the paper's tree.

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
    """

    def __init__(self, **options: Unpack[OptionValues]):
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
        """Train the forest.

        Parameters
        ----------
        X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
            Features.
        Y : scipy.sparse.csr_matrix of shape (n_samples, n_labels)
            Labels; entries that are not 0 are positives.
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
        threads = check_threads(threads)
        data = prepare_data(X, Y, label_scores, normalize=self.options.normalize)
        plans = plan_forest(data, label_embedding, self.options, threads)
        tasks = [
            (plan, unit, cost)
            for plan in plans
            for unit, cost in zip(plan.units(), unit_costs(data, plan), strict=True)
        ]
        if progress is not None:
            progress.expect(sum(cost for _, _, cost in tasks))
        folds = hold_out(data, self.options)
        found: list[tuple[UnitWeights, ...]] = [()] * len(tasks)

        def work(number: int) -> None:
            plan, unit, cost = tasks[number]
            found[number] = train_unit_without(data, plan, unit, self.options, folds)
            if progress is not None:
                progress.advance(cost)

        with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-trees") as pool:
            # long units first, so that no thread is left alone with one at the end
            list(pool.map(work, sorted(range(len(tasks)), key=lambda number: -tasks[number][2])))
        self.forest = make_calibrated(data, plans, found, folds, self.options, threads)
        return self

    def predict(self, X: sp.csr_matrix, k: int = 5, beam: int = BEAM, *, threads: int | None = None) -> sp.csr_matrix:
        """The k best labels of each row and their probabilities.

        Parameters
        ----------
        X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
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
        found = predict_rows(self.forest, X, scales, k, beam, check_threads(threads))
        if self.forest.calibration is not None:
            found.data = self.forest.calibration.apply_rows(found.indptr, found.data)
        return found

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

        if self.forest is None:
            raise ConfigError("the tree is not trained", fix="call fit first, or load a model")
        write_forest(path, self.forest, self.options)

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
        tree = cls()
        tree.forest, tree.options = forest, options
        return tree


def _names() -> list[str]:
    """The names of all options."""
    return list(TreeOptions.__dataclass_fields__)
