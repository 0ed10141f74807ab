"""Vocabulary: the terms that become columns, chosen from counts, and their idf.

Holds no texts and no counting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xpipe.errors import ConfigError, DataError
from xpipe.text.counting import new_table
from xpipe.text.options import VectorizerOptions
from xpipe.text.term_counts import TermCounts, written_of
from xpipe.text.term_table import TermTable


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The terms of a vectorizer, one per column."""

    terms: pa.LargeStringArray  # sorted
    document_frequency: np.ndarray  # int64
    idf: np.ndarray  # float64
    n_documents: int


def choose_terms(counts: TermCounts, options: VectorizerOptions) -> np.ndarray:
    """The places of the terms that become columns, ascending. Raises DataError or ConfigError if there are none."""
    n_documents, texts = counts.n_documents, counts.document_frequency
    if not len(texts):
        raise DataError(
            "the texts have no words" if n_documents else "there are no texts",
            why="a word has two or more letters or digits, and is no stop word",
            fix="check that the right column is read" if n_documents else "",
        )
    most = options.max_df if isinstance(options.max_df, int) else options.max_df * n_documents
    least = options.min_df if isinstance(options.min_df, int) else options.min_df * n_documents
    if most < least:
        raise ConfigError(
            "`max_df` is fewer texts than `min_df`", why=f"of {n_documents:,} texts, {most:g} and {least:g}",
            fix="max_df: 1.0 is all texts, 1 is one text",
        )  # fmt: skip
    keep = np.flatnonzero((texts <= most) & (texts >= least))
    if not len(keep):
        raise ConfigError(
            f"no term is in {least:g} to {most:g} of {n_documents:,} texts",
            why=f"{len(texts):,} terms were found; the most frequent one is in {int(texts.max()):,} texts",
            fix="lower min_df, or raise max_df",
        )
    if options.max_features is not None and len(keep) > options.max_features:
        used = (texts if options.binary else counts.term_frequency)[keep].astype(np.float64)
        # scikit-learn's own line, because its sort decides between terms that are used equally often
        keep = np.sort(keep[(-used).argsort()[: options.max_features]])
    return keep


def make_vocabulary(counts: TermCounts, chosen: np.ndarray, options: VectorizerOptions) -> Vocabulary:
    """The vocabulary of the chosen terms."""
    texts = counts.document_frequency[chosen]
    terms = counts.terms.take(pa.array(chosen))
    return Vocabulary(terms, texts, inverse_frequencies(texts, counts.n_documents, options), counts.n_documents)


def inverse_frequencies(texts: np.ndarray, n_documents: int, options: VectorizerOptions) -> np.ndarray:
    """The idf of terms that are in so many texts; ones where it is not used."""
    if not options.use_idf:
        return np.ones(len(texts))
    more = int(options.smooth_idf)
    idf: np.ndarray = np.log((n_documents + more) / (texts.astype(np.float64) + more)) + 1.0
    return idf


def find_columns(vocabulary: Vocabulary, options: VectorizerOptions) -> tuple[TermTable, np.ndarray]:
    """(a table with all terms, the column of each of its terms or -1). It also has the parts of n-grams."""
    table = new_table(options)
    places = table.take_written(written_of(vocabulary.terms))
    column_of = np.full(table.n_terms, -1, dtype=np.int32)
    column_of[places] = np.arange(len(places), dtype=np.int32)
    return table, column_of
