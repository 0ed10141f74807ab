"""Kernels of embedding and assignment: loops over the labels of a chunk, rows of the answer written back to back.

Hold no validation and no threads. X is indptr, columns (uint32: no test for a negative index), values; label_ptr and
label_groups are the groups of each label (Y2 by columns), group_ptr and group_samples the samples of each group (Y1 by
columns).
"""

from __future__ import annotations

import numpy as np

from xpipe.eagle._rows_numba import Rows, add_row, dot_row, gather_rows, gather_samples, number_features
from xpipe.eagle._steps_numba import HUGE, embed_label
from xpipe.ground.accelerate import jit

FLOAT32_TIE = 2e-7  # scores are equal when embeddings in float32 cannot tell them apart


@jit
def embed_labels(labels, label_ptr, label_groups, group_ptr, group_samples, indptr, columns, values, norms, mean_scores,
                 negative, mean_square, steps, step_size, smallest, place, block_columns, block_values, marks,
                 local_of, features, e, g, lengths, indices, weights, offsets, traces, owners,
                 owner_scores):  # fmt: skip
    """Embed labels one after the other, rows written back to back; returns the number of entries.

    Work space: place (a number a sample, all -1), e and g (a number a feature), the block, and, where a label's
    features are to be renumbered, marks (a bit a feature, all clear), local_of and features; else these are empty.
    lengths, offsets: one a label; traces: labels x (steps + 1), zeros, or labels x 0. owners, owner_scores: as in
    `assign_labels`, to assign at once while a label's rows are at hand; or empty. Without room for indices and weights
    only owners are found.
    """
    n_features = len(e)
    written = 0
    for number in range(len(labels)):
        lengths[number] = 0
        offsets[number] = 0.0
        groups = label_groups[label_ptr[labels[number]] : label_ptr[labels[number] + 1]]
        n_members = 0
        for group in groups:
            n_members += group_ptr[group + 1] - group_ptr[group]
        if n_members == 0:
            continue
        starts = np.empty(len(groups) + 1, np.int64)
        members = np.empty(n_members, np.int32)
        samples = np.empty(n_members, np.int32)
        counts = np.empty(n_members, np.int32)
        n_groups, n_samples = gather_samples(groups, group_ptr, group_samples, place, starts, members, samples, counts)
        starts, samples, counts = starts[: n_groups + 1], samples[:n_samples], counts[:n_samples]
        first = np.empty(n_samples, np.int64)
        last = np.empty(n_samples, np.int64)
        norm = np.empty(n_samples)
        mean_score = np.empty(n_samples)
        entries = 0
        difference = np.sqrt(2.0)  # rows without negative values are at most at right angles
        for i in range(n_samples):
            sample = samples[i]
            if negative[sample]:
                difference = 2.0
            first[i], last[i] = indptr[sample], indptr[sample + 1]
            norm[i], mean_score[i] = norms[sample], mean_scores[sample]
            entries += last[i] - first[i]
        renumbered = len(marks) > 0 and entries <= len(block_values)
        width = number_features(first, last, columns, marks, local_of, features) if renumbered else n_features
        e[:width] = 0.0
        winners = np.empty(n_groups, np.int32)
        if entries <= len(block_values):
            gather_rows(first, last, columns, values, local_of, counts, block_columns, block_values, e)
            block = Rows(first, last, block_columns, block_values, norm, mean_score)
            factor, offset = embed_label(block, counts, starts, members, mean_square, difference, steps, step_size,
                                         e[:width], g[:width], traces[number], winners)  # fmt: skip
        else:
            for i in range(n_samples):
                add_row(columns, values, first[i], last[i], np.float64(counts[i]), e)
            rows = Rows(first, last, columns, values, norm, mean_score)
            factor, offset = embed_label(rows, counts, starts, members, mean_square, difference, steps, step_size,
                                         e, g, traces[number], winners)  # fmt: skip
        offsets[number] = offset
        before = written
        for p in range(width if len(weights) > 0 else 0):  # always written, not always kept: no branch to foresee
            weight = np.float32(factor * e[p])
            indices[written] = features[p] if renumbered else p
            weights[written] = weight
            written += abs(weight) > smallest
        lengths[number] = written - before
        if len(owners) > 0:
            square = 0.0
            for p in range(width):  # the embedding as others will read it: in float32, small entries left out
                weight = np.float32(factor * e[p])
                e[p] = weight if abs(weight) > smallest else np.float32(0)
                square += e[p] * e[p]
            tie = FLOAT32_TIE * (np.sqrt(square) + abs(offset) * np.sqrt(mean_square))
            at = label_ptr[labels[number]]
            if entries <= len(block_values):
                block = Rows(first, last, block_columns, block_values, norm, mean_score)
                own_groups(groups, group_ptr, starts, members, samples, block, offset, e, tie, winners, at, owners,
                           owner_scores)  # fmt: skip
            else:
                rows = Rows(first, last, columns, values, norm, mean_score)
                own_groups(groups, group_ptr, starts, members, samples, rows, offset, e, tie, winners, at, owners,
                           owner_scores)  # fmt: skip
    return written


@jit
def own_groups(groups, group_ptr, starts, members, samples, rows, offset, e, tie, winners, at, owners, owner_scores):
    """The best sample of each group of a label by <e - offset * mean, row>; owners stand from `at` on.

    Where the winner is known already, no other sample is scored.
    """
    first, last, columns, values, norm, mean_score = rows
    scores = np.empty(len(samples))
    full = 0
    for number in range(len(groups)):
        owners[at + number] = -1
        if group_ptr[groups[number]] == group_ptr[groups[number] + 1]:
            continue
        inside = members[starts[full] : starts[full + 1]]
        if winners[full] >= 0:
            inside = winners[full : full + 1]
        full += 1
        best = -HUGE
        for i in inside:
            scores[i] = dot_row(columns, values, first[i], last[i], e) - offset * mean_score[i]
            best = max(best, scores[i] - tie * norm[i])
        for i in inside:
            if scores[i] + tie * norm[i] >= best:
                owners[at + number] = samples[i]
                owner_scores[at + number] = scores[i]
                break


@jit
def place_rows(labels, lengths, indices, weights, row_ptr, row_indices, row_weights):
    """Copy rows written back to back to where each label's row begins."""
    source = 0
    for number in range(len(labels)):
        target = row_ptr[labels[number]]
        for p in range(lengths[number]):
            row_indices[target + p] = indices[source + p]
            row_weights[target + p] = weights[source + p]
        source += lengths[number]


@jit
def assign_labels(labels, label_ptr, label_groups, group_ptr, group_samples, indptr, columns, values, norms,
                  mean_scores, mean_norm, row_ptr, row_indices, row_weights, offsets, e, group_scores, owners,
                  owner_scores):  # fmt: skip
    """The best sample of every group for every label of the chunk: of those that tie, the one with the lowest number.

    row_*: the embeddings, mean_norm: |mean|. Work space: e (a float32 a feature, all zero), group_scores (as long as
    the largest group). owners (-1: no samples) and owner_scores stand where label_groups has the group.
    """
    for label in labels:
        square = 0.0
        for p in range(row_ptr[label], row_ptr[label + 1]):
            e[row_indices[p]] = row_weights[p]
            square += np.float64(row_weights[p]) * row_weights[p]
        tie = FLOAT32_TIE * (np.sqrt(square) + abs(offsets[label]) * mean_norm)
        for at in range(label_ptr[label], label_ptr[label + 1]):
            samples = group_samples[group_ptr[label_groups[at]] : group_ptr[label_groups[at] + 1]]
            best = -HUGE
            for q in range(len(samples)):
                i = samples[q]
                product = dot_row(columns, values, indptr[i], indptr[i + 1], e)
                group_scores[q] = product - offsets[label] * mean_scores[i]
                best = max(best, group_scores[q] - tie * norms[i])
            owners[at] = -1
            for q in range(len(samples)):
                if group_scores[q] + tie * norms[samples[q]] >= best:
                    owners[at] = samples[q]
                    owner_scores[at] = group_scores[q]
                    break
        for p in range(row_ptr[label], row_ptr[label + 1]):
            e[row_indices[p]] = 0.0


@jit
def count_owners(label_ptr, owners, last_label, row_ptr):
    """row_ptr of samples x labels: one entry a (sample, label), however many groups chose it. last_label: all -1."""
    for label in range(len(label_ptr) - 1):
        for at in range(label_ptr[label], label_ptr[label + 1]):
            sample = owners[at]
            if sample >= 0 and last_label[sample] != label:
                last_label[sample] = label
                row_ptr[sample + 1] += 1
    for sample in range(len(row_ptr) - 1):
        row_ptr[sample + 1] += row_ptr[sample]


@jit
def write_owners(label_ptr, owners, owner_scores, last_label, row_ptr, filled, labels, scores):
    """Entries of samples x labels, labels in order in every row. last_label: all -1; filled: zeros."""
    for label in range(len(label_ptr) - 1):
        for at in range(label_ptr[label], label_ptr[label + 1]):
            sample = owners[at]
            if sample >= 0 and last_label[sample] != label:
                last_label[sample] = label
                p = row_ptr[sample] + filled[sample]
                filled[sample] += 1
                labels[p] = label
                scores[p] = owner_scores[at]


@jit
def find_lost(group_ptr, group_samples, labels_ptr, group_labels, owned_ptr, owned_labels, mark):
    """The first (group, label) that has samples, none of which owns the label; (-1, -1): none. mark [n_labels]: -1."""
    for group in range(len(group_ptr) - 1):
        if group_ptr[group] == group_ptr[group + 1]:
            continue
        for p in range(labels_ptr[group], labels_ptr[group + 1]):
            mark[group_labels[p]] = group
        wanted = labels_ptr[group + 1] - labels_ptr[group]
        for at in range(group_ptr[group], group_ptr[group + 1]):
            if wanted == 0:
                break
            sample = group_samples[at]
            for p in range(owned_ptr[sample], owned_ptr[sample + 1]):
                if mark[owned_labels[p]] == group:
                    mark[owned_labels[p]] = -1
                    wanted -= 1
        if wanted > 0:
            for p in range(labels_ptr[group], labels_ptr[group + 1]):
                if mark[group_labels[p]] == group:
                    return group, np.int64(group_labels[p])
    return -1, np.int64(-1)


@jit
def find_stranger(sample_ptr, sample_groups, labels_ptr, group_labels, owned_ptr, owned_labels, mark):
    """The first (sample, label) that is owned, but by no group of the sample allowed; (-1, -1): none. mark: all -1."""
    for sample in range(len(owned_ptr) - 1):
        p, stop = owned_ptr[sample], owned_ptr[sample + 1]
        if sample_ptr[sample + 1] == sample_ptr[sample] + 1:  # most samples: two lists in order, read side by side
            group = sample_groups[sample_ptr[sample]]
            for at in range(labels_ptr[group], labels_ptr[group + 1]):
                if p == stop:
                    break
                p += owned_labels[p] == group_labels[at]
        if p == stop:
            continue
        for at in range(sample_ptr[sample], sample_ptr[sample + 1]):
            group = sample_groups[at]
            for q in range(labels_ptr[group], labels_ptr[group + 1]):
                mark[group_labels[q]] = sample
        for q in range(p, stop):
            if mark[owned_labels[q]] != sample:
                return sample, np.int64(owned_labels[q])
    return -1, np.int64(-1)
