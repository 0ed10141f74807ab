"""Kernels on terms: a hash table of words and n-grams, and how often each is in every text.

They hold no weights and no choice of terms. A term is a word, or a pair (the n-gram without its last word, its last
word): comparing two numbers then compares two n-grams. A tag may be that of several long words: their bytes decide.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit, jit_inline
from xpipe.text._words_numba import FULL, OK, lower_ascii, split_words

SHORT, LONG, PAIR = range(3)  # a word of one number, a word of several, an n-gram
KIND_BITS, KIND_MASK = np.uint64(2), np.uint64(3)
SHIFT_32 = np.uint64(32)
# state: the next text, the number of the next entry, and how much of a table is used
TEXT, ENTRY, N_TERMS, N_NUMBERS = range(4)


class Table(NamedTuple):
    """Terms, numbered in the order in which they were added. The first ones are stop words."""

    slots: np.ndarray  # uint64, twice a power of two: pairs (tag, number of the term + 1 and its kind; 0: empty)
    firsts: np.ndarray  # int64: where the numbers of a word begin; of an n-gram, the n-gram without its last word
    seconds: np.ndarray  # int32: how many numbers a word has; of an n-gram, its last word
    orders: np.ndarray  # uint8: how many words a term has
    numbers: np.ndarray  # uint64: the bytes of all words, as `_words_numba` packs them
    n_texts: np.ndarray  # int64: how many texts have the term
    n_uses: np.ndarray  # int64: how often it is in them


class Rules(NamedTuple):
    """What a term is."""

    lowercase: bool
    characters: np.ndarray  # uint32, see `characters`
    n_stop: int
    shortest: int  # words of an n-gram
    longest: int


class Entries(NamedTuple):
    """The terms of texts."""

    terms: np.ndarray  # int32
    counts: np.ndarray  # int32
    lengths: np.ndarray  # int32, one per text: how many entries it has


@jit_inline
def find(table, tag, kind, numbers, start, size):
    """(the term or -1, the slot where it is or belongs). Of pairs and short words, the tag is enough."""
    slots, firsts, seconds, known = table.slots, table.firsts, table.seconds, table.numbers
    mask = np.uint64((len(slots) >> 1) - 1)
    place = tag & mask
    while True:
        value = slots[place + place + np.uint64(1)]
        if value == np.uint64(0):
            return np.int64(-1), place
        if slots[place + place] == tag and value & KIND_MASK == np.uint64(kind):
            term = np.int64(value >> KIND_BITS) - 1
            if kind != LONG:
                return term, place
            if seconds[term] == size:
                same = True
                for i in range(size):
                    if known[firsts[term] + i] != numbers[start + i]:
                        same = False
                        break
                if same:
                    return term, place
        place = (place + np.uint64(1)) & mask


@jit
def add(table, state, place, tag, kind, first, second, order, numbers):
    """Add a term at its slot. Returns its number, or -1 if the table is full. `numbers` has a word from `first` on."""
    term = state[N_TERMS]
    if term >= len(table.firsts):
        return np.int64(-1)
    if kind != PAIR:
        used = state[N_NUMBERS]
        if used + second > len(table.numbers):
            return np.int64(-1)
        for i in range(second):
            table.numbers[used + i] = numbers[first + i]
        first = used
        state[N_NUMBERS] = used + second
    table.firsts[term] = first
    table.seconds[term] = second
    table.orders[term] = order
    table.n_texts[term] = table.n_uses[term] = 0
    table.slots[place + place] = tag
    table.slots[place + place + np.uint64(1)] = np.uint64(term + 1) << KIND_BITS | np.uint64(kind)
    state[N_TERMS] = term + 1
    return term


@jit
def find_words(table, rules, state, words, n_words, frozen, found):
    """The terms of words, without stop words. Returns how many, or -1 if the table is full."""
    n_found = 0
    for i in range(n_words):
        tag, start, size = words.tags[i], words.places[i], words.sizes[i]
        kind = SHORT if size == 1 else LONG
        term, place = find(table, tag, kind, words.packed, start, size)
        if term < 0 and not frozen:
            term = add(table, state, place, tag, kind, start, size, 1, words.packed)
            if term < 0:
                return -1
        if term < 0 or term >= rules.n_stop:
            found[np.uintp(n_found)] = term
            n_found += 1
    return n_found


@jit
def extend(table, state, order, n, found, grams, frozen):
    """Make n-grams of `order` words from those of one less, in place. False if the table is full."""
    for i in range(n - order + 1):
        prefix, last = np.int64(grams[i]), np.int64(found[i + order - 1])
        term = np.int64(-1)
        if prefix >= 0 and last >= 0:
            tag = mix((np.uint64(prefix) << SHIFT_32 | np.uint64(last)) + GOLDEN)
            term, place = find(table, tag, PAIR, table.numbers, 0, 0)
            if term < 0 and not frozen:
                term = add(table, state, place, tag, PAIR, prefix, last, order, table.numbers)
                if term < 0:
                    return False
        grams[i] = term
    return True


@jit_inline
def note(terms, n, last, row, base, entries, number):
    """Count the terms of a text. Returns the number of the next entry; `last` has that of each term's last one."""
    for i in range(n):
        term = terms[i]
        if term < 0:
            continue
        seen = last[np.uintp(term)]
        if seen >= row:
            entries.counts[np.uintp(seen - base)] += 1
        else:
            entry = np.uintp(number - base)
            last[np.uintp(term)] = number
            entries.terms[entry] = term
            entries.counts[entry] = 1
            number += 1
    return number


@jit
def count_texts(text, offsets, rules, table, state, words, found, grams, last, entries, frozen, keep):
    """Count the terms of texts from state[TEXT] on. Returns the status; all but OK leave the state at the text.

    last: int32, one per term; -1, or the number of an entry of these texts. frozen: terms that the table has not are
    left out. keep: entries of all texts are kept; else those of the next text are written over them.
    """
    for i in range(state[TEXT], len(offsets) - 1):
        row = state[ENTRY]
        base = 0 if keep else row
        lower_ascii(text, offsets[i], offsets[i + 1] - offsets[i], rules.lowercase, words.lowered)
        status, n_words = split_words(words, rules.characters, offsets[i + 1] - offsets[i])
        number = row
        if status == OK:
            n = find_words(table, rules, state, words, n_words, frozen, found)
            full = n < 0
            if not full and rules.shortest == 1:
                number = note(found, n, last, row, base, entries, number)
            if not full and rules.longest > 1:
                for word in range(n):  # a copy of slices takes seconds to compile
                    grams[word] = found[word]
                for order in range(2, min(rules.longest, n) + 1):
                    full = not extend(table, state, order, n, found, grams, frozen)
                    if full:
                        break
                    if order >= rules.shortest:
                        number = note(grams, n - order + 1, last, row, base, entries, number)
            status = FULL if full else OK
        if status != OK:
            for entry in range(row, number):
                last[entries.terms[entry - base]] = -1
            state[TEXT] = i
            return status
        if not frozen:
            for entry in range(row - base, number - base):
                term = np.uintp(entries.terms[np.uintp(entry)])
                table.n_texts[term] += 1
                table.n_uses[term] += entries.counts[np.uintp(entry)]
        entries.lengths[i] = number - row
        state[ENTRY] = number
    state[TEXT] = len(offsets) - 1
    return OK


@jit
def place_terms(old, n_slots, new):
    """Put the terms of a table into larger slots."""
    mask = np.uint64((len(new) >> 1) - 1)
    for i in range(n_slots):
        if old[2 * i + 1]:
            place = old[2 * i] & mask
            while new[place + place + np.uint64(1)]:
                place = (place + np.uint64(1)) & mask
            new[place + place] = old[2 * i]
            new[place + place + np.uint64(1)] = old[2 * i + 1]
