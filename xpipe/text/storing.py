"""A vectorizer in a folder: vocabulary.parquet (term, document_frequency, idf) and vectorizer.json, written last.

Holds no pickle. Everything that is read is checked: types, ranges, the order of terms, the digest of the vocabulary,
and whether each idf is that of its document frequency.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.formats.parquet_files import read_columns
from xpipe.ground import files
from xpipe.ground.checked_json import Count, Sha256, dump_json, read_json
from xpipe.text.options import VectorizerOptions, make_options
from xpipe.text.term_counts import checked_numbers, checked_terms
from xpipe.text.vocabulary import Vocabulary, inverse_frequencies

FORMAT = "xpipe vectorizer 1"
JSON, PARQUET = "vectorizer.json", "vocabulary.parquet"
COLUMNS = [("term", pa.large_string()), ("document_frequency", pa.int64()), ("idf", pa.float64())]
FIX = "save the vectorizer again with Vectorizer.save; if that was done, copy both files again"
LAST_BITS = 1e-12  # logarithms of other processors may end in other last bits


class Params(TypedDict):
    """`VectorizerOptions` as JSON has them."""

    min_df: int | float
    max_df: int | float
    max_features: int | None
    ngrams: list[int]
    lowercase: bool
    sublinear: bool
    stop_words: str | list[str] | None
    norm: str | None
    binary: bool
    use_idf: bool
    smooth_idf: bool


class About(TypedDict):
    """The content of vectorizer.json."""

    format: str
    params: Params
    n_documents: Count
    n_terms: Count
    vocabulary_sha256: Sha256


def plain_options(options: VectorizerOptions) -> dict[str, Any]:
    """The options as plain values; sequences are lists."""
    values = dataclasses.asdict(options)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def write_vectorizer(folder: str, vocabulary: Vocabulary, options: VectorizerOptions) -> None:
    """Write both files. The same vectorizer gives the same bytes."""
    folder = os.fspath(folder)
    table = pa.table(
        [vocabulary.terms, pa.array(vocabulary.document_frequency), pa.array(vocabulary.idf)],
        schema=pa.schema(COLUMNS),
    )
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    digest = files.write_digested(files.join(folder, PARQUET), stream.getvalue())
    about = {
        "format": FORMAT,
        "params": plain_options(options),
        "n_documents": vocabulary.n_documents,
        "n_terms": len(vocabulary.terms),
        "vocabulary_sha256": digest["sha256"],
    }
    files.write_bytes(files.join(folder, JSON), dump_json(about))


def read_vectorizer(folder: str) -> tuple[Vocabulary, VectorizerOptions]:
    """(vocabulary, options) of a folder. Raises DataError where a file is missing, damaged or of another vectorizer."""
    folder = os.fspath(folder)
    path, vocabulary_path = files.join(folder, JSON), files.join(folder, PARQUET)
    about = read_json(path, About, fix=FIX)
    if about["format"] != FORMAT:
        raise _damaged(path, f"its format is {about['format'][:80]!r}, not {FORMAT!r}")
    try:
        options = make_options(about["params"])
    except ConfigError as error:
        raise _damaged(path, error.what) from error
    table = read_columns(vocabulary_path, fix=FIX)
    if files.sha256(vocabulary_path) != about["vocabulary_sha256"]:
        raise _damaged(vocabulary_path, f"it is not the file that {JSON} names")
    if table.schema.names != [name for name, _ in COLUMNS]:
        raise _damaged(vocabulary_path, f"its columns are {', '.join(table.schema.names)[:200]}")
    try:
        table = table.cast(pa.schema(COLUMNS))
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(vocabulary_path, str(error)[:200]) from error
    return _checked(table, about, options, vocabulary_path), options


def _checked(table: pa.Table, about: About, options: VectorizerOptions, path: str) -> Vocabulary:
    """The vocabulary of a table whose columns have the right types. Raises DataError where its numbers are wrong."""
    terms = checked_terms(table["term"], path)
    texts = checked_numbers(table["document_frequency"], path, "document_frequency")
    if len(terms) != about["n_terms"] or not len(terms):
        raise _damaged(path, f"it has {len(terms):,} terms, {JSON} says {about['n_terms']:,}")
    if texts.max() > about["n_documents"]:
        raise _damaged(path, f"a term is in more than {about['n_documents']:,} texts")
    idf: np.ndarray = table["idf"].to_numpy()
    if table["idf"].null_count or not np.allclose(
        idf, inverse_frequencies(texts, about["n_documents"], options), rtol=LAST_BITS, atol=0
    ):
        raise _damaged(path, "an idf is not that of its document frequency")
    return Vocabulary(terms, texts, idf, about["n_documents"])


def _damaged(path: str, why: str) -> DataError:
    """The error about a folder that has no vectorizer."""
    return DataError("this is not a saved vectorizer, or it is damaged", where=path, why=why, fix=FIX)
