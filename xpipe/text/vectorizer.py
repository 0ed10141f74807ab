"""Vectorizer: texts to rows of tf-idf, with the parameters and results of scikit-learn's TfidfVectorizer.

Holds no arithmetic: terms are counted in `counting`, chosen in `vocabulary`, weighed in `weighting`, kept in `storing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, Unpack

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import to_matrix
from xpipe.text.counting import ChunkTerms, count_texts, find_terms
from xpipe.text.options import OptionValues, VectorizerOptions, make_options
from xpipe.text.storing import plain_options, read_vectorizer, write_vectorizer
from xpipe.text.term_counts import TermCounts, sorted_counts
from xpipe.text.term_table import TermTable
from xpipe.text.vocabulary import Vocabulary, choose_terms, find_columns, make_vocabulary
from xpipe.text.weighting import weigh_terms

Texts: TypeAlias = "Iterable[str] | Iterable[pa.Array] | np.ndarray | pa.Array | pa.ChunkedArray"


class Vectorizer:
    """Texts to CSR rows of tf-idf: scikit-learn's `TfidfVectorizer`, compiled, streamed and mergeable.

    A word is what the regular expression `\\\\b\\\\w\\\\w+\\\\b` finds in the lower case of a text, in all scripts. The
    vocabulary, its order and the values are those of scikit-learn.

    Parameters
    ----------
    **options
        Those of `VectorizerOptions`: min_df, max_df, max_features, ngrams, lowercase, sublinear, stop_words, norm,
        binary, use_idf, smooth_idf. scikit-learn's names ngram_range and sublinear_tf are understood too.

    Raises
    ------
    ConfigError
        There is no such option, it is out of range, or it is given under both names.

    Examples
    --------
    >>> from xpipe.text import Vectorizer
    >>> vectorizer = Vectorizer(min_df=2, norm=None, use_idf=False)
    >>> vectorizer.fit_transform(["An apple, an apple!", "An egg.", "apple egg"]).toarray().tolist()
    [[2.0, 2.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    >>> vectorizer.get_feature_names_out().tolist()
    ['an', 'apple', 'egg']
    """

    def __init__(self, **options: Unpack[OptionValues]):
        self.options: VectorizerOptions = make_options(options)
        self._fitted: Vocabulary | None = None
        self._names: dict[str, int] | None = None
        self._columns: tuple[TermTable, np.ndarray] | None = None

    def fit(self, texts: Texts, *, threads: int | None = None) -> Vectorizer:
        """Choose the vocabulary: `count` and `fit_counts`.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            Read once, chunk by chunk. Texts in pyarrow arrays are used as they lie in memory.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        Vectorizer
            Itself.

        Raises
        ------
        DataError
            A text is null, not a str or not UTF-8, or no text has a word.
        ConfigError
            min_df and max_df leave no term.
        """
        return self.fit_counts(self.count(texts, threads=threads))

    def fit_transform(self, texts: Texts, *, threads: int | None = None) -> sp.csr_matrix:
        """`fit`, and the rows of the same texts, which are read only once.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            As in `fit`. The numbers of their terms are kept until the vocabulary is chosen, not the texts.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_texts, n_terms)
            float32, indices ascending: what `fit(texts).transform(texts)` gives.

        Raises
        ------
        DataError
            A text is null, not a str or not UTF-8, or no text has a word.
        ConfigError
            min_df and max_df leave no term.
        """
        threads = check_threads(threads)
        counted = count_texts(texts, self.options, threads, keep=True)
        counts, terms = sorted_counts(counted.table, counted.n_texts, self.options.terms_key)
        chosen = choose_terms(counts, self.options)
        vocabulary = self._set(make_vocabulary(counts, chosen, self.options))
        column_of = np.full(counted.table.n_terms, -1, dtype=np.int32)
        column_of[terms[chosen]] = np.arange(len(chosen), dtype=np.int32)
        columns, chunks = [column_of[places] for places in counted.places], counted.chunks
        del counted, counts  # the table is no longer needed
        return self._rows(chunks, columns, vocabulary, threads)

    def transform(self, texts: Texts, *, threads: int | None = None) -> sp.csr_matrix:
        """The rows of texts. Terms that the vocabulary has not are left out.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            As in `fit`.
        threads : int, optional
            By default one per usable core. Neither this nor other texts change a row's bytes.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_texts, n_terms)
            float32, indices ascending. A text without known terms has an empty row.

        Raises
        ------
        ConfigError
            The vectorizer is not fitted.
        DataError
            A text is null, not a str or not UTF-8.
        """
        threads, vocabulary = check_threads(threads), self._vocabulary()
        if self._columns is None:
            self._columns = find_columns(vocabulary, self.options)
        table, column_of = self._columns
        return self._rows(find_terms(texts, table, self.options, threads), [column_of], vocabulary, threads)

    def count(self, texts: Texts, *, threads: int | None = None) -> TermCounts:
        """Count the terms of a chunk of texts, for `TermCounts.merge` and `fit_counts`. Changes nothing in here.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            As in `fit`.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        TermCounts
            All terms of these texts. However texts are cut into chunks, the merged counts are the same.

        Raises
        ------
        DataError
            A text is null, not a str or not UTF-8.
        """
        counted = count_texts(texts, self.options, check_threads(threads), keep=False)
        return sorted_counts(counted.table, counted.n_texts, self.options.terms_key)[0]

    def fit_counts(self, counts: TermCounts, n_documents: int | None = None) -> Vectorizer:
        """Choose the vocabulary and its idf from the counts of all texts.

        Parameters
        ----------
        counts : TermCounts
            Those of all chunks, merged.
        n_documents : int, optional
            How many texts there are; checked against the counts.

        Returns
        -------
        Vectorizer
            Itself.

        Raises
        ------
        DataError
            The counts are of another number of texts, were made with other options, or have no terms.
        ConfigError
            min_df and max_df leave no term.
        """
        if n_documents is not None and n_documents != counts.n_documents:
            raise DataError(
                f"the counts are of {counts.n_documents:,} texts, not of {n_documents:,}",
                why="a chunk is missing, or is there twice",
                fix="merge the counts of every chunk once",
            )
        if counts.terms_key != self.options.terms_key:
            raise DataError(
                "the counts were made with other options", why="n-grams, lower case or stop words differ",
                fix="count with a vectorizer of the same options",
            )  # fmt: skip
        self._set(make_vocabulary(counts, choose_terms(counts, self.options), self.options))
        return self

    @property
    def vocabulary(self) -> dict[str, int]:
        """The column of each term. Raises ConfigError if the vectorizer is not fitted."""
        if self._names is None:
            self._names = {term: column for column, term in enumerate(self._vocabulary().terms.to_pylist())}
        return self._names

    @property
    def idf(self) -> np.ndarray:
        """The idf of each column, float64; ones without `use_idf`. Raises ConfigError if it is not fitted."""
        return self._vocabulary().idf

    @property
    def document_frequency(self) -> np.ndarray:
        """How many of the fitted texts have each term, int64. Raises ConfigError if it is not fitted."""
        return self._vocabulary().document_frequency

    @property
    def n_documents(self) -> int:
        """How many texts it was fitted to. Raises ConfigError if it is not fitted."""
        return self._vocabulary().n_documents

    def get_feature_names_out(self) -> np.ndarray:
        """The term of each column.

        Returns
        -------
        numpy.ndarray of str objects
            Sorted as Python sorts strings.

        Raises
        ------
        ConfigError
            The vectorizer is not fitted.
        """
        names = np.empty(len(self._vocabulary().terms), dtype=object)
        names[:] = self._vocabulary().terms.to_pylist()
        return names

    def get_params(self) -> dict[str, Any]:
        """All options under our names, as plain values: `Vectorizer(**params)` has the same.

        Returns
        -------
        dict
            Names and values.
        """
        return {**plain_options(self.options), "ngrams": self.options.ngrams}

    def save(self, folder: str) -> None:
        """Write vocabulary.parquet (term, document_frequency, idf) and vectorizer.json. The same fit, the same bytes.

        Parameters
        ----------
        folder : str
            A path or a URL. It is made where it is missing.

        Raises
        ------
        ConfigError
            The vectorizer is not fitted.
        """
        write_vectorizer(folder, self._vocabulary(), self.options)

    @classmethod
    def load(cls, folder: str) -> Vectorizer:
        """Read a saved vectorizer, which gives the same rows.

        Parameters
        ----------
        folder : str
            A folder that `save` wrote.

        Returns
        -------
        Vectorizer
            The fitted vectorizer.

        Raises
        ------
        DataError
            A file is missing, damaged, or of another vectorizer.
        """
        vocabulary, options = read_vectorizer(folder)
        vectorizer = cls()
        vectorizer.options = options
        vectorizer._set(vocabulary)
        return vectorizer

    def _rows(
        self, chunks: list[ChunkTerms], columns: list[np.ndarray], vocabulary: Vocabulary, threads: int
    ) -> sp.csr_matrix:
        """The matrix of counted texts."""
        return to_matrix(weigh_terms(chunks, columns, vocabulary, self.options, threads), len(vocabulary.terms))

    def _set(self, vocabulary: Vocabulary) -> Vocabulary:
        """Take a vocabulary, and forget what was made of another one."""
        self._fitted, self._names, self._columns = vocabulary, None, None
        return vocabulary

    def _vocabulary(self) -> Vocabulary:
        """The vocabulary. Raises ConfigError if there is none."""
        if self._fitted is None:
            raise ConfigError("the vectorizer is not fitted", fix="call fit first, or load one")
        return self._fitted
