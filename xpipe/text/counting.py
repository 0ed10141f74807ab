"""Counting the terms of texts in threads: each has a table and work space of its own, and tables are joined at the end.

Holds no loop over bytes (`_words_numba`, `_terms_numba`) and no choice of terms (`vocabulary`). A term has another
number in each thread. Nobody outside sees them: what leaves is sorted by the bytes of the terms.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xpipe.errors import DataError
from xpipe.ground.machine import lent
from xpipe.ground.sparse_rows import row_pointers
from xpipe.text import _terms_numba
from xpipe.text._terms_numba import ENTRY, TEXT, Entries, Rules
from xpipe.text._words_numba import CONTEXT, FULL, NOT_UTF8, OK, PADDING, Words
from xpipe.text.characters import character_table
from xpipe.text.chunks import TextChunk, text_chunks
from xpipe.text.options import VectorizerOptions
from xpipe.text.pages import copy_of, zeros
from xpipe.text.term_table import TermTable, Written

T = TypeVar("T")
R = TypeVar("R")


class ChunkTerms(NamedTuple):
    """The terms of a chunk of texts, numbered as in a table."""

    table: int
    terms: np.ndarray  # int32
    counts: np.ndarray  # uint8, or int32 where one of them is above 255
    lengths: np.ndarray  # int32, one per text


class Counter:
    """A table, and the work space of a thread that counts with it."""

    def __init__(self, number: int, table: TermTable, rules: Rules, frozen: bool):
        self.number, self.table, self.rules, self.frozen = number, table, rules, frozen
        self.last = np.zeros(0, dtype=np.int32)
        self.words = _make_words(0)
        self.found, self.grams = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        self.entries = Entries(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))

    def count(self, chunk: TextChunk, keep: bool) -> ChunkTerms:
        """The terms of each text; none of them where they are not kept. Raises DataError for bytes not in UTF-8."""
        state = self.table.state if not self.frozen else self.table.state.copy()
        state[TEXT] = state[ENTRY] = 0
        self.last.fill(-1)
        self._make_entries(chunk, chunk.n_bytes if keep else chunk.longest)
        self._run(chunk, state, keep)
        n_entries = int(state[ENTRY]) if keep else 0
        counts = self.entries.counts[:n_entries]
        kind = np.uint8 if counts.max(initial=0) <= 255 else np.int32
        lengths = self.entries.lengths[: chunk.n_texts].copy()
        terms = copy_of(self.entries.terms[:n_entries], np.int32)
        return ChunkTerms(self.number, terms, copy_of(counts, kind), lengths)

    def _run(self, chunk: TextChunk, state: np.ndarray, keep: bool) -> None:
        """Count all texts of a chunk. A text whose lower case needs Python's is counted in its lower case."""
        self._make_space(chunk.longest)
        while True:
            if len(self.last) < len(self.table.arrays.firsts):
                more = np.full(len(self.table.arrays.firsts) - len(self.last), -1, dtype=np.int32)
                self.last = np.concatenate([self.last, more])
            status = _terms_numba.count_texts(
                chunk.data, chunk.offsets, self.rules, self.table.arrays, state, self.words, self.found, self.grams,
                self.last, self.entries, self.frozen, keep,
            )  # fmt: skip
            row = int(state[TEXT])
            if status == OK:
                return
            if status == FULL:
                self.table.grow(chunk.longest // 8 + 1)
            elif status == NOT_UTF8:
                raise _not_utf8(chunk, row)
            elif status == CONTEXT:
                self._count_lowered(chunk, row, state, keep)

    def _count_lowered(self, chunk: TextChunk, row: int, state: np.ndarray, keep: bool) -> None:
        """Count one text after `str.lower`, and go on to the next one."""
        try:
            lowered = chunk.text(row).decode().lower().encode()
        except UnicodeDecodeError:
            raise _not_utf8(chunk, row) from None
        lengths = self.entries.lengths
        state[TEXT] = 0
        self.entries = self.entries._replace(lengths=lengths[row:])
        self._run(chunk.one(row, lowered), state, keep)
        self.entries = self.entries._replace(lengths=lengths)
        state[TEXT] = row + 1

    def _make_space(self, longest: int) -> None:
        """Work space for texts of so many bytes."""
        if len(self.words.lowered) < longest + PADDING:
            self.words = _make_words(2 * longest)
            self.found, self.grams = (np.empty(len(self.words.tags), np.int32) for _ in range(2))

    def _make_entries(self, chunk: TextChunk, n_bytes: int) -> None:
        """Room for the entries of texts of so many bytes. What is not used takes no memory."""
        orders = self.rules.longest - self.rules.shortest + 1
        n_entries = ((n_bytes + chunk.n_texts) // 3 + 1) * orders
        if n_entries >= 2**31:
            raise DataError(f"a text of {chunk.longest:,} bytes is too long for these n-grams",
                            where=f"rows from {chunk.first_row} on", fix="cut it into several")  # fmt: skip
        terms, counts, lengths = self.entries
        if len(terms) < n_entries:
            terms, counts = zeros(n_entries, np.int32), zeros(n_entries, np.int32)
        if len(lengths) < chunk.n_texts:
            lengths = np.empty(chunk.n_texts, np.int32)
        self.entries = Entries(terms, counts, lengths)


def _make_words(longest: int) -> Words:
    """Scratch space for texts of so many bytes. A word and what follows it have at least three of them."""
    n_words = longest // 3 + 2
    return Words(
        zeros(longest + PADDING, np.uint8), zeros(2 * longest + PADDING, np.uint8), zeros(longest + 8, np.uint64),
        zeros(n_words, np.uint64), zeros(n_words, np.int64), zeros(n_words, np.int64),
    )  # fmt: skip


def make_rules(options: VectorizerOptions) -> Rules:
    """The rules of these options, as kernels take them."""
    shortest, longest = options.ngrams
    n_stop = len(usable_stop_words(options))
    return Rules(options.lowercase, character_table(options.lowercase), n_stop, shortest, longest)


def usable_stop_words(options: VectorizerOptions) -> list[str]:
    """The stop words that can be words of a text."""
    return [word for word in options.stop_list if re.fullmatch(r"\w\w+", word)]


def new_table(options: VectorizerOptions) -> TermTable:
    """A table with the stop words of these options, which come first."""
    table = TermTable()
    words = [word.encode() for word in usable_stop_words(options)]
    offsets = row_pointers([len(word) for word in words])
    table.take_written(Written(np.frombuffer(b"".join(words), dtype=np.uint8), offsets))
    return table


class Counted(NamedTuple):
    """The terms of all texts in one table, and, if they were kept, the terms of every chunk."""

    table: TermTable
    chunks: list[ChunkTerms]
    places: list[np.ndarray]  # for each number of a table in `chunks`: where its terms are in `table`
    n_texts: int


def count_texts(texts: Any, options: VectorizerOptions, threads: int, keep: bool) -> Counted:
    """Count the terms of all texts. Neither threads nor chunks change the counts."""
    rules = make_rules(options)
    counters = [Counter(number, new_table(options), rules, frozen=False) for number in range(threads)]
    chunks, n_texts = [], 0
    for found in _count_chunks(texts, counters, keep):
        n_texts += len(found.lengths)
        if keep:
            chunks.append(found)
    table = counters[0].table
    places = [np.arange(table.n_terms, dtype=np.int32)]
    for counter in counters[1:]:
        places.append(table.take_table(counter.table))
    return Counted(table, chunks, places, n_texts)


def find_terms(texts: Any, table: TermTable, options: VectorizerOptions, threads: int) -> list[ChunkTerms]:
    """The terms of all texts that a table has. The table stays as it is."""
    rules = make_rules(options)
    counters = [Counter(0, table, rules, frozen=True) for _ in range(threads)]
    return list(_count_chunks(texts, counters, keep=True))


def _count_chunks(texts: Any, counters: list[Counter], keep: bool) -> Iterator[ChunkTerms]:
    """The terms of each chunk of texts, counted by as many threads as there are counters."""
    spare: SimpleQueue[Counter] = SimpleQueue()
    for counter in counters:
        spare.put(counter)

    def work(chunk: TextChunk) -> ChunkTerms:
        with lent(spare) as counter:
            return counter.count(chunk, keep)

    return in_order(work, text_chunks(texts), len(counters))


def in_order(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """What `work` makes of each item, in their order. Few items more than threads are taken ahead."""
    items = iter(items)
    ahead = list(itertools.islice(items, 2))
    items = itertools.chain(ahead, items)
    if threads == 1 or len(ahead) < 2:  # a single item needs no other thread
        yield from map(work, items)
        return
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-text") as pool:
        try:
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _not_utf8(chunk: TextChunk, row: int) -> DataError:
    """The error about bytes that are not UTF-8."""
    try:
        chunk.text(row).decode()
        why = ""
    except UnicodeDecodeError as error:
        why = f"byte {error.object[error.start]:#04x} at place {error.start}: {error.reason}"
    return DataError("a text is not UTF-8", where=f"row {chunk.first_row + row}", why=why,
                     fix="decode it with its own encoding first")  # fmt: skip
