"""Kernels on sparse rows: products, sums, norms.

Holds nothing of labels or groups. Rows are a Triple whose column indices are uint32, and a row is a slice: numba then
omits the tests for negative places, and loops take about half of the time.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xpipe.ground.accelerate import jit

CACHE_LINE = 16  # entries of 4 bytes per cache line


class Lists(NamedTuple):
    """Lists of numbers, stored back to back: list i is items[starts[i] : starts[i + 1]]."""

    starts: np.ndarray  # int64
    items: np.ndarray  # int32


class Measures(NamedTuple):
    """Per sample: the L2 norm of its row, <row, mean>, and whether the row has a value below zero."""

    norm: np.ndarray
    mean_score: np.ndarray
    negative: np.ndarray  # uint8


class Rows(NamedTuple):
    """The rows of the samples of a label: row i has entries first[i] to last[i] - 1, a norm, and <x_i, mean>."""

    first: np.ndarray
    last: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    norm: np.ndarray
    mean_score: np.ndarray


@intrinsic
def prefetch(typing_context, array, index):
    """Ask the processor to load array[index] into its cache."""

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
    """Ask the processor to load a row into its cache."""
    for p in range(start, stop, CACHE_LINE):
        prefetch(columns, p)  # type: ignore[call-arg]
        prefetch(values, p)


@jit
def prefetch_all(vector):
    """Ask the processor to load a vector into its cache."""
    for p in range(0, len(vector), CACHE_LINE):
        prefetch(vector, p)  # type: ignore[call-arg]


@jit
def dot_row(columns, values, start, stop, vector):
    """<row, vector>, as four sums side by side: a single sum would wait for each of its additions."""
    columns, values = columns[start:stop], values[start:stop]
    a = b = c = d = 0.0
    whole = len(columns) - len(columns) % 4
    for p in range(0, whole, 4):
        a += np.float64(values[p]) * vector[columns[p]]
        b += np.float64(values[p + 1]) * vector[columns[p + 1]]
        c += np.float64(values[p + 2]) * vector[columns[p + 2]]
        d += np.float64(values[p + 3]) * vector[columns[p + 3]]
    for p in range(whole, len(columns)):
        a += np.float64(values[p]) * vector[columns[p]]
    return (a + b) + (c + d)


@jit
def dot_row_twice(columns, values, start, stop, one, other):
    """(<row, one>, <row, other>). The row is read once."""
    columns, values = columns[start:stop], values[start:stop]
    a = b = c = d = 0.0
    whole = len(columns) - len(columns) % 2
    for p in range(0, whole, 2):
        value, column = np.float64(values[p]), columns[p]
        a += value * one[column]
        c += value * other[column]
        value, column = np.float64(values[p + 1]), columns[p + 1]
        b += value * one[column]
        d += value * other[column]
    if whole < len(columns):
        a += np.float64(values[whole]) * one[columns[whole]]
        c += np.float64(values[whole]) * other[columns[whole]]
    return a + b, c + d


@jit
def add_row(columns, values, start, stop, weight, vector):
    """vector += weight * row."""
    columns, values = columns[start:stop], values[start:stop]
    for p in range(len(columns)):
        vector[columns[p]] += weight * values[p]


@jit
def dot_dense(one, other):
    """<one, other>, as four sums side by side."""
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
def measure_rows(rows, mean, measures):
    """Fill the measures of each row, which are zero on entry. <row, mean> stays zero where `mean` is empty."""
    indptr, columns, values = rows
    norm, mean_score, negative = measures
    for row in range(len(norm)):
        square = 0.0
        for p in range(indptr[row], indptr[row + 1]):
            square += np.float64(values[p]) * values[p]
            negative[row] |= values[p] < 0
        norm[row] = np.sqrt(square)
        if len(mean) > 0:
            mean_score[row] = dot_row(columns, values, indptr[row], indptr[row + 1], mean)


@jit
def mean_row(rows, mean):
    """mean = the mean of all rows, added up in their order. `mean` is zero on entry."""
    indptr, columns, values = rows
    n_rows = len(indptr) - 1
    for row in range(n_rows):
        add_row(columns, values, indptr[row], indptr[row + 1], 1.0, mean)
    for p in range(len(mean)):
        mean[p] /= n_rows
