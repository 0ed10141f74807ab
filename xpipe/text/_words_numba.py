"""Kernels that cut one text into words: lower case, 64 bytes per step, code points where a byte is not ASCII.

They hold no terms and no counts. A word is a run of two or more word characters, as `\\b\\w\\w+\\b` finds it. It is
handed on as 8-byte numbers, its first byte lowest, filled up with zeros: no word character is a zero byte, so two words
are equal exactly if their numbers are.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit, jit_inline

OK, FULL, NOT_UTF8, CONTEXT = range(4)  # CONTEXT: a character whose lower case depends on its neighbours
BLOCK = 64  # bytes per step
PADDING = 2 * BLOCK  # zeros after a text, so that no step leaves the scratch space
NOT_ASCII = np.uint64(0x8080808080808080)
IN_CONTEXT = np.uint32(0xFFFFFFFF)  # in a table of characters
WIDE = ir.VectorType(ir.IntType(8), BLOCK)
WORD = ir.IntType(64)
ZERO, ONE, TOP_BIT = np.uint64(0), np.uint64(1), np.uint64(63)


class Words(NamedTuple):
    """Scratch space of a thread: a text, and the words that are found in it."""

    lowered: np.ndarray  # uint8: the text in lower case as far as it is ASCII, then PADDING zeros
    spelled: np.ndarray  # uint8: one word with other characters, in lower case
    packed: np.ndarray  # uint64: the bytes of the words, 8 per number
    tags: np.ndarray  # uint64, one per word: a hash of its numbers; words of one number have a tag of their own
    places: np.ndarray  # int64, one per word: where its numbers begin
    sizes: np.ndarray  # int64, one per word: how many numbers it has


@intrinsic
def word_bytes(typing_context, array, position):
    """64 bits: whether each byte from array[position] on may be of a word (ASCII letter, digit, _, or not ASCII)."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), WIDE.as_pointer())
        found = builder.load(address, align=1)

        def every(number):
            return ir.Constant(WIDE, [number] * BLOCK)

        def between(least, most, given):
            return builder.icmp_unsigned("<", builder.sub(given, every(least)), every(most - least + 1))

        letter = between(ord("a"), ord("z"), builder.or_(found, every(0x20)))
        digit = between(ord("0"), ord("9"), found)
        other = builder.icmp_unsigned(">=", found, every(0x80))
        line = builder.icmp_unsigned("==", found, every(ord("_")))
        either = builder.or_(builder.or_(letter, digit), builder.or_(other, line))
        return builder.bitcast(either, WORD)

    return types.uint64(array, types.int64), generate


@intrinsic
def trailing_zeros(typing_context, number):
    """How many bits of a uint64 below its lowest 1 are 0; 64 for 0."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(WORD, [WORD, ir.IntType(1)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.cttz.i64")
        return builder.call(function, [arguments[0], ir.IntType(1)(0)])

    return types.int64(types.uint64), generate


@jit_inline
def load(array, position):
    """Eight bytes as one number, the first byte lowest; the compiler makes one instruction of it."""
    p = np.uintp(position)
    low = np.uint64(array[p]) | np.uint64(array[p + 1]) << np.uint64(8)
    low |= np.uint64(array[p + 2]) << np.uint64(16) | np.uint64(array[p + 3]) << np.uint64(24)
    high = np.uint64(array[p + 4]) << np.uint64(32) | np.uint64(array[p + 5]) << np.uint64(40)
    high |= np.uint64(array[p + 6]) << np.uint64(48) | np.uint64(array[p + 7]) << np.uint64(56)
    return low | high


@jit
def lower_ascii(text, start, length, lowercase, lowered):
    """Copy a text into the scratch space, its ASCII letters in lower case, with zeros behind it."""
    difference = np.uint8(32 if lowercase else 0)
    source, target = text[start : start + length], lowered[:length]  # without offsets the loop runs in vector lanes
    for i in range(length):
        byte = source[i]
        upper = np.uint8(np.uint8(byte - np.uint8(65)) < np.uint8(26))
        target[i] = byte + np.uint8(upper * difference)
    for i in range(length, length + PADDING):
        lowered[i] = 0


@jit_inline
def pack(source, start, length, n_packed, packed):
    """Append the numbers of a word. Returns (their number, all of them or-ed)."""
    rest = np.int64(length)
    p = start
    seen = ZERO
    while rest > 8:
        number = load(source, p)
        packed[np.uintp(n_packed)] = number
        seen |= number
        n_packed += 1
        p += 8
        rest -= 8
    number = load(source, p) & (~ZERO >> np.uint64(8 * (8 - rest)))
    packed[np.uintp(n_packed)] = number
    return n_packed + 1, seen | number


@jit_inline
def tag_of(packed, start, stop):
    """The tag of a word. That of a single number is found by a reversible function: no two of them are the same."""
    tag = mix(packed[np.uintp(start)] + GOLDEN)
    for i in range(start + 1, stop):
        tag = mix((tag ^ packed[np.uintp(i)]) + GOLDEN)
    return tag


@jit
def decode(text, p, stop):
    """(code point, bytes) of the character at a place; -1 for bytes that are not UTF-8."""
    byte = np.int64(text[p])
    if byte < 0x80:
        return byte, 1
    if byte < 0xC2 or byte > 0xF4:
        return -1, 1
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    if p + size > stop:
        return -1, 1
    code = byte & (0x7F >> size)
    for i in range(1, size):
        more = np.int64(text[p + i])
        if more & 0xC0 != 0x80:
            return -1, 1
        code = code << 6 | more & 0x3F
    least = 0x80 if size == 2 else 0x800 if size == 3 else 0x10000
    if code < least or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return -1, 1
    return code, size


@jit
def encode(code, target, p):
    """Write a character as UTF-8. Returns the place after it."""
    if code < 0x80:
        target[p] = code
        return p + 1
    if code < 0x800:
        target[p] = 0xC0 | code >> 6
    else:
        if code < 0x10000:
            target[p] = 0xE0 | code >> 12
        else:
            target[p] = 0xF0 | code >> 18
            p += 1
            target[p] = 0x80 | code >> 12 & 0x3F
        p += 1
        target[p] = 0x80 | code >> 6 & 0x3F
    target[p + 1] = 0x80 | code & 0x3F
    return p + 2


@jit
def split_run(words, characters, start, stop, n_words, n_packed):
    """Cut a run of bytes that are not all ASCII into words. Returns (status, words, numbers)."""
    text, spelled = words.lowered, words.spelled
    p = start
    while p < stop:
        end = n_letters = 0
        while p < stop:
            code, size = decode(text, p, stop)
            if code < 0:
                return NOT_UTF8, n_words, n_packed
            p += size
            letter = characters[code]
            if letter == IN_CONTEXT:
                return CONTEXT, n_words, n_packed
            if letter == 0:
                break
            n_letters += 1
            end = encode(np.int64(letter), spelled, end)
        if n_letters >= 2:
            for i in range(end, end + 8):
                spelled[i] = 0
            first = n_packed
            n_packed, _ = pack(spelled, 0, end, n_packed, words.packed)
            words.tags[n_words] = tag_of(words.packed, first, n_packed)
            words.places[n_words] = first
            words.sizes[n_words] = n_packed - first
            n_words += 1
    return OK, n_words, n_packed


@jit
def split_words(words, characters, length):
    """Find the words of the text in the scratch space. Returns (status, how many).

    characters: for each code point 0 if it is of no word, IN_CONTEXT, or its lower case.
    """
    text, packed, tags, places, sizes = words.lowered, words.packed, words.tags, words.places, words.sizes
    n_words = n_packed = start = 0
    inside = False
    before = ZERO  # whether the byte before this block is of a word
    for block in range(0, length + 1, BLOCK):  # a run that ends with the text has its edge at `length`
        bits = word_bytes(text, block)  # type: ignore[call-arg, var-annotated]
        edges = bits ^ (bits << ONE | before)
        before = bits >> TOP_BIT
        while edges != ZERO:
            edge = block + trailing_zeros(edges)
            edges &= edges - ONE
            inside = not inside
            if inside:
                start = edge
                continue
            if edge - start < 2:
                continue
            first = n_packed
            n_packed, seen = pack(text, start, edge - start, n_packed, packed)
            if seen & NOT_ASCII:
                status, n_words, n_packed = split_run(words, characters, start, edge, n_words, first)
                if status != OK:
                    return status, n_words
                continue
            word = np.uintp(n_words)  # unsigned: numba then omits the test for negative indices
            tags[word] = tag_of(packed, first, n_packed)
            places[word] = first
            sizes[word] = n_packed - first
            n_words += 1
    return OK, n_words
