"""TermCounts: how many texts have each term. Counts of chunks are merged; the result depends on the texts alone.

Holds no texts and no choice of terms (`vocabulary`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xpipe.errors import DataError
from xpipe.formats.parquet_files import read_columns
from xpipe.ground import files
from xpipe.text.term_table import TermTable, Written, sorted_order

FORMAT = b"xpipe term counts 1"
COLUMNS = [("term", pa.large_string()), ("document_frequency", pa.int64()), ("term_frequency", pa.int64())]
WORD = r"[^\x00-/:-@\[-^`{-\x7f]{2,}"  # bytes: letters, digits, _, and all that is not ASCII
FIX = "count the texts again with Vectorizer.count"


@dataclass(frozen=True, eq=False)
class TermCounts:
    """The terms of some texts, and how often each is used in them.

    Parameters
    ----------
    terms : pyarrow.LargeStringArray
        Distinct terms, sorted as Python sorts strings.
    document_frequency : numpy.ndarray of int64
        How many texts have each term.
    term_frequency : numpy.ndarray of int64
        How often each term is used in all texts.
    n_documents : int
        How many texts were counted.
    terms_key : str
        `VectorizerOptions.terms_key` of the options that decided what a term is.

    Examples
    --------
    >>> from xpipe.text import TermCounts, Vectorizer
    >>> vectorizer = Vectorizer()
    >>> merged = TermCounts.merge([vectorizer.count(["red apple"]), vectorizer.count(["red red wine", "apple"])])
    >>> dict(zip(merged.terms.to_pylist(), merged.document_frequency.tolist()))
    {'apple': 2, 'red': 2, 'wine': 1}
    >>> vectorizer.fit_counts(merged).transform(["red wine"]).shape
    (1, 3)
    """

    terms: pa.LargeStringArray
    document_frequency: np.ndarray
    term_frequency: np.ndarray
    n_documents: int
    terms_key: str

    @staticmethod
    def merge(counts: Iterable[TermCounts]) -> TermCounts:
        """The counts of all texts together. The order of the pieces changes nothing.

        Parameters
        ----------
        counts : iterable of TermCounts
            At least one. All were made with the same n-grams, lower case and stop words.

        Returns
        -------
        TermCounts
            The same as if all texts had been counted at once.

        Raises
        ------
        DataError
            There are none, or they were made with different options.
        """
        table, n_documents, keys = TermTable(), 0, set()
        for piece in counts:
            places = table.take_written(written_of(piece.terms))
            table.n_texts[places] += piece.document_frequency
            table.n_uses[places] += piece.term_frequency
            n_documents += piece.n_documents
            keys.add(piece.terms_key)
        if len(keys) != 1:
            raise DataError(
                "there are no counts to merge" if not keys else "counts that do not belong together",
                why="they differ in n-grams, lower case or stop words" if keys else "",
                fix=FIX + ", all with the same options",
            )
        return sorted_counts(table, n_documents, keys.pop())[0]

    def to_arrow(self) -> pa.Table:
        """The counts as an Arrow table: term, document_frequency, term_frequency; the rest is in its metadata.

        Returns
        -------
        pyarrow.Table
            What `from_arrow` takes.
        """
        meta = {b"format": FORMAT, b"n_documents": str(self.n_documents), b"terms_key": self.terms_key}
        return pa.table(
            [self.terms, pa.array(self.document_frequency), pa.array(self.term_frequency)],
            schema=pa.schema(COLUMNS, metadata=meta),
        )

    @classmethod
    def from_arrow(cls, table: pa.Table, *, where: str = "") -> TermCounts:
        """The counts in an Arrow table.

        Parameters
        ----------
        table : pyarrow.Table
            What `to_arrow` gave.
        where : str
            Where the table is from, for the error.

        Returns
        -------
        TermCounts
            The counts.

        Raises
        ------
        DataError
            The table has not the columns, types, order or metadata of counts.
        """
        meta = table.schema.metadata or {}
        text, key = meta.get(b"n_documents", b""), meta.get(b"terms_key", b"")
        if meta.get(b"format") != FORMAT or not text.isdigit() or len(text) > 18 or not key.isascii():
            raise _damaged(where, "its metadata is not that of term counts")
        try:
            table = table.select([name for name, _ in COLUMNS]).cast(pa.schema(COLUMNS))
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise _damaged(where, str(error)[:200]) from error
        terms = checked_terms(table["term"], where)
        texts, uses = (checked_numbers(table[name], where, name) for name, _ in COLUMNS[1:])
        if len(texts) and (texts.max() > int(text) or (uses < texts).any()):
            raise _damaged(where, "a term is in more texts than there are, or is used less often")
        return cls(terms, texts, uses, int(text), key.decode())

    def write(self, path: str) -> None:
        """Write the counts to a Parquet file. The same counts give the same bytes.

        Parameters
        ----------
        path : str
            The file: a path or a URL. It appears when it is complete.
        """
        with files.open_write(os.fspath(path)) as stream:
            pq.write_table(self.to_arrow(), stream, compression="zstd", write_page_checksum=True)

    @classmethod
    def read(cls, path: str) -> TermCounts:
        """Read counts from a Parquet file.

        Parameters
        ----------
        path : str
            A file that `write` wrote.

        Returns
        -------
        TermCounts
            The counts.

        Raises
        ------
        DataError
            The file is missing, damaged, or has no counts.
        """
        path = os.fspath(path)
        return cls.from_arrow(read_columns(path, fix=FIX), where=path)


def sorted_counts(table: TermTable, n_documents: int, terms_key: str) -> tuple[TermCounts, np.ndarray]:
    """(the counts of a table, the number that each of their terms has in it). Terms of no text are left out."""
    kept = np.flatnonzero(table.n_texts > 0).astype(np.int32)
    written = table.write(kept)
    order = sorted_order(written)
    terms = kept[order]
    text = arrow_of(written).take(pa.array(order))
    return TermCounts(text, table.n_texts[terms], table.n_uses[terms], n_documents, terms_key), terms


def arrow_of(written: Written) -> pa.LargeStringArray:
    """Written terms as an Arrow array that shares their memory."""
    buffers = [None, pa.py_buffer(written.offsets), pa.py_buffer(written.data)]
    return pa.Array.from_buffers(pa.large_string(), written.n_terms, buffers)


def written_of(terms: pa.LargeStringArray) -> Written:
    """The bytes of an Arrow array of terms, which are not copied."""
    _, offsets, data = terms.buffers()
    if not len(terms):
        return Written(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))
    places = np.frombuffer(offsets, dtype=np.int64, count=terms.offset + len(terms) + 1)[terms.offset :]
    return Written(np.frombuffer(data, dtype=np.uint8), places)


def checked_terms(column: pa.ChunkedArray, where: str) -> pa.LargeStringArray:
    """A column of terms that was read. Raises DataError unless they are n-grams in strictly ascending order."""
    terms = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        terms.validate(full=True)
    except pa.ArrowException as error:
        raise _damaged(where, str(error)[:200]) from error
    if terms.null_count:
        raise _damaged(where, "a term is null")
    words = pc.match_substring_regex(terms.cast(pa.large_binary()), rf"^{WORD}( {WORD})*$")
    if len(terms) and not pc.all(words).as_py():
        raise _damaged(where, "a term is not made of words of two or more characters")
    if len(terms) > 1 and not pc.all(pc.less(terms.slice(0, len(terms) - 1), terms.slice(1))).as_py():
        raise _damaged(where, "its terms are not in ascending order, each once")
    return terms


def checked_numbers(column: pa.ChunkedArray, where: str, name: str) -> np.ndarray:
    """A column of counts that was read. Raises DataError for a null and for numbers below 1."""
    numbers: np.ndarray = column.to_numpy()
    if column.null_count or (len(numbers) and numbers.min() < 1):
        raise _damaged(where, f"{name} has a null or a number below 1")
    return numbers


def _damaged(where: str, why: str) -> DataError:
    """The error about something that is no term counts."""
    return DataError("these are not term counts, or they are damaged", where=where, why=why, fix=FIX)
