"""One door for all trained models: `xpipe.load` gives a Model, which predicts by names and original label numbers.

Holds no algorithm: `trees` and `heads` predict. Holds no files of its own: `run_models` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import entry_rows, row_pointers, sort_rows
from xpipe.stages.predict.run_models import StoredModel, find_model

if TYPE_CHECKING:
    from xpipe.heads import HeadModel
    from xpipe.trees import LabelTree

Ranks = Callable[[sp.csr_matrix, int, int], tuple[np.ndarray, np.ndarray]]


class LabelNames(NamedTuple):
    """numbers: original number of each label of a model. names: by original numbers. given: whether there are any."""

    numbers: np.ndarray
    names: list[str]
    given: bool


class RankedLabels(NamedTuple):
    """The best labels of each row, best first.

    Attributes
    ----------
    labels : numpy.ndarray of int32, shape (n_rows, k)
        Label numbers of the original data, -1 for none.
    scores : numpy.ndarray of float32, shape (n_rows, k)
        Their probabilities, as the model gives them: calibrated, unless it was trained without calibration.
    """

    labels: np.ndarray
    scores: np.ndarray


class Model:
    """A trained model of any kind, from `xpipe.load`.

    Attributes
    ----------
    name : str
        Its name in its run: tree, or the name of a head.
    kind : str
        tree or head.
    n_features : int
        Columns of the rows that it takes.
    labels : list of str
        The name of each label of the original data, by its number; the number itself where the data has no names.
    has_names : bool
        Whether the data has names of labels.
    """

    def __init__(self, stored: StoredModel, n_features: int, labels: LabelNames, ranks: Ranks):
        self.name, self.kind, self.n_features, self.labels = stored.name, stored.kind, n_features, labels.names
        self._stored, self._numbers, self._ranks = stored, labels.numbers, ranks
        self.has_names = labels.given

    def __repr__(self) -> str:
        return f"<Model {self.name}: a {self.kind}, {self.n_features:,} features, {len(self.labels):,} labels>"

    def predict(self, rows: sp.csr_matrix | Sequence[str], k: int = 5, *, threads: int | None = None) -> sp.csr_matrix:
        """The k best labels of each row and their probabilities.

        Parameters
        ----------
        rows : scipy.sparse.csr_matrix of shape (n_rows, n_features), or sequence of str
            Features, or texts where the run was made from texts: they go through its own vectorizer.
        k : int
            Labels per row.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_rows, n_labels), float32
            Probabilities of the best labels. Columns are the label numbers of the original data: those of `labels`.

        Raises
        ------
        DataError
            The rows are wrong, or have another number of features than the model.
        ConfigError
            An option is out of range, or texts are given to a model that was made from matrices.
        """
        found = self.rank(rows, k, threads=threads)
        there = found.labels >= 0
        triple = to_triple(sp.csr_matrix((0, len(self.labels)), dtype=np.float32))._replace(
            indptr=row_pointers(there.sum(axis=1)), indices=found.labels[there], values=found.scores[there]
        )
        return to_matrix(sort_rows(triple), len(self.labels))

    def rank(self, rows: sp.csr_matrix | Sequence[str], k: int = 5, *, threads: int | None = None) -> RankedLabels:
        """The k best labels of each row, best first, as arrays; parameters and errors as in `predict`."""
        if k < 1:
            raise ConfigError(f"`k` must be at least 1, got {k}")
        X = self.features_of(rows)
        labels, scores = self._ranks(X, k, check_threads(threads))
        original = np.where(labels >= 0, self._numbers[np.maximum(labels, 0)], -1) if len(self._numbers) else labels
        return RankedLabels(original.astype(np.int32), scores.astype(np.float32))

    def best(self, rows: sp.csr_matrix | Sequence[str], k: int = 5) -> list[list[tuple[str, float]]]:
        """The k best labels of each row by name, each with its probability, best first; errors as in `predict`."""
        found = self.rank(rows, k)
        return [
            [(self.labels[label], score) for label, score in zip(labels, scores, strict=True) if label >= 0]
            for labels, scores in zip(found.labels.tolist(), found.scores.tolist(), strict=True)
        ]

    def features_of(self, rows: sp.csr_matrix | Sequence[str]) -> sp.csr_matrix:
        """The rows as a checked matrix of features; texts go through the vectorizer of the run."""
        if not sp.issparse(rows):
            rows = vectorize_texts(rows, self._stored.vectorizer, self.name)
        X = canonical(rows, "rows")
        check_features(X.shape[1], self.n_features, self.name)
        return X


def load(place: str, model: str | None = None) -> Model:
    """Load a trained model: of a run, or from a file or folder of its own.

    Parameters
    ----------
    place : str
        A run (its folder, or its name below runs/), the file of a tree (`models/tree.npz`), or the folder of a head
        (`models/NAME`). A path or a URL.
    model : str, optional
        Which model, where a run has several.

    Returns
    -------
    Model
        Trees and heads alike: `predict`, `rank`, `best`, and the names of the labels.

    Raises
    ------
    ConfigError
        There is no such run, it has not finished, has no such model, or several and none is named.
    DataError
        A file is damaged, or is no model.

    Examples
    --------
    >>> import os, tempfile
    >>> import scipy.sparse as sp
    >>> import xpipe
    >>> X = sp.eye(4, format="csr")
    >>> path = os.path.join(tempfile.mkdtemp(), "tree.npz")
    >>> xpipe.trees.LabelTree(n_trees=1, seed=0).fit(X, X).save(path)
    >>> model = xpipe.load(path)
    >>> model
    <Model tree: a tree, 4 features, 4 labels>
    >>> model.predict(X, k=1).indices.tolist()
    [0, 1, 2, 3]
    """
    return open_model(find_model(place, model))


def open_model(stored: StoredModel) -> Model:
    """Read a model from its files. Raises DataError where they are damaged, or do not fit each other."""
    if stored.kind == "tree":
        from xpipe.trees import LabelTree

        tree = LabelTree.load(stored.path)
        assert tree.forest is not None  # a loaded tree has one
        width, n_labels, ranks = tree.forest.n_features, tree.forest.n_labels, _tree_ranks(tree)
        if stored.dataset is None and tree.forest.names is not None:  # a tree that was fitted to names
            own = LabelNames(np.arange(n_labels, dtype=np.int32), [str(name) for name in tree.classes_], True)
            return Model(stored, width, own, ranks)
    else:
        from xpipe.heads import HeadModel

        head = HeadModel.load(stored.path)
        width, n_labels, ranks = head.encoder.n_features, head.head.n_labels, _head_ranks(head)
    return Model(stored, width, _labels_of(stored, n_labels), ranks)


def _labels_of(stored: StoredModel, n_labels: int) -> LabelNames:
    """The labels of a model, which knows them by its own numbers."""
    if stored.dataset is None:
        return LabelNames(np.arange(n_labels, dtype=np.int32), [str(label) for label in range(n_labels)], False)
    from xpipe.formats.emitted import read_about, read_label_table

    table = read_label_table(stored.dataset)
    if len(table.original) != n_labels:
        raise DataError(
            f"the model {stored.name} is not of this dataset", where=stored.dataset,
            why=f"it predicts {n_labels:,} labels, the dataset has {len(table.original):,}",
            fix="give the same `xpipe run` again: both are laid out anew",
        )  # fmt: skip
    highest = int(table.original.max(initial=-1)) + 1
    names = [str(label) for label in range(max(read_about(stored.dataset).get("n_original_labels", 0), highest))]
    for label, name in zip(table.original.tolist(), table.names or (), strict=False):
        names[label] = name if name is not None else names[label]
    return LabelNames(table.original, names, table.names is not None)


def _tree_ranks(tree: LabelTree) -> Ranks:
    """Ranked labels of a forest: by probability, then by label."""

    def ranks(X: sp.csr_matrix, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        found = to_triple(tree.predict(X, k=k, threads=threads))
        rows = entry_rows(found.indptr)
        order = np.lexsort((found.indices, -found.values, rows))
        places = np.arange(len(order)) - found.indptr[rows]
        labels, scores = np.full((X.shape[0], k), -1, np.int32), np.zeros((X.shape[0], k), np.float32)
        labels[rows, places], scores[rows, places] = found.indices[order], found.values[order]
        return labels, scores

    return ranks


def _head_ranks(head: HeadModel) -> Ranks:
    """Ranked labels of a head: by logit, because probabilities may round to the same number."""

    def ranks(X: sp.csr_matrix, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        from xpipe.heads import matrix_batches
        from xpipe.heads.device import fixed_threads

        with fixed_threads(1):  # more threads would add up in another order
            found = head.rank(matrix_batches(X), k)
        if not X.shape[0]:
            return np.full((0, k), -1, np.int32), np.zeros((0, k), np.float32)
        return found.labels, found.probabilities

    return ranks


def vectorize_texts(texts: Sequence[str], vectorizer: str | None, name: str) -> sp.csr_matrix:
    """Texts as rows, by the vectorizer of a run. Raises ConfigError where the run has none."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(
            "rows must be a scipy sparse matrix, or a sequence of texts", why=f"got {type(texts).__name__}",
            fix="one text: model.predict([text]); an array: scipy.sparse.csr_matrix(array)",
        )  # fmt: skip
    if vectorizer is None:
        raise ConfigError(
            f"the model {name} takes rows of features, not texts", why="its run was made from matrices, not from texts",
            fix="give a scipy sparse matrix with the features that it was trained on",
        )  # fmt: skip
    from xpipe.text import TableVectorizer

    loaded = TableVectorizer.load(vectorizer)
    if loaded.texts is None or loaded.columns.names():
        raise ConfigError(
            f"the model {name} takes rows of a table, not texts alone", why="its features come from columns, too",
            fix="xpipe predict RUN TABLE, which reads the columns as the run did",
        )  # fmt: skip
    return loaded.transform(texts)


def check_features(found: int, wanted: int, name: str, where: str | None = None) -> None:
    """Raise DataError unless rows have as many features as the model."""
    if found != wanted:
        raise DataError(
            "the rows do not fit the model", where=where,
            why=f"they have {found:,} features, the model {name} was trained on {wanted:,}",
            fix="make the rows the same way as those of its run",
        )  # fmt: skip
