"""Kernels that rank: the best labels of each row, from sparse or dense scores, or from lists that are ranked already.

Hold no validation beyond status codes, and no threads. `filtered` are the labels that a row leaves out, ascending.
`filters` and `true` are `truth.Filters` and `truth.Truth`. Each kernel over rows returns (status, row, place in the
row) of the first thing that is wrong.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit

FINE, BEYOND, TWICE, NOT_FINITE, AFTER_NONE = 0, 1, 2, 3, 4
LANES = 16  # parts of a row whose maxima bound its best scores; fixed, so that they fit vector registers
SIGN, ALL, HALF = np.uint32(0x80000000), np.uint32(0xFFFFFFFF), np.uint64(32)  # sign bit, all bits; half of a key
SHORT = 12  # lists up to this length are searched from the start, longer ones by bisection first


class Scores(NamedTuple):
    """Scores of all rows.

    indptr int64 is empty where every label of every row has a score; then indices int32 are all labels, once. values:
    float32 or float64. bits uint32: those of float32 values, else empty. lowest: the smallest label allowed, -1 where
    that stands for none.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    bits: np.ndarray
    lowest: int
    n_labels: int


class Space(NamedTuple):
    """Work space. stamps int32 [n_labels]: no row's number at first. places int32: one more than a row has entries."""

    stamps: np.ndarray
    places: np.ndarray


@jit
def contains(labels, label):
    """Whether a label is among ascending labels."""
    first, last = 0, len(labels)
    while last - first > SHORT:
        middle = (first + last) >> 1
        if labels[middle] <= label:
            first = middle
        else:
            last = middle
    found = False
    for p in range(first, last):  # to the end: faster than a branch that is hard to predict
        found |= labels[p] == label
    return found


@jit
def check_labels(labels, lowest, n_labels, row, stamps):
    """(status, place): labels must be within lowest..n_labels - 1, and none but -1 may be repeated."""
    ascending = True
    for p in range(1, len(labels)):
        ascending &= labels[p] > labels[p - 1]
    if ascending and (len(labels) == 0 or (labels[0] >= lowest and labels[-1] < n_labels)):
        return FINE, 0
    for p in range(len(labels)):
        label = labels[p]
        if label < lowest or label >= n_labels:
            return BEYOND, p
        if label >= 0:
            if stamps[label] == row:
                return TWICE, p
            stamps[label] = row
    return FINE, 0


@jit
def bound_best(scores, maxima, best):
    """A score that at least len(best) scores reach: the len(best)-th largest of the maxima of LANES parts."""
    for lane in range(LANES):
        maxima[lane] = scores[lane]
    whole = len(scores) - len(scores) % LANES
    for start in range(LANES, whole, LANES):
        part = scores[start : start + LANES]
        for lane in range(LANES):
            score = part[lane]
            maxima[lane] = score if score > maxima[lane] else maxima[lane]
    for p in range(whole, len(scores)):
        score = scores[p]
        maxima[p - whole] = score if score > maxima[p - whole] else maxima[p - whole]
    for j in range(len(best)):
        best[j] = -np.inf
    for lane in range(LANES):  # without branches: each score moves down the places and swaps where it is larger
        score = maxima[lane]
        for j in range(len(best)):
            here = best[j]
            best[j] = score if score > here else here
            score = here if score > here else score
    return best[-1]


@jit
def gather_places(scores, least, places):
    """List in `places` where scores reach `least`, or are nan, which is found later. Returns their number."""
    n_places = 0
    for p in range(len(scores)):  # always written, not always kept: faster than a branch that is hard to predict
        places[n_places] = p
        n_places += not scores[p] < least
    return n_places


@jit
def all_finite(scores, places):
    """Whether none of the scores at these places, which are above -inf, is inf or nan."""
    fine = True
    for p in places:
        fine &= scores[p] < np.inf
    return fine


@jit
def rank_row(labels, scores, filtered, places, best_labels, best_scores):
    """Fill the best of the entries at these places, higher score first, then smaller label.

    Labels -1 and scores -inf are no predictions. Returns (status, place, number of predictions).
    """
    width = len(best_labels)
    length = 0
    for p in places:
        score, label = scores[p], labels[p]
        if not ((score > -np.inf) & (score < np.inf) & (label >= 0)):  # one branch for all rare cases
            if label < 0 or score == -np.inf:
                continue
            return NOT_FINITE, p, 0
        if len(filtered) > 0 and contains(filtered, label):
            continue
        if length < width:
            at = length
            length += 1
        elif score > best_scores[width - 1] or (score == best_scores[width - 1] and label < best_labels[width - 1]):
            at = width - 1
        else:
            continue
        while at > 0 and (
            score > best_scores[at - 1] or (score == best_scores[at - 1] and label < best_labels[at - 1])
        ):
            best_labels[at], best_scores[at] = best_labels[at - 1], best_scores[at - 1]
            at -= 1
        best_labels[at], best_scores[at] = label, score
    return FINE, 0, length


@jit
def rank_float32(labels, bits, places, keys, ranked):
    """`rank_row` for more scores than are wanted, all finite, without filter. Returns whether they are tied.

    bits: those of the scores. A score and its label make one key; the order of keys as whole numbers is the order of
    the ranking, so the best are kept without branches.
    """
    for j in range(len(keys)):
        keys[j] = 0
    for p in places:
        score = bits[p] if bits[p] != SIGN else np.uint32(0)  # -0.0 and 0.0 are equal
        flip = SIGN if score < SIGN else ALL
        key = (np.uint64(score ^ flip) << HALF) | np.uint64(ALL - np.uint32(labels[p]))
        for j in range(len(keys)):
            here = keys[j]
            keys[j] = max(key, here)
            key = min(key, here)
    tied = False
    for j in range(len(ranked)):
        ranked[j] = np.int32(ALL - np.uint32(keys[j]))
        tied |= (keys[j] >> HALF) == (keys[j + 1] >> HALF)
    return tied


@jit
def keep_best(best_labels, best_scores, length, ranked):
    """Write the best labels, then -1. Returns whether equal scores decided about any of them."""
    tied = False
    for j in range(len(ranked)):
        ranked[j] = best_labels[j] if j < length else -1
        tied |= j + 1 < length and best_scores[j] == best_scores[j + 1]
    return tied


@jit
def entries_of(row, scores, stamps):
    """(status, place, first entry, last entry + 1, labels) of a row."""
    if len(scores.indptr) == 0:
        return FINE, 0, row * scores.n_labels, (row + 1) * scores.n_labels, scores.indices
    start, end = scores.indptr[row], scores.indptr[row + 1]
    labels = scores.indices[start:end]
    status, place = check_labels(labels, scores.lowest, scores.n_labels, row, stamps)
    return status, place, start, end, labels


@jit
def rank_rows(first, last, scores, filters, space, ranked, tied):
    """Rank the entries of rows first..last-1: fill ranked [rows, k], -1 after the last label, and tied [rows]."""
    width = ranked.shape[1] + 1  # one more than asked for shows whether the last one asked for is tied
    best_labels, best_scores = np.empty(width, np.int32), np.empty(width, scores.values.dtype)
    keys, maxima = np.empty(width, np.uint64), np.empty(LANES, scores.values.dtype)
    for row in range(first, last):
        length = 0
        status, place, start, end, labels = entries_of(row, scores, space.stamps)
        if status == FINE:
            values = scores.values[start:end]
            filtered = filters.labels[filters.ptr[row] : filters.ptr[row + 1]]
            least = scores.values.dtype.type(-np.inf)
            if scores.lowest == 0 and len(filtered) == 0 and width <= LANES < len(values):
                least = bound_best(values, maxima, best_scores)
            found = space.places[: gather_places(values, least, space.places)]
            if len(scores.bits) and least > -np.inf and all_finite(values, found):
                tied[row] = rank_float32(labels, scores.bits[start:end], found, keys, ranked[row])
                continue
            status, place, length = rank_row(labels, values, filtered, found, best_labels, best_scores)
        if status != FINE:
            return status, row, place
        tied[row] = keep_best(best_labels, best_scores, length, ranked[row])
    return FINE, 0, 0


@jit
def take_ranked(first, last, lists, n_labels, filters, stamps, ranked):
    """Fill `ranked` with the first labels of lists that are in order already, -1 after the last label."""
    for row in range(first, last):
        labels = lists[row]
        status, place = check_labels(labels, -1, n_labels, row, stamps)
        if status != FINE:
            return status, row, place
        filtered = filters.labels[filters.ptr[row] : filters.ptr[row + 1]]
        length, ended = 0, False
        for p in range(len(labels)):
            if labels[p] < 0:
                ended = True
            elif ended:
                return AFTER_NONE, row, p
            elif length < ranked.shape[1] and not (len(filtered) > 0 and contains(filtered, labels[p])):
                ranked[row, length] = labels[p]
                length += 1
        ranked[row, length:] = -1
    return FINE, 0, 0


@jit
def count_row(labels, scores, threshold, filtered, true, predicted, hits):
    """(status, place): count the labels whose score reaches the threshold, and those of them that are true."""
    for p in range(len(labels)):
        if scores[p] < threshold or labels[p] < 0:
            continue
        if not scores[p] < np.inf:
            return NOT_FINITE, p
        if len(filtered) > 0 and contains(filtered, labels[p]):
            continue
        predicted[labels[p]] += 1
        hits[labels[p]] += contains(true, labels[p])
    return FINE, 0


@jit
def count_rows(scores, threshold, remove_empty, true, filters, stamps, predicted, hits):
    """Count the predictions of all rows by label. remove_empty: only of rows with true labels."""
    for row in range(len(true.ptr) - 1):
        status, place, start, end, labels = entries_of(row, scores, stamps)
        if status == FINE and not (remove_empty and true.ptr[row] == true.ptr[row + 1]):
            filtered = filters.labels[filters.ptr[row] : filters.ptr[row + 1]]
            own = true.labels[true.ptr[row] : true.ptr[row + 1]]
            status, place = count_row(labels, scores.values[start:end], threshold, filtered, own, predicted, hits)
        if status != FINE:
            return status, row, place
    return FINE, 0, 0
