"""Embedding and assignment on a GPU: many labels at once, as sums and extremes of segments.

Holds no validation. Written against an array module (xp = cupy, or the stand-in of the tests), so that the very same
lines run where there is no GPU. The rules for ties and zeros are those of the CPU kernels. Sums have one fixed order
(`_segments_cupy`): a GPU gives the same bytes every time, though not those of the CPU.

A batch is laid out as triples (label, group, sample), here called pairs, and their entries, one after the other. A key
is a feature of a label. Sums over the entries of a pair give scores; sums over the entries of a key give sums of rows.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.eagle._assignment_numba import FLOAT32_TIE, GroupOwners
from xpipe.eagle._embedding_numba import WrittenRows
from xpipe.eagle._label_state_numba import TIE, ZERO
from xpipe.eagle._segments_cupy import Segments, lengths_of, spread
from xpipe.eagle.label_threads import Embedded, no_owners
from xpipe.eagle.options import EmbedOptions
from xpipe.eagle.problem import Problem, cut_labels, square_length
from xpipe.ground.sparse import Triple

BATCH = 1 << 24  # row entries of a batch; one label may need more


class Device:
    """The arrays of the problem on the device, and the mean row."""

    def __init__(self, xp: Any, problem: Problem, mean: np.ndarray):
        self.xp = xp
        self.indptr, self.indices, self.values = map(xp.asarray, problem.features)
        self.group_starts, self.group_samples = map(xp.asarray, problem.members)
        self.label_starts, self.label_groups = map(xp.asarray, problem.label_groups)
        self.n_features = problem.n_features
        self.mean = xp.asarray(mean) if len(mean) else xp.zeros(problem.n_features)
        self.mean_square = square_length(mean)
        self.mean_norm = self.mean_square**0.5


class Batch:
    """Pairs and entries of some labels. labels: their numbers, on the device."""

    def __init__(self, device: Any, labels: Any):
        xp = device.xp
        n_groups = device.label_starts[labels + 1] - device.label_starts[labels]
        label, place = spread(xp, n_groups)
        self.slots = device.label_starts[labels][label] + place  # where label_groups lists the group
        group = device.label_groups[self.slots]
        sizes = device.group_starts[group + 1] - device.group_starts[group]
        filled = sizes > 0
        self.slots, label, group, sizes = self.slots[filled], label[filled], group[filled], sizes[filled]
        self.n_labels = len(labels)
        segment, place = spread(xp, sizes)
        self.groups = Segments(xp, sizes, (segment, place))
        self.label = label[segment]
        self.labels = Segments(xp, lengths_of(xp, self.label, self.n_labels))
        self.sample = device.group_samples[device.group_starts[group][segment] + place]
        self.n_pairs = len(self.sample)
        lengths = device.indptr[self.sample + 1] - device.indptr[self.sample]
        self.pair, place = spread(xp, lengths)
        self.rows = Segments(xp, lengths, (self.pair, place))
        position = device.indptr[self.sample][self.pair] + place
        feature = device.indices[position]
        self.values = device.values[position].astype(xp.float64)
        self.keys = self.label[self.pair] * device.n_features + feature
        self.norm = xp.sqrt(self.rows.add(self.values**2))
        self.mean_score = self.rows.add(self.values * device.mean[feature])

    def best(self, scores: Any, tie: Any) -> Any:
        """Which pairs have the best score of their group, ties included."""
        high = self.groups.maximum(scores - tie * self.norm)
        return scores + tie * self.norm >= high[self.groups.piece]


class Vectors:
    """One vector per label, as numbers at the keys of the label minus offset times the mean."""

    def __init__(self, device: Any, batch: Batch):
        xp = device.xp
        order = xp.argsort(batch.keys) if len(batch.keys) else xp.arange(0)
        sorted_keys = batch.keys[order]
        is_new = xp.ones(len(order), dtype=xp.int64)
        is_new[1:] = (sorted_keys[1:] != sorted_keys[:-1]).astype(xp.int64)
        keys = sorted_keys[xp.flatnonzero(is_new)]
        self.xp, self.device, self.batch = xp, device, batch
        self.label, self.feature = keys // device.n_features, keys % device.n_features
        self.key_mean = device.mean[self.feature]
        self.key = xp.zeros(len(order), dtype=xp.int64)  # of every entry
        key = xp.cumsum(is_new) - 1 if len(order) else order
        self.key[order] = key
        self.of_keys = Segments(xp, lengths_of(xp, key, len(keys)))
        self.by_key = batch.values[order], batch.pair[order]
        self.of_labels = Segments(xp, lengths_of(xp, self.label, batch.n_labels))

    def squares(self, vector: Any, offset: Any) -> Any:
        """The squared length of each vector."""
        own, mean = self.of_labels.add(vector**2), self.of_labels.add(vector * self.key_mean)
        return own - offset * (2 * mean - offset * self.device.mean_square)

    def project(self, vector: Any, offset: Any, least: Any) -> tuple[Any, Any, Any]:
        """(unit vector, its offset, whether there is one); zero where the length is not above `least`."""
        square = self.squares(vector, offset)
        alive = square > least**2
        factor = self.xp.where(alive, 1 / self.xp.sqrt(self.xp.where(alive, square, 1.0)), 0.0)
        return vector * factor[self.label], offset * factor, alive

    def sum_direction(self, weights: Any) -> tuple[Any, Any, Any]:
        """The direction of the weighted sum of rows, per label, as `project` gives it."""
        batch = self.batch
        values, pair = self.by_key
        size = batch.labels.add(weights * (batch.norm + self.device.mean_norm))
        return self.project(self.of_keys.add(values * weights[pair]), batch.labels.add(weights), ZERO * size)

    def scores(self, vector: Any, offset: Any) -> Any:
        """The score of each pair."""
        products = self.batch.rows.add(self.batch.values * vector[self.key])
        return products - offset[self.batch.label] * self.batch.mean_score

    def first_direction(self, wanted: Any) -> tuple[Any, Any, Any]:
        """The direction of the first row that has one, for the labels where it is wanted."""
        xp, batch = self.xp, self.batch
        square = batch.norm**2 - 2 * batch.mean_score + self.device.mean_square
        usable = wanted[batch.label] & (square > (ZERO * (batch.norm + self.device.mean_norm)) ** 2)
        first = batch.labels.minimum(xp.where(usable, xp.arange(batch.n_pairs), batch.n_pairs), batch.n_pairs)
        weights = xp.zeros(batch.n_pairs)
        weights[first[first < batch.n_pairs]] = 1.0
        return self.sum_direction(weights)


def embed_labels(
    xp: Any,
    problem: Problem,
    labels: np.ndarray,
    options: EmbedOptions,
    mean: np.ndarray,
) -> Embedded:
    """Algorithm 1 for all labels, batch by batch. mean: empty unless centred."""
    device = Device(xp, problem, mean)
    offsets, objective = np.zeros(problem.n_labels), np.zeros(options.steps + 1)
    written = []
    for chunk in cut_labels(labels, problem.label_costs(), BATCH):
        vectors = Vectors(device, Batch(device, xp.asarray(chunk)))
        e, offset, trace = _embed_batch(vectors, options.steps, options.step_size)
        objective += trace
        weights = _to_host(e).astype(np.float32)
        label, feature = _to_host(vectors.label), _to_host(vectors.feature)
        kept = np.abs(weights) > np.float32(options.smallest)
        lengths = np.bincount(label[kept], minlength=len(chunk)).astype(np.int64)
        written.append(WrittenRows(chunk, lengths, feature[kept].astype(np.int32), weights[kept]))
        offsets[chunk] = _to_host(offset) if len(mean) else 0.0
    return Embedded(written, offsets, objective)


def _embed_batch(vectors: Vectors, steps: int, step_size: float) -> tuple[Any, Any, np.ndarray]:
    """(e, offset, objective after 0..steps steps) of a batch."""
    xp, batch = vectors.xp, vectors.batch
    e, offset, alive = vectors.sum_direction(xp.ones(batch.n_pairs))
    trace = np.zeros(steps + 1)
    for step in range(steps + 1):
        scores = vectors.scores(e, offset)
        trace[step] = _to_host(batch.groups.maximum(scores)).sum()
        if step == steps:
            break
        g, g_offset, g_alive = vectors.sum_direction(batch.best(scores, TIE).astype(xp.float64))
        lost = ~(alive | g_alive)
        if bool(lost.any()):
            first, first_offset, _ = vectors.first_direction(lost)
            g, g_offset = g + first, g_offset + first_offset
        e, offset, alive = vectors.project(
            e + step_size * g, offset + step_size * g_offset, ZERO * xp.where(alive, xp.ones(len(alive)), step_size)
        )
    return e, offset, trace


def assign_labels(
    xp: Any, problem: Problem, labels: np.ndarray, embedding: Triple, offsets: np.ndarray, mean: np.ndarray
) -> GroupOwners:
    """The owner of each group of each label, batch by batch. mean: empty unless centred."""
    device, owners = Device(xp, problem, mean), no_owners(problem)
    row_ptr, indices, weights = (xp.asarray(part) for part in embedding)
    for chunk in cut_labels(labels, problem.label_costs(), BATCH):
        numbers = xp.asarray(chunk)
        batch = Batch(device, numbers)
        if not batch.n_pairs:
            continue
        offset = xp.asarray(offsets)[numbers]
        lengths = row_ptr[numbers + 1] - row_ptr[numbers]
        label, place = spread(xp, lengths)
        position = row_ptr[numbers][label] + place
        weight = weights[position].astype(xp.float64)
        square = Segments(xp, lengths, (label, place)).add(weight**2)
        length = xp.sqrt(square) + xp.abs(offset) * device.mean_norm
        found = _look_up(xp, label * device.n_features + indices[position], weight, batch.keys)
        scores = batch.rows.add(batch.values * found) - offset[batch.label] * batch.mean_score
        best = batch.best(scores, FLOAT32_TIE * length[batch.label])
        first = batch.groups.minimum(xp.where(best, xp.arange(batch.n_pairs), batch.n_pairs), batch.n_pairs)
        slots = _to_host(batch.slots)
        owners.sample[slots] = _to_host(batch.sample[first])
        owners.score[slots] = _to_host(scores[first])
    return owners


def _look_up(xp: Any, keys: Any, weights: Any, wanted: Any) -> Any:
    """The weight at each wanted key, 0 where there is none. `keys` are sorted."""
    if not len(keys):
        return xp.zeros(len(wanted))
    place = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
    return xp.where(keys[place] == wanted, weights[place], 0.0)


def _to_host(array: Any) -> np.ndarray:
    """The array in the memory of the host."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
