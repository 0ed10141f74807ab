"""Vectorizer: texts to rows of tf-idf, with the parameters and results of scikit-learn's TfidfVectorizer.

Holds no arithmetic: terms are counted in `counting`, chosen in `vocabulary`, weighed in `weighting`, kept in `storing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias, Unpack

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.errors import DataError, ParameterError
from xpipe.ground.estimator import Estimator, not_fitted
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import to_matrix
from xpipe.text.counting import ChunkTerms, count_texts, find_terms
from xpipe.text.options import OTHER_NAMES, Norm, OtherOptions, VectorizerOptions, make_options
from xpipe.text.storing import plain_options, read_vectorizer, write_vectorizer
from xpipe.text.term_counts import TermCounts, sorted_counts
from xpipe.text.term_table import TermTable
from xpipe.text.vocabulary import Vocabulary, choose_terms, find_columns, make_vocabulary
from xpipe.text.weighting import weigh_terms

Texts: TypeAlias = "Iterable[str] | Iterable[pa.Array] | np.ndarray | pa.Array | pa.ChunkedArray"


class Vectorizer(Estimator):
    """Texts to CSR rows of tf-idf: scikit-learn's `TfidfVectorizer`, compiled, streamed and mergeable.

    A word is what the regular expression `\\b\\w\\w+\\b` finds in the lower case of a text, in all scripts. The
    vocabulary, its order and the values are those of scikit-learn.

    Parameters
    ----------
    min_df, max_df, max_features, ngrams, lowercase, sublinear, stop_words, norm, binary, use_idf, smooth_idf
        As in `VectorizerOptions`.
    **other
        scikit-learn's names ngram_range and sublinear_tf; and its other options with the only value they have here.

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

    _fitted: Vocabulary | None = None
    _fitted_with: VectorizerOptions | None = None
    _names: dict[str, int] | None = None
    _columns: tuple[TermTable, np.ndarray] | None = None

    def __init__(
        self,
        *,
        min_df: int | float = VectorizerOptions.min_df,
        max_df: int | float = VectorizerOptions.max_df,
        max_features: int | None = VectorizerOptions.max_features,
        ngrams: tuple[int, int] = VectorizerOptions.ngrams,
        lowercase: bool = VectorizerOptions.lowercase,
        sublinear: bool = VectorizerOptions.sublinear,
        stop_words: str | Collection[str] | None = VectorizerOptions.stop_words,
        norm: Norm | None = VectorizerOptions.norm,
        binary: bool = VectorizerOptions.binary,
        use_idf: bool = VectorizerOptions.use_idf,
        smooth_idf: bool = VectorizerOptions.smooth_idf,
        **other: Unpack[OtherOptions],
    ):
        given: dict[str, Any] = {
            "min_df": min_df, "max_df": max_df, "max_features": max_features, "ngrams": ngrams, "lowercase": lowercase,
            "sublinear": sublinear, "stop_words": stop_words, "norm": norm, "binary": binary, "use_idf": use_idf,
            "smooth_idf": smooth_idf,
        }  # fmt: skip
        for name in OTHER_NAMES.keys() & other.keys():  # given under another name: the default is not a second value
            if given[OTHER_NAMES[name]] is getattr(VectorizerOptions, OTHER_NAMES[name]):
                del given[OTHER_NAMES[name]]
        self._take(make_options({**given, **other}), given)

    @property
    def options(self) -> VectorizerOptions:
        """All parameters, checked. Raises ConfigError where one is out of range."""
        return make_options(self.get_params())

    def fit(self, texts: Texts, y: object = None, *, threads: int | None = None) -> Vectorizer:
        """Choose the vocabulary: `count` and `fit_counts`.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            Read once, chunk by chunk. Texts in pyarrow arrays are used as they lie in memory. Series of pandas and
            polars are iterables of str, too; a frame must have one column.
        y : object
            Of no effect; a `Pipeline` gives it.
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

    def fit_transform(self, texts: Texts, y: object = None, *, threads: int | None = None) -> sp.csr_matrix:
        """`fit`, and the rows of the same texts, which are read only once.

        Parameters
        ----------
        texts : iterable of str, numpy array of str, pyarrow array of strings, or iterable of these arrays
            As in `fit`. The numbers of their terms are kept until the vocabulary is chosen, not the texts.
        y : object
            Of no effect; a `Pipeline` gives it.
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
        threads, options = check_threads(threads), self.options
        counted = count_texts(texts, options, threads, keep=True)
        counts, terms = sorted_counts(counted.table, counted.n_texts, options.terms_key)
        chosen = choose_terms(counts, options)
        vocabulary = self._set(make_vocabulary(counts, chosen, options), options)
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
            self._columns = find_columns(vocabulary, self._used())
        table, column_of = self._columns
        return self._rows(find_terms(texts, table, self._used(), threads), [column_of], vocabulary, threads)

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
        options = self.options
        counted = count_texts(texts, options, check_threads(threads), keep=False)
        return sorted_counts(counted.table, counted.n_texts, options.terms_key)[0]

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
        options = self.options
        if counts.terms_key != options.terms_key:
            raise DataError(
                "the counts were made with other options", why="n-grams, lower case or stop words differ",
                fix="count with a vectorizer of the same options",
            )  # fmt: skip
        self._set(make_vocabulary(counts, choose_terms(counts, options), options), options)
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

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """The term of each column.

        Parameters
        ----------
        input_features : object
            Of no effect; a `Pipeline` gives it.

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
        write_vectorizer(folder, self._vocabulary(), self._used())

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
        vectorizer._take(options)
        vectorizer._set(vocabulary, options)
        return vectorizer

    def _rows(
        self, chunks: list[ChunkTerms], columns: list[np.ndarray], vocabulary: Vocabulary, threads: int
    ) -> sp.csr_matrix:
        """The matrix of counted texts."""
        return to_matrix(weigh_terms(chunks, columns, vocabulary, self._used(), threads), len(vocabulary.terms))

    def _take(self, options: VectorizerOptions, given: Mapping[str, Any] | None = None) -> None:
        """Keep options as attributes, as plain values: what was given already so stays the same object."""
        for name, value in {**plain_options(options), "ngrams": options.ngrams}.items():
            own = (given or {}).get(name)
            setattr(self, name, own if type(own) is type(value) and own == value else value)

    def _set(self, vocabulary: Vocabulary, options: VectorizerOptions) -> Vocabulary:
        """Take a vocabulary, and forget what was made of another one."""
        self._fitted, self._fitted_with, self._names, self._columns = vocabulary, options, None, None
        return vocabulary

    def _used(self) -> VectorizerOptions:
        """The options it was fitted with."""
        return self._fitted_with or self.options

    def _vocabulary(self) -> Vocabulary:
        """The vocabulary. Raises ConfigError if there is none."""
        if self._fitted is None:
            raise not_fitted("the vectorizer is not fitted")
        return self._fitted

    def _own_names(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters under our names."""
        twice = [name for name in OTHER_NAMES.keys() & params.keys() if OTHER_NAMES[name] in params]
        if twice:
            raise ParameterError(f"`{OTHER_NAMES[twice[0]]}` is given twice", why=f"`{twice[0]}` is another name of it")
        return {OTHER_NAMES.get(name, name): value for name, value in params.items()}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a vocabulary, as scikit-learn's `check_is_fitted` asks."""
        return self._fitted is not None

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn (1.6 or newer) that this makes rows of texts."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer", target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )  # fmt: skip
