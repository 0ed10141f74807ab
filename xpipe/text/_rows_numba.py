"""Kernels that turn counted terms into rows: columns ascending, weights of tf-idf, a norm.

They hold no texts and no tables of terms. Sums of a row are in the order of its columns, in float64.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit, jit_inline
from xpipe.text._words_numba import ONE, ZERO, trailing_zeros

NO_NORM, L1, L2 = range(3)
SIX, LOW_BITS = 6, 63


class Weighting(NamedTuple):
    """How counts become values."""

    idf: np.ndarray  # float64, one per column; ones without idf
    binary: bool
    sublinear: bool
    logarithms: np.ndarray  # float64: 1 + log(i) for small i > 0
    norm: int


class Marks(NamedTuple):
    """Work space of a thread: which columns a row has. A bit of one array is a word that is not 0 in the one before."""

    columns: np.ndarray  # uint64
    words: np.ndarray  # uint64
    pages: np.ndarray  # uint64
    counts: np.ndarray  # int32, one per column; those of marked columns are valid
    weights: np.ndarray  # float64: a row before its norm


@jit_inline
def mark(marks, column):
    """Mark a column, its word and its page."""
    word, page = column >> SIX, column >> SIX >> SIX
    marks.columns[word] |= ONE << np.uint64(column & LOW_BITS)
    marks.words[page] |= ONE << np.uint64(word & LOW_BITS)
    marks.pages[page >> SIX] |= ONE << np.uint64(page & LOW_BITS)


@jit
def weigh(count, weighting):
    """The weight of a count."""
    if weighting.binary:
        return 1.0
    if not weighting.sublinear:
        return np.float64(count)
    if count < len(weighting.logarithms):
        return weighting.logarithms[count]
    return 1.0 + math.log(np.float64(count))


@jit
def count_kept(terms, lengths, column_of, kept):
    """How many entries of each row have a column."""
    entry = 0
    for row in range(len(lengths)):
        n = 0
        for _ in range(lengths[row]):
            n += column_of[terms[entry]] >= 0
            entry += 1
        kept[row] = n


@jit
def write_rows(terms, counts, lengths, column_of, weighting, marks, indices, values):
    """Write the columns and values of all rows, one after the other. column_of: the column of each term, or -1."""
    read = written = 0
    for row in range(len(lengths)):
        for entry in range(read, read + lengths[row]):
            column = column_of[terms[entry]]
            if column >= 0:
                mark(marks, np.int64(column))
                marks.counts[column] = counts[entry]
        read += lengths[row]
        first = written
        total = 0.0
        for top in range(len(marks.pages)):
            pages = marks.pages[top]
            marks.pages[top] = ZERO
            while pages != ZERO:
                page = (top << SIX) + trailing_zeros(pages)  # type: ignore[call-arg]
                pages &= pages - ONE
                words = marks.words[page]
                marks.words[page] = ZERO
                while words != ZERO:
                    word = (page << SIX) + trailing_zeros(words)
                    words &= words - ONE
                    bits = marks.columns[word]
                    marks.columns[word] = ZERO
                    while bits != ZERO:
                        column = (word << SIX) + trailing_zeros(bits)
                        bits &= bits - ONE
                        value = weigh(marks.counts[column], weighting) * weighting.idf[column]
                        total += value * value if weighting.norm == L2 else value
                        indices[written] = column
                        marks.weights[written - first] = value
                        written += 1
        length = 1.0 if weighting.norm == NO_NORM else math.sqrt(total) if weighting.norm == L2 else total
        for entry in range(first, written):
            values[entry] = np.float32(marks.weights[entry - first] / length)
