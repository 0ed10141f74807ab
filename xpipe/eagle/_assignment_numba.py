"""Kernels of assignment: the best sample of every group for every label, and the matrix that these choices make.

Holds no validation, no threads and no embedding.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._rows_numba import dot_row
from xpipe.ground.accelerate import jit

FLOAT32_TIE = 2e-7  # scores are equal when embeddings in float32 cannot tell them apart
LEAST = -1e300  # below every score


class GroupOwners(NamedTuple):
    """The chosen sample and its score, per group of each label, in the order of `label_groups`.

    The sample is -1 where the group has no samples.
    """

    sample: np.ndarray  # int32
    score: np.ndarray  # float64


@jit
def own_groups(groups, group_members, gathered, rows, e, offset, tie, winners, at, owners):
    """The best sample of each group of a label by <e - offset * mean, row>; the owners are written from `at` on.

    winners: per group with samples, the sample that is known to win, or -1. No other sample of such a group is scored.
    """
    first, last, columns, values, norm, mean_score = rows
    starts, members, samples, _ = gathered
    scores = np.empty(len(samples))
    full = 0  # number of the group among those with samples
    for number in range(len(groups)):
        owners.sample[at + number] = -1
        if group_members.starts[groups[number]] == group_members.starts[groups[number] + 1]:
            continue
        inside = members[starts[full] : starts[full + 1]]
        if winners[full] >= 0:
            inside = winners[full : full + 1]
        full += 1
        best = LEAST
        for i in inside:
            scores[i] = dot_row(columns, values, first[i], last[i], e) - offset * mean_score[i]
            best = max(best, scores[i] - tie * norm[i])
        for i in inside:
            if scores[i] + tie * norm[i] >= best:
                owners.sample[at + number] = samples[i]
                owners.score[at + number] = scores[i]
                break


@jit
def assign_labels(labels, data, embedding, offsets, e, group_scores, owners):
    """The best sample of every group for every label of a chunk: of those that tie, the one with the lowest number.

    embedding: Triple, labels x features. Work space: e, float32 per feature, zero on entry and on exit; group_scores,
    as long as the largest group.
    """
    indptr, columns, values = data.rows
    norms, mean_scores, _ = data.measures
    group_starts, group_samples = data.members
    label_starts, label_groups = data.label_groups
    row_starts, row_indices, row_weights = embedding
    mean_norm = np.sqrt(data.mean_square)
    for label in labels:
        square = 0.0
        for p in range(row_starts[label], row_starts[label + 1]):
            e[row_indices[p]] = row_weights[p]
            square += np.float64(row_weights[p]) * row_weights[p]
        tie = FLOAT32_TIE * (np.sqrt(square) + abs(offsets[label]) * mean_norm)
        for at in range(label_starts[label], label_starts[label + 1]):
            samples = group_samples[group_starts[label_groups[at]] : group_starts[label_groups[at] + 1]]
            best = LEAST
            for q in range(len(samples)):
                i = samples[q]
                product = dot_row(columns, values, indptr[i], indptr[i + 1], e)
                group_scores[q] = product - offsets[label] * mean_scores[i]
                best = max(best, group_scores[q] - tie * norms[i])
            owners.sample[at] = -1
            for q in range(len(samples)):
                if group_scores[q] + tie * norms[samples[q]] >= best:
                    owners.sample[at] = samples[q]
                    owners.score[at] = group_scores[q]
                    break
        for p in range(row_starts[label], row_starts[label + 1]):
            e[row_indices[p]] = 0.0


@jit
def count_owners(label_starts, owners, last_label, indptr):
    """indptr of samples x labels: one entry per (sample, label), however many groups chose it.

    last_label is -1 on entry, indptr is 0.
    """
    for label in range(len(label_starts) - 1):
        for at in range(label_starts[label], label_starts[label + 1]):
            sample = owners.sample[at]
            if sample >= 0 and last_label[sample] != label:
                last_label[sample] = label
                indptr[sample + 1] += 1
    for sample in range(len(indptr) - 1):
        indptr[sample + 1] += indptr[sample]


@jit
def write_owners(label_starts, owners, last_label, filled, rows):
    """Entries of samples x labels, labels ascending in every row. On entry last_label is -1 and filled is 0."""
    indptr, labels, scores = rows
    for label in range(len(label_starts) - 1):
        for at in range(label_starts[label], label_starts[label + 1]):
            sample = owners.sample[at]
            if sample >= 0 and last_label[sample] != label:
                last_label[sample] = label
                p = indptr[sample] + filled[sample]
                filled[sample] += 1
                labels[p] = label
                scores[p] = owners.score[at]
