"""Kernels that forecast the labels of held-out groups from weighted owners in the other groups.

Holds no judgement of a forecast: that is `selection`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.eagle._posteriors_numba import CEILING, RULED_OUT, log_sums_of
from xpipe.eagle._whitened_numba import MOST_OWN, add_coordinates, add_rows, clear_rows
from xpipe.ground.accelerate import jit


class ForecastSpace(NamedTuple):
    """Work space of one thread, float32; several labels lie side by side in lanes.

    dense [n_features], leading [rank], sums [n_features, lanes] and weight_of [n_samples] are zero on entry and on
    exit. sum_coordinates [rank, lanes], scores and told [judged samples, lanes] may hold anything.
    """

    dense: np.ndarray
    leading: np.ndarray
    sums: np.ndarray
    sum_coordinates: np.ndarray
    scores: np.ndarray
    told: np.ndarray
    weight_of: np.ndarray


@jit
def add_owners(samples, weights, rows, space, lane):
    """Put the weighted sums of the rows of some samples into a lane of space.sums and space.sum_coordinates."""
    indptr, indices, values = rows.sparse
    dense, leading, sums = space.dense, space.leading, space.sums
    add_rows(samples, weights, indptr, indices, values, dense)
    add_coordinates(samples, weights, rows.coordinates, leading)
    for place in range(len(samples)):
        for entry in range(indptr[samples[place]], indptr[samples[place] + 1]):
            sums[indices[entry], lane] = dense[indices[entry]]
    space.sum_coordinates[:, lane] = leading
    clear_rows(samples, indptr, indices, dense)
    leading[:] = 0


@jit
def score_samples(samples, rows, space):
    """space.scores = the scores of some samples, for the labels of all lanes."""
    indptr, indices, values = rows.sparse
    scores, sums, sum_coordinates = space.scores, space.sums, space.sum_coordinates
    lanes = sums.shape[1]
    scores[:] = 0
    for place in range(len(samples)):
        row, found = samples[place], scores[place]
        own_indices, own_values = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
        for entry in range(len(own_indices)):
            source, value = sums[own_indices[entry]], own_values[entry]
            for lane in range(lanes):
                found[lane] += value * source[lane]
        for c in range(len(sum_coordinates)):
            source, value = sum_coordinates[c], rows.coordinates[row, c]
            for lane in range(lanes):
                found[lane] -= value * source[lane]


@jit
def tell_lane(samples, weights, judged, space, lane):
    """Put the weights of owners among the judged samples into a lane of space.told."""
    for place in range(len(samples)):
        space.weight_of[samples[place]] = weights[place]
    for place in range(len(judged)):
        space.told[place, lane] = space.weight_of[judged[place]]
    for place in range(len(samples)):
        space.weight_of[samples[place]] = 0


@jit
def leave_judged_out(held, rows, kinship, space):
    """Correct space.scores: no group may have a say in its own scores.

    Held-out groups take part in the regression as well, with posteriors of zero. As in the rounds, the scores s of the
    members of a group become q + (I - H)^-1 (s - q); where the group is too large for that, only the sample itself is
    left out.
    """
    scores, told = space.scores, space.told
    for group in range(len(held.starts) - 1):
        first, last = held.starts[group], held.starts[group + 1]
        kin, size = kinship.starts[group], last - first
        if kin < 0:
            for place in range(first, last):
                own = min(max(rows.influence[held.items[place]], np.float32(0)), np.float32(MOST_OWN))
                for lane in range(scores.shape[1]):
                    missing = scores[place, lane] - told[place, lane]
                    scores[place, lane] = told[place, lane] + missing / (np.float32(1) - own)
            continue
        inside = np.empty((size, scores.shape[1]), np.float32)
        for place in range(size):  # loops: assignments to slices are kernels of their own to the compiler
            for lane in range(scores.shape[1]):
                inside[place, lane] = scores[first + place, lane] - told[first + place, lane]
                scores[first + place, lane] = told[first + place, lane]
        for place in range(size):
            found = scores[first + place]
            for other in range(size):
                share = kinship.values[kin + place * size + other]
                for lane in range(scores.shape[1]):
                    found[lane] += share * inside[other, lane]


@jit
def forecast_labels(labels, owners, rows, held, kinship, space, quarters, log_none, log_sums):
    """Forecast some labels for all held-out groups.

    owners: Triple, labels x samples, the weights of the owners. held: the samples of each held-out group.
    log_none[i, j] = log of the chance that no sample of held-out group j has label i. log_sums[i, j, n] = log of
    the sum of the scores of its samples to the power quarters[n] / 4.
    """
    owner_starts, owner_samples, weights = owners
    lanes = space.sums.shape[1]
    for first in range(0, len(labels), lanes):
        some = labels[first : first + lanes]
        for lane in range(len(some)):
            inside = slice(owner_starts[some[lane]], owner_starts[some[lane] + 1])
            add_owners(owner_samples[inside], weights[inside], rows, space, lane)
            tell_lane(owner_samples[inside], weights[inside], held.items, space, lane)
        score_samples(held.items, rows, space)
        leave_judged_out(held, rows, kinship, space)
        for lane in range(len(some)):
            inside = slice(owner_starts[some[lane]], owner_starts[some[lane] + 1])
            clear_rows(owner_samples[inside], rows.sparse.indptr, rows.sparse.indices, space.sums)
            for group in range(len(held.starts) - 1):
                scores = space.scores[held.starts[group] : held.starts[group + 1], lane]
                total = 0.0
                for place in range(len(scores)):
                    total += np.log1p(-min(max(scores[place], RULED_OUT), CEILING))
                log_none[first + lane, group] = total
                log_sums_of(scores, quarters, log_sums[first + lane, group])
