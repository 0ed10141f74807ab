"""TermTable: a hash table of terms that grows, and the terms written as sorted bytes.

Holds no loop over texts or bytes (`_terms_numba`, `_spelling_numba`) and no choice of terms (`vocabulary`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.sparse import read_only
from xpipe.ground.sparse_rows import row_pointers
from xpipe.text import _spelling_numba, _terms_numba
from xpipe.text._terms_numba import N_NUMBERS, N_TERMS, Table
from xpipe.text.pages import zeros

FIRST_TERMS = 1 << 13
NUMBERS_PER_TERM = 2  # 16 bytes
SMALLEST_SCRATCH = 64


class Written(NamedTuple):
    """Terms as bytes: term i is data[offsets[i] : offsets[i + 1]]."""

    data: np.ndarray  # uint8, UTF-8
    offsets: np.ndarray  # int64

    @property
    def n_terms(self) -> int:
        """How many terms there are."""
        return len(self.offsets) - 1


class TermTable:
    """Terms, each with its number. `arrays` is what kernels take; `state` says how much of it is used."""

    def __init__(self, n_terms: int = FIRST_TERMS, n_numbers: int = 0):
        self.state = np.zeros(4, dtype=np.int64)
        self.arrays = Table(
            np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8),
            np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64),
        )  # fmt: skip
        self._resize(max(n_terms, 1), max(n_numbers, NUMBERS_PER_TERM * n_terms, 1))

    @property
    def n_terms(self) -> int:
        """How many terms the table has."""
        return int(self.state[N_TERMS])

    @property
    def n_texts(self) -> np.ndarray:
        """How many texts have each term."""
        return self.arrays.n_texts[: self.n_terms]

    @property
    def n_uses(self) -> np.ndarray:
        """How often each term is in the texts."""
        return self.arrays.n_uses[: self.n_terms]

    def grow(self, n_numbers: int = 0) -> None:
        """Make room where there is none: for terms, for their bytes, or for both. n_numbers: the next word may need."""
        n_terms, room = len(self.arrays.firsts), len(self.arrays.numbers)
        if self.n_terms >= n_terms:
            n_terms *= 2
        if self.state[N_NUMBERS] + max(n_numbers, room // 8) > room:
            room = 2 * room + n_numbers
        self._resize(n_terms, room)

    def _resize(self, n_terms: int, n_numbers: int) -> None:
        """Give the arrays these sizes; slots are at most half full."""
        old = self.arrays
        n_slots = 2 * (1 << (2 * n_terms - 1).bit_length())
        slots = old.slots
        if len(slots) < n_slots:
            slots = zeros(n_slots, np.uint64)
            _terms_numba.place_terms(old.slots, len(old.slots) // 2, slots)
        sizes = (n_terms, n_terms, n_terms, n_numbers, n_terms, n_terms)
        arrays = [_longer(array, size) for array, size in zip(old[1:], sizes, strict=True)]
        self.arrays = Table(slots, *arrays)

    def take_written(self, written: Written) -> np.ndarray:
        """Take terms in; int32, the number that each has. The same term has one number."""
        longest = int(np.diff(written.offsets).max(initial=0))
        spelled, packed = np.zeros(longest + SMALLEST_SCRATCH, np.uint8), np.zeros(longest // 8 + 2, np.uint64)
        places = np.zeros(written.n_terms, dtype=np.int32)
        start = 0
        while start < written.n_terms:
            start = _spelling_numba.take_written(
                self.arrays, self.state, *map(read_only, written), start, spelled, packed, places
            )
            if start < written.n_terms:
                self.grow(len(packed))
        return places

    def take_table(self, other: TermTable) -> np.ndarray:
        """Take the terms and counts of another table over; int32, the number that each has here."""
        places = np.zeros(other.n_terms, dtype=np.int32)
        largest = int(other.arrays.seconds[: other.n_terms][other.arrays.orders[: other.n_terms] == 1].max(initial=0))
        start = 0
        while start < other.n_terms:
            start = _spelling_numba.take_table(self.arrays, self.state, other.arrays, start, other.n_terms, places)
            if start < other.n_terms:
                self.grow(largest)
        return places

    def write(self, terms: np.ndarray) -> Written:
        """The bytes of these terms."""
        lengths = np.zeros(len(terms), dtype=np.int64)
        _spelling_numba.measure_terms(self.arrays, terms, lengths)
        offsets = row_pointers(lengths)
        data = np.empty(offsets[-1], dtype=np.uint8)
        _spelling_numba.write_terms(self.arrays, terms, offsets, data)
        return Written(data, offsets)


def sorted_order(written: Written) -> np.ndarray:
    """The order in which distinct terms are sorted as Python sorts strings: by code points, so by bytes of UTF-8."""
    keys = np.empty(written.n_terms, dtype=np.uint64)
    _spelling_numba.first_keys(written.data, written.offsets, keys)
    order = np.argsort(keys)
    _spelling_numba.sort_ties(written.data, written.offsets, keys, order, np.empty_like(order))
    return order


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    """The array with zeros behind it, up to this size."""
    if len(array) >= size:
        return array
    longer = zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
