"""A backend `xpipe` for Annif: a project with `backend=xpipe` trains and asks a label tree. Needs Annif.

Holds no algorithm: the tree is `xpipe.trees`, the vectorizer `xpipe.text`. Importing this module registers the backend;
`export ANNIF_CONFIG=xpipe.integrations.annif.Config` makes Annif import it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import annif.backend
import annif.default_config
import annif.util
import numpy as np
import scipy.sparse as sp
from annif.analyzer.analyzer import Analyzer
from annif.backend.backend import AnnifBackend
from annif.exception import ConfigurationException, NotInitializedException, NotSupportedException
from annif.suggestion import SuggestionBatch

from xpipe.errors import XpipeError
from xpipe.formats import npz
from xpipe.ground.sparse import Triple, to_matrix
from xpipe.ground.sparse_rows import row_pointers, sort_rows
from xpipe.text import Vectorizer
from xpipe.trees import LabelTree, TreeOptions

WORD = re.compile(r"\w+")


class XpipeBackend(AnnifBackend):  # type: ignore[misc]  # Annif has no types
    """Label trees on tf-idf rows. Words are made by the analyzer of the project, once per distinct word.

    Parameters of a project: min_df, ngram and beam, and every field of `xpipe.trees.TreeOptions`.
    """

    name = "xpipe"
    MODEL_FILE, VECTORIZER_FOLDER = "xpipe-tree.npz", "xpipe-vectorizer"
    TRAIN_FILES = ("xpipe-train-features.npz", "xpipe-train-labels.npz")  # for `annif train --cached`
    DEFAULT_PARAMETERS = {"min_df": 1, "ngram": 1, "sublinear": True, "beam": 10, **dataclasses.asdict(TreeOptions())}

    _tree: LabelTree | None = None
    _vectorizer: Vectorizer | None = None
    _words: Words | None = None
    _threads: int | None = None

    def initialize(self, parallel: bool = False) -> None:
        """Load the model; in parallel use, every process gets one thread."""
        if parallel:
            self._threads = 1
        if self._tree is None or self._vectorizer is None:
            for name in (self.MODEL_FILE, self.VECTORIZER_FOLDER):
                if not os.path.exists(self._path(name)):
                    raise NotInitializedException(f"{self._path(name)} not found", backend_id=self.backend_id)
            try:
                self._vectorizer = Vectorizer.load(self._path(self.VECTORIZER_FOLDER))
                self._tree = LabelTree.load(self._path(self.MODEL_FILE))
            except XpipeError as error:
                raise NotInitializedException(str(error), backend_id=self.backend_id) from error

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        """Train on a corpus, or on "cached": the rows of the last training."""
        threads = jobs or None
        try:
            tree = LabelTree(**_tree_options(params))
            if corpus == "cached":
                self.info("reusing the rows of the last training")
                X, Y = (npz.read_npz(self._path(name)) for name in self.TRAIN_FILES)
                self._vectorizer = Vectorizer.load(self._path(self.VECTORIZER_FOLDER))
            else:
                if corpus.is_empty():
                    raise NotSupportedException("Cannot train xpipe project with no documents")
                X, Y = self._vectorize(corpus, params, threads)
            self.info(f"training {tree} on {X.shape[0]:,} documents")
            tree.fit(X, Y, threads=threads).save(self._path(self.MODEL_FILE))
        except (XpipeError, ValueError) as error:
            raise ConfigurationException(str(error), backend_id=self.backend_id) from error
        self._tree = tree

    def _vectorize(
        self, corpus: Any, params: dict[str, Any], threads: int | None
    ) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(features, labels) of a corpus; both are kept for `--cached`, with the vectorizer."""
        self.info("vectorizing the documents")
        subjects: list[list[int]] = []

        def texts() -> Iterator[str]:
            for document in corpus.documents:
                subjects.append(list(document.subject_set))
                yield document.text

        vectorizer = Vectorizer(
            min_df=int(params["min_df"]), ngrams=(1, int(params["ngram"])), lowercase=False,
            sublinear=annif.util.boolean(params["sublinear"]),
        )  # fmt: skip
        X = vectorizer.fit_transform(self._analyzed(texts()), threads=threads)
        labels = np.array([label for row in subjects for label in row], dtype=np.int32)
        pointers = row_pointers([len(row) for row in subjects])
        rows = sort_rows(Triple(pointers, labels, np.ones(len(labels), dtype=np.float32)))
        Y = to_matrix(rows, len(self.project.subjects))
        os.makedirs(self.datadir, exist_ok=True)
        vectorizer.save(self._path(self.VECTORIZER_FOLDER))
        for name, matrix in zip(self.TRAIN_FILES, (X, Y), strict=True):
            npz.write_matrix(self._path(name), matrix)
        self._vectorizer = vectorizer
        return X, Y

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> SuggestionBatch:
        """The `limit` best subjects of each document. A document without known words has none."""
        assert self._tree is not None  # initialize has loaded both
        assert self._vectorizer is not None
        X = self._vectorizer.transform(self._analyzed(doc.text for doc in documents), threads=self._threads)
        filled = np.flatnonzero(np.diff(X.indptr))
        found = self._tree.predict(X[filled], int(params["limit"]), int(params["beam"]), threads=self._threads)
        lengths = np.zeros(len(documents), dtype=np.int64)
        lengths[filled] = np.diff(found.indptr)
        shape = (len(documents), len(self.project.subjects))  # subjects may have come since the training
        return SuggestionBatch(sp.csr_array((found.data, found.indices, row_pointers(lengths)), shape=shape))

    def _analyzed(self, texts: Iterable[str]) -> Iterator[str]:
        """Texts of the words that the analyzer of the project makes."""
        if self._words is None:
            self._words = Words(self.project.analyzer)
        return map(self._words.of, texts)

    def _path(self, name: str) -> str:
        """The path of a file of the model."""
        return os.path.join(self.datadir, name)


class Words(dict[str, str]):
    """What an analyzer makes of each word, asked once per distinct word; empty for words that it leaves out.

    An analyzer that needs whole sentences is asked for every text.
    """

    def __init__(self, analyzer: Any):
        super().__init__()
        self.analyzer = analyzer
        self.by_word = type(analyzer).tokenize_words is Analyzer.tokenize_words

    def of(self, text: str) -> str:
        """The words of a text, with spaces between them."""
        if self.by_word:
            return " ".join(map(self.__getitem__, WORD.findall(text)))
        return " ".join(self.analyzer.tokenize_words(text))

    def __missing__(self, word: str) -> str:
        found = str(self.analyzer._normalize_word(word)) if self.analyzer.is_valid_token(word) else ""
        self[word] = found
        return found


class Config(annif.default_config.Config):  # type: ignore[misc]
    """Annif's own configuration; naming it in ANNIF_CONFIG imports this module. Servers load all projects first."""

    INITIALIZE_PROJECTS = os.environ.get("FLASK_RUN_FROM_CLI") != "true"


def _tree_options(params: dict[str, Any]) -> dict[str, Any]:
    """Options of a tree from the words of a project's section. Raises ValueError for a word that is no number."""
    found: dict[str, Any] = {}
    for name, default in dataclasses.asdict(TreeOptions()).items():
        kind = annif.util.boolean if isinstance(default, bool) else type(default)
        try:
            found[name] = kind(params[name])
        except ValueError as error:
            raise ValueError(f"`{name}` must be {type(default).__name__}, got {params[name]!r}") from error
    return found


annif.backend._backend_fns[XpipeBackend.name] = lambda: XpipeBackend
