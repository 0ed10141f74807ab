"""Kernels on sparse rows: products, sums, norms, and copying a label's rows into a block of their own.

Hold nothing of Algorithm 1. X is indptr, columns (uint32: no test for a negative index), values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xpipe.ground.accelerate import jit

AHEAD = 8  # rows asked for before they are needed
CACHE_LINE = 16  # entries of 4 bytes
BITS = 64
DE_BRUIJN = 0x03F79D71B4CB0A89
BIT_OF = np.zeros(BITS, dtype=np.int64)  # DE_BRUIJN shifted by the bit, its six highest bits -> the bit
for _bit in range(BITS):
    BIT_OF[((DE_BRUIJN << _bit) % 2**BITS) >> 58] = _bit


class Rows(NamedTuple):
    """Rows of a label's samples: entries first[i] to last[i]; norm and <x_i, mean> of each."""

    first: np.ndarray
    last: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    norm: np.ndarray
    mean_score: np.ndarray


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for array[index] before it is needed."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@jit
def prefetch_row(columns, values, start, stop):
    for p in range(start, stop, CACHE_LINE):
        prefetch(columns, p)  # type: ignore[call-arg]
        prefetch(values, p)


@jit
def dot_row(columns, values, start, stop, vector):
    """<row, vector>; four sums side by side, because one would wait for each addition."""
    a = b = c = d = 0.0
    p = start
    while p + 4 <= stop:
        a += np.float64(values[p]) * vector[columns[p]]
        b += np.float64(values[p + 1]) * vector[columns[p + 1]]
        c += np.float64(values[p + 2]) * vector[columns[p + 2]]
        d += np.float64(values[p + 3]) * vector[columns[p + 3]]
        p += 4
    while p < stop:
        a += np.float64(values[p]) * vector[columns[p]]
        p += 1
    return (a + b) + (c + d)


@jit
def dot_row_twice(columns, values, start, stop, one, other):
    """(<row, one>, <row, other>), reading the row once."""
    a = b = c = d = 0.0
    p = start
    while p + 2 <= stop:
        value, column = np.float64(values[p]), columns[p]
        a += value * one[column]
        c += value * other[column]
        value, column = np.float64(values[p + 1]), columns[p + 1]
        b += value * one[column]
        d += value * other[column]
        p += 2
    if p < stop:
        a += np.float64(values[p]) * one[columns[p]]
        c += np.float64(values[p]) * other[columns[p]]
    return a + b, c + d


@jit
def add_row(columns, values, start, stop, weight, vector):
    for p in range(start, stop):
        vector[columns[p]] += weight * values[p]


@jit
def dot_dense(one, other):
    a = b = c = d = 0.0
    n = len(one)
    whole = n - n % 4
    for p in range(0, whole, 4):
        a += one[p] * other[p]
        b += one[p + 1] * other[p + 1]
        c += one[p + 2] * other[p + 2]
        d += one[p + 3] * other[p + 3]
    for p in range(whole, n):
        a += one[p] * other[p]
    return (a + b) + (c + d)


@jit
def measure_rows(indptr, columns, values, mean, norms, mean_scores, negative):
    """L2 norm of each row, its product with `mean` unless that is empty, and whether it has a value below zero."""
    for row in range(len(norms)):
        square = 0.0
        for p in range(indptr[row], indptr[row + 1]):
            square += np.float64(values[p]) * values[p]
            negative[row] |= values[p] < 0
        norms[row] = np.sqrt(square)
        if len(mean) > 0:
            mean_scores[row] = dot_row(columns, values, indptr[row], indptr[row + 1], mean)


@jit
def mean_row(indptr, columns, values, mean):
    """The mean of all rows, added up in their order."""
    n_rows = len(indptr) - 1
    for row in range(n_rows):
        add_row(columns, values, indptr[row], indptr[row + 1], 1.0, mean)
    for p in range(len(mean)):
        mean[p] /= n_rows


@jit
def number_features(first, last, columns, marks, local_of, features):
    """Number the features of some rows 0, 1, ... in order; `marks`, a bit a feature, is clear before and after."""
    for i in range(len(first)):
        for p in range(first[i], last[i]):
            marks[columns[p] >> np.uint32(6)] |= np.uint64(1) << np.uint64(columns[p] & np.uint32(63))
    n_features = 0
    for word in range(len(marks)):
        bits = marks[word]
        while bits != 0:
            lowest = bits & (~bits + np.uint64(1))
            feature = word * BITS + BIT_OF[(lowest * np.uint64(DE_BRUIJN)) >> np.uint64(58)]
            local_of[feature] = n_features
            features[n_features] = feature
            n_features += 1
            bits ^= lowest
        marks[word] = 0
    return n_features


@jit
def gather_rows(first, last, columns, values, local_of, counts, block_columns, block_values, e):
    """Copy rows into the block and add them up in e; first and last become their places in the block.

    Features become local_of[feature] unless that is empty.
    """
    q = 0
    for i in range(len(first)):
        if i + AHEAD < len(first):
            prefetch_row(columns, values, first[i + AHEAD], last[i + AHEAD])
        start = q
        weight = np.float64(counts[i])
        for p in range(first[i], last[i]):
            column = local_of[columns[p]] if len(local_of) > 0 else columns[p]
            block_columns[q] = column
            block_values[q] = values[p]
            e[column] += weight * values[p]
            q += 1
        first[i], last[i] = start, q


@jit
def gather_samples(groups, group_ptr, group_samples, place, starts, members, samples, counts):
    """Number the samples of some groups in the order they come; returns (groups with samples, samples)."""
    n_groups = n_samples = member = 0
    for group in groups:
        if group_ptr[group] == group_ptr[group + 1]:
            continue
        starts[n_groups] = member
        n_groups += 1
        for q in range(group_ptr[group], group_ptr[group + 1]):
            sample = group_samples[q]
            if place[sample] < 0:
                place[sample] = n_samples
                samples[n_samples] = sample
                counts[n_samples] = 0
                n_samples += 1
            members[member] = place[sample]
            counts[place[sample]] += 1
            member += 1
    starts[n_groups] = member
    for i in range(n_samples):
        place[samples[i]] = -1
    return n_groups, n_samples
