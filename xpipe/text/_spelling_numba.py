"""Kernels between terms and their bytes: write terms out, take them in, take over another table, sort.

They hold no texts. A written term has its words with one space between them; no word has a space.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit
from xpipe.text._terms_numba import LONG, PAIR, SHIFT_32, SHORT, add, find
from xpipe.text._words_numba import pack, tag_of

SPACE = 32
KEY = 8  # bytes that a key compares


@jit
def word_length(table, word):
    """The bytes of a word."""
    size = np.int64(table.seconds[word])
    number = table.numbers[table.firsts[word] + size - 1]
    length = 8 * (size - 1)
    while number:
        length += 1
        number >>= np.uint64(8)
    return length


@jit
def measure_terms(table, terms, lengths):
    """The bytes of each term."""
    for i in range(len(terms)):
        term = np.int64(terms[i])
        length = 0
        while table.orders[term] > 1:
            length += word_length(table, np.int64(table.seconds[term])) + 1
            term = table.firsts[term]
        lengths[i] = length + word_length(table, term)


@jit
def write_word(table, word, length, target, start):
    """Write the bytes of a word."""
    first = table.firsts[word]
    for i in range(length):
        target[start + i] = table.numbers[first + (i >> 3)] >> np.uint64(8 * (i & 7)) & np.uint64(0xFF)


@jit
def write_terms(table, terms, offsets, target):
    """Write the bytes of each term, the last word first."""
    for i in range(len(terms)):
        term, stop = np.int64(terms[i]), offsets[i + 1]
        while table.orders[term] > 1:
            word = np.int64(table.seconds[term])
            length = word_length(table, word)
            write_word(table, word, length, target, stop - length)
            stop -= length + 1
            target[stop] = SPACE
            term = table.firsts[term]
        write_word(table, term, stop - offsets[i], target, offsets[i])


@jit
def take_word(table, state, numbers, start, size):
    """The number of a word, which is added where it is new; -1 if the table is full."""
    kind = SHORT if size == 1 else LONG
    tag = tag_of(numbers, start, start + size)
    term, place = find(table, tag, kind, numbers, start, size)
    if term < 0:
        term = add(table, state, place, tag, kind, start, size, 1, numbers)
    return term


@jit
def take_pair(table, state, prefix, last, order):
    """The number of an n-gram, which is added where it is new; -1 if the table is full."""
    tag = mix((np.uint64(prefix) << SHIFT_32 | np.uint64(last)) + GOLDEN)
    term, place = find(table, tag, PAIR, table.numbers, 0, 0)
    if term < 0:
        term = add(table, state, place, tag, PAIR, prefix, last, order, table.numbers)
    return term


@jit
def take_table(table, state, other, start, stop, places):
    """Take terms of another table over. Returns the first that did not fit; places: the numbers that they have now."""
    for i in range(start, stop):
        order = other.orders[i]
        if order == 1:
            term = take_word(table, state, other.numbers, other.firsts[i], np.int64(other.seconds[i]))
        else:
            term = take_pair(table, state, places[other.firsts[i]], places[other.seconds[i]], order)
        if term < 0:
            return i
        places[i] = term
        table.n_texts[term] += other.n_texts[i]
        table.n_uses[term] += other.n_uses[i]
    return stop


@jit
def take_written(table, state, data, offsets, start, spelled, packed, places):
    """Take written terms in. Returns the first that did not fit; places: the numbers that they have now."""
    for i in range(start, len(offsets) - 1):
        term, order, length = np.int64(-1), 0, 0
        for p in range(offsets[i], offsets[i + 1] + 1):
            if p < offsets[i + 1] and data[p] != SPACE:
                spelled[length] = data[p]
                length += 1
                continue
            for place in range(length, length + KEY):
                spelled[place] = 0
            size, _ = pack(spelled, 0, length, 0, packed)
            word = take_word(table, state, packed, 0, size)
            order += 1
            term = word if order == 1 or word < 0 else take_pair(table, state, term, word, order)
            if term < 0:
                return i
            length = 0
        places[i] = term
    return len(offsets) - 1


@jit
def first_keys(data, offsets, keys):
    """The first bytes of each term as a number that sorts as they do."""
    for i in range(len(keys)):
        key = np.uint64(0)
        for p in range(offsets[i], offsets[i] + KEY):
            key = key << np.uint64(8) | np.uint64(data[p] if p < offsets[i + 1] else 0)
        keys[i] = key


@jit
def before(data, offsets, one, other):
    """Whether a term sorts before another with the same first bytes."""
    p, q = offsets[one] + KEY, offsets[other] + KEY
    while p < offsets[one + 1] and q < offsets[other + 1]:
        if data[p] != data[q]:
            return data[p] < data[q]
        p += 1
        q += 1
    return offsets[one + 1] - offsets[one] < offsets[other + 1] - offsets[other]


@jit
def sort_ties(data, offsets, keys, order, space):
    """Sort the terms with equal keys in an order that sorts the keys: runs of 1, 2, 4, ... terms are merged."""
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and keys[order[stop]] == keys[order[start]]:
            stop += 1
        width = 1
        while width < stop - start:
            for low in range(start, stop, 2 * width):
                middle, high = min(low + width, stop), min(low + 2 * width, stop)
                for place in range(low, high):  # a copy of slices takes seconds to compile
                    space[place] = order[place]
                p, q = low, middle
                for target in range(low, high):
                    if q >= high or (p < middle and not before(data, offsets, space[q], space[p])):
                        order[target] = space[p]
                        p += 1
                    else:
                        order[target] = space[q]
                        q += 1
            width *= 2
        start = stop
