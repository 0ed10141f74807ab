"""Kernels that measure rows of ranked labels, count them by label, and resample them.

Hold no validation and no threads. ranked: rows x k label numbers, best first, -1 for none. true: a `truth.Truth`; the
true labels of a row are true.labels[true.ptr[row] : true.ptr[row + 1]], ascending.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit
from xpipe.metrics._ranking_numba import contains

# The quantities that a row adds to the metrics at 1..k: the second axis of `contributions`.
HITS, RECALL, NDCG, PREDICTED, TRUE, PSP, PSP_BEST, PSNDCG, PSNDCG_BEST = range(9)
PLAIN = 5  # quantities without propensities; with them there are nine


class Gains(NamedTuple):
    """What a hit is worth, float64.

    weights [n_labels]: inverse propensities, or empty. discounts [k]: 1 / log2(1 + rank). inverse_ideal [k]: 1 / the
    running sums of the discounts.
    """

    weights: np.ndarray
    discounts: np.ndarray
    inverse_ideal: np.ndarray


@jit
def measure_rows(first, last, ranked, true, gains, hits, contributions, sums):
    """Fill hits (rows x k, 0 or 1) of rows first..last-1, and add what each row contributes to sums (quantities x k).

    contributions: rows x (quantities x k), to be filled, or empty.
    """
    weights, discounts, inverse_ideal = gains.weights, gains.discounts, gains.inverse_ideal
    k = ranked.shape[1]
    best_weights = np.empty(k)
    given = np.empty(sums.shape)
    flat_given, flat_sums = given.reshape(-1), sums.reshape(-1)  # one loop over all of them is fast
    for row in range(first, last):
        own = true.labels[true.ptr[row] : true.ptr[row + 1]]
        n_true = len(own)
        last_true = max(n_true - 1, 0)
        one_true = 1.0 / max(n_true, 1)
        n_best = keep_largest(own, weights, best_weights) if len(weights) else 0
        n_hits, gain, n_predicted = 0, 0.0, 0
        scored, scored_gain, best, best_gain = 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            label = ranked[row, j]
            hit = label >= 0 and contains(own, label)
            hits[row, j] = hit
            n_predicted += label >= 0
            if hit:
                n_hits += 1
                gain += discounts[j]
            possible = inverse_ideal[min(j, last_true)]
            given[HITS, j] = n_hits
            given[RECALL, j] = n_hits * one_true
            given[NDCG, j] = gain * possible
            given[PREDICTED, j] = n_predicted
            given[TRUE, j] = n_true
            if len(weights):
                if hit:
                    scored += weights[label]
                    scored_gain += weights[label] * discounts[j]
                if j < n_best:
                    best += best_weights[j]
                    best_gain += best_weights[j] * discounts[j]
                given[PSP, j] = scored
                given[PSP_BEST, j] = best
                given[PSNDCG, j] = scored_gain * possible
                given[PSNDCG_BEST, j] = best_gain * possible
        for place in range(len(flat_sums)):
            flat_sums[place] += flat_given[place]
        if len(contributions):
            for place in range(len(flat_given)):
                contributions[row, place] = flat_given[place]


@jit
def keep_largest(true, weights, largest):
    """Fill `largest` with the largest weights of the true labels, in descending order. Returns their number."""
    length = 0
    for label in true:
        weight = weights[label]
        if length < len(largest):
            at = length
            length += 1
        elif weight > largest[-1]:
            at = length - 1
        else:
            continue
        while at > 0 and weight > largest[at - 1]:
            largest[at] = largest[at - 1]
            at -= 1
        largest[at] = weight
    return length


@jit
def count_labels(ranked, hits, counts):
    """Count for each label and rank [0] the rows where it has this rank, [1] those of them where it is true."""
    for row in range(ranked.shape[0]):
        for j in range(ranked.shape[1]):
            label = ranked[row, j]
            if label < 0:
                break
            counts[label, 0, j] += 1
            counts[label, 1, j] += hits[row, j]


@jit
def sum_labels(true, counts, f1_sums, covered):
    """Turn counts at ranks into counts up to ranks. Add up the F1 of all labels, and count the labels ever hit."""
    for label in range(len(true)):
        predicted, hits = 0, 0
        for j in range(counts.shape[2]):
            predicted += counts[label, 0, j]
            hits += counts[label, 1, j]
            counts[label, 0, j], counts[label, 1, j] = predicted, hits
            if hits:
                f1_sums[j] += 2.0 * hits / (predicted + true[label])
                covered[j] += 1


@jit
def draw_counts(seed, counts):
    """Count how often each of n items is drawn when n of them are drawn with replacement."""
    n = np.uint64(len(counts))
    counts[:] = 0
    state = np.uint64(seed)
    for _ in range(len(counts)):
        state += GOLDEN
        counts[((mix(state) >> np.uint64(32)) * n) >> np.uint64(32)] += 1


@jit
def resample_sums(seeds, contributions, counts, sums):
    """Add up contributions (rows x quantities) over one resample of the rows per seed.

    counts: seeds x rows, work space. sums: seeds x quantities, zeros at the start.
    """
    n_quantities = contributions.shape[1]
    given = np.empty(n_quantities)
    for number in range(len(seeds)):
        draw_counts(seeds[number], counts[number])
    for row in range(len(contributions)):  # the outer loop is over rows: each row is read once for all resamples
        for quantity in range(n_quantities):
            given[quantity] = contributions[row, quantity]
        for number in range(len(seeds)):
            count = np.float64(counts[number, row])
            total = sums[number]
            for quantity in range(n_quantities):
                total[quantity] += count * given[quantity]
