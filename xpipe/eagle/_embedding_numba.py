"""Kernels of embedding: the loop over the labels of a chunk, and rows of the result written back to back.

Holds no validation, no threads, and no step of Algorithm 1 (`_steps_numba`).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._assignment_numba import FLOAT32_TIE, own_groups
from xpipe.eagle._gathering_numba import copy_to_block, gather_samples, number_features
from xpipe.eagle._rows_numba import Lists, Measures, Rows, add_row
from xpipe.eagle._steps_numba import embed_label
from xpipe.ground.accelerate import jit
from xpipe.ground.sparse import Triple


class Data(NamedTuple):
    """What every label reads: feature rows (column indices uint32), groups of labels, samples of groups, measures."""

    rows: Triple
    label_groups: Lists
    members: Lists
    measures: Measures
    mean_square: float  # <mean, mean>


class EmbedSpace(NamedTuple):
    """Work space of one thread.

    place: int32 per sample, -1 on entry and on exit. e, g: float64 per feature. The others are empty unless the
    features of a label are to be renumbered: marks has one bit per feature, clear on entry and on exit; local_of and
    features are int32 per feature.
    """

    place: np.ndarray
    marks: np.ndarray
    local_of: np.ndarray
    features: np.ndarray
    e: np.ndarray
    g: np.ndarray


class Block(NamedTuple):
    """Room of one thread for the rows of a label."""

    columns: np.ndarray  # uint16, or uint32
    values: np.ndarray  # float32


class WrittenRows(NamedTuple):
    """Rows of some labels, back to back: the row of labels[i] has lengths[i] entries."""

    labels: np.ndarray  # int64
    lengths: np.ndarray  # int64
    indices: np.ndarray  # int32
    weights: np.ndarray  # float32


@jit
def embed_labels(data, steps, step_size, smallest, space, block, written, offsets, traces, owners):
    """Embed written.labels one after the other and write their rows back to back; returns the number of entries.

    block: where the rows of each label are copied to, or () to read them where they are stored. These are two
    kernels, since the compiler leaves out what the other one does; few problems need both.
    offsets: one per label. traces: labels x (steps + 1), zero on entry, or labels x 0 for no trace. owners: filled as
    by `assign_labels` while the rows of a label are at hand, or empty. Where written.indices has no room, only the
    owners are found.
    """
    _, columns, values = data.rows
    e, g = space.e, space.g
    n_written = 0
    for number in range(len(written.labels)):
        label = written.labels[number]
        written.lengths[number] = 0
        offsets[number] = 0.0
        at = data.label_groups.starts[label]
        groups = data.label_groups.items[at : data.label_groups.starts[label + 1]]
        gathered = gather_samples(groups, data.members, space.place)
        if len(gathered.samples) == 0:
            continue
        rows, difference = rows_of_samples(gathered.samples, data.rows, data.measures)
        features, local_of = space.features[:0], space.local_of[:0]
        width = len(e)
        if len(block) == 0:  # known when this is compiled, as a test for None would not be
            used = rows
            e[:] = 0.0
            for i in range(len(gathered.samples)):
                add_row(columns, values, rows.first[i], rows.last[i], np.float64(gathered.counts[i]), e)
        else:
            used = Rows(rows.first, rows.last, block.columns, block.values, rows.norm, rows.mean_score)
            if len(space.marks) > 0:
                width = number_features(rows.first, rows.last, columns, space.marks, space.local_of, space.features)
                features, local_of = space.features[:width], space.local_of
            e[:width] = 0.0
            copy_to_block(used, columns, values, local_of, gathered.counts, e)
        winners = np.empty(len(gathered.starts) - 1, np.int32)
        factor, offset = embed_label(used, gathered, data.mean_square, difference, steps, step_size,
                                     e[:width], g[:width], traces[number], winners)  # fmt: skip
        offsets[number] = offset
        if len(written.weights) > 0:
            before = n_written
            n_written = write_row(factor, e[:width], features, smallest, before, written.indices, written.weights)
            written.lengths[number] = n_written - before
        if len(owners.sample) > 0:
            length = round_embedding(factor, smallest, e[:width])
            tie = FLOAT32_TIE * (length + abs(offset) * np.sqrt(data.mean_square))
            own_groups(groups, data.members, gathered, used, e, offset, tie, winners, at, owners)
    return n_written


@jit
def rows_of_samples(samples, rows, measures):
    """(Rows of the samples where they are stored, how far two of them can be apart).

    No two rows are farther apart than the last number times the longer one.
    """
    indptr, columns, values = rows
    first = np.empty(len(samples), np.int64)
    last = np.empty(len(samples), np.int64)
    norm = np.empty(len(samples))
    mean_score = np.empty(len(samples))
    difference = np.sqrt(2.0)  # the angle between rows without negative values is at most a right one
    for i in range(len(samples)):
        sample = samples[i]
        if measures.negative[sample]:
            difference = 2.0
        first[i], last[i] = indptr[sample], indptr[sample + 1]
        norm[i], mean_score[i] = measures.norm[sample], measures.mean_score[sample]
    return Rows(first, last, columns, values, norm, mean_score), difference


@jit
def write_row(factor, e, features, smallest, n_written, indices, weights):
    """Write the entries of factor * e above `smallest`, from place n_written on; returns the place after the last one.

    features: the feature of each place of e, or empty where the place is the feature.
    """
    renumbered = len(features) > 0
    for p in range(len(e)):  # every entry is written, and kept by moving on: there is no branch to predict
        weight = np.float32(factor * e[p])
        indices[n_written] = features[p] if renumbered else p
        weights[n_written] = weight
        n_written += abs(weight) > smallest
    return n_written


@jit
def round_embedding(factor, smallest, e):
    """e = factor * e as a reader of the result sees it: in float32, small entries left out. Returns its length."""
    square = 0.0
    for p in range(len(e)):
        weight = np.float32(factor * e[p])
        e[p] = weight if abs(weight) > smallest else np.float32(0)
        square += e[p] * e[p]
    return np.sqrt(square)


@jit
def place_rows(written, rows):
    """Copy rows that were written back to back to the place where the row of each label begins."""
    row_starts, row_indices, row_weights = rows
    source = 0
    for number in range(len(written.labels)):
        target = row_starts[written.labels[number]]
        for p in range(written.lengths[number]):
            row_indices[target + p] = written.indices[source + p]
            row_weights[target + p] = written.weights[source + p]
        source += written.lengths[number]
