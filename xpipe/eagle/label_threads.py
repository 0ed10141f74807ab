"""Embedding and assignment on the CPU: chunks of labels in threads, each with work space of its own.

Holds no validation (`embedding`, `assignment`) and no loop over labels (`_embedding_numba`, `_assignment_numba`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from xpipe.eagle import _assignment_numba, _embedding_numba, _rows_numba
from xpipe.eagle._assignment_numba import GroupOwners
from xpipe.eagle._embedding_numba import Block, Data, EmbedSpace, WrittenRows
from xpipe.eagle._rows_numba import Measures
from xpipe.eagle.options import EmbedOptions
from xpipe.eagle.problem import Problem, run_chunks, square_length
from xpipe.ground.machine import lent
from xpipe.ground.sparse import Triple, read_only
from xpipe.ground.sparse_rows import row_pointers

NARROW = 1 << 16  # features that fit uint16: with more, the features of each label are renumbered
BLOCK = 1 << 22  # most entries of the rows of a label that are copied into one block


@dataclass(frozen=True)
class Embedded:
    """Embedded labels, before their rows are joined."""

    written: list[WrittenRows]
    offsets: np.ndarray  # float64, one per label
    objective: np.ndarray  # after 0..steps steps; empty without a trace

    def joined_rows(self, n_labels: int, threads: int) -> Triple:
        """The rows in the order of the labels. Each piece is freed as soon as it is copied."""
        lengths = np.zeros(n_labels, dtype=np.int64)
        for piece in self.written:
            lengths[piece.labels] = piece.lengths
        indptr = row_pointers(lengths)
        rows = Triple(indptr, np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32))

        def place(_: int) -> None:
            _embedding_numba.place_rows(self.written.pop(), rows)

        with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-eagle") as pool:
            list(pool.map(place, range(len(self.written))))
        return rows


def no_owners(problem: Problem) -> GroupOwners:
    """Room for an owner per group of each label, none found yet."""
    n_slots = len(problem.label_groups.items)
    return GroupOwners(np.full(n_slots, -1, dtype=np.int32), np.zeros(n_slots))


def embed_in_threads(
    problem: Problem,
    labels: np.ndarray,
    options: EmbedOptions,
    mean: np.ndarray,
    trace: bool,
    threads: int,
    owners: GroupOwners | None = None,
) -> Embedded:
    """Embed labels. Where `owners` is given, it is filled, and no rows are kept. mean: empty unless centred."""
    data = _measured(problem, mean)
    costs = problem.label_costs()
    offsets = np.zeros(problem.n_labels)
    traces = np.zeros((problem.n_labels, options.steps + 1 if trace else 0))
    written: list[WrittenRows] = []
    is_large = np.zeros(problem.n_labels, dtype=bool)
    for label in labels[costs[labels] > BLOCK].tolist():
        is_large[label] = _count_entries(problem, label) > BLOCK
    spaces: SimpleQueue[tuple[EmbedSpace, Block]] = SimpleQueue()
    for _ in range(threads):
        spaces.put(_embed_space(problem, int(min(BLOCK, costs[labels].max(initial=0)))))
    found = GroupOwners(np.empty(0, dtype=np.int32), np.empty(0)) if owners is None else owners

    def work(chunk: np.ndarray) -> None:
        for large in (False, True):
            some = chunk[is_large[chunk] == large]
            if len(some):
                work_alike(some, large)

    def work_alike(chunk: np.ndarray, large: bool) -> None:
        n_entries = int(np.minimum(costs[chunk], problem.n_features).sum()) + problem.n_features  # of full rows
        if len(found.sample):
            n_entries = 0
        rows = WrittenRows(
            chunk, np.zeros(len(chunk), dtype=np.int64), np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
        )
        chunk_offsets, chunk_traces = np.zeros(len(chunk)), np.zeros((len(chunk), traces.shape[1]))
        with lent(spaces) as (space, block):
            used = _embedding_numba.embed_labels(
                data, options.steps, float(options.step_size), np.float32(options.smallest), space,
                () if large else block, rows, chunk_offsets, chunk_traces, found,
            )  # fmt: skip
        offsets[chunk], traces[chunk] = chunk_offsets, chunk_traces
        written.append(rows._replace(indices=_trimmed(rows.indices, used), weights=_trimmed(rows.weights, used)))

    run_chunks(work, labels, costs, threads)
    return Embedded(written, offsets, traces.sum(axis=0))


def assign_in_threads(
    problem: Problem, labels: np.ndarray, embedding: Triple, offsets: np.ndarray, mean: np.ndarray, threads: int
) -> GroupOwners:
    """The owner of each group of each label. mean: empty unless centred."""
    data, owners = _measured(problem, mean), no_owners(problem)
    largest = int(np.diff(problem.members.starts).max(initial=0))
    spaces: SimpleQueue[tuple[np.ndarray, np.ndarray]] = SimpleQueue()
    for _ in range(threads):
        spaces.put((np.zeros(problem.n_features, dtype=np.float32), np.zeros(largest)))
    rows, fixed_offsets = Triple(*map(read_only, embedding)), read_only(offsets)

    def work(chunk: np.ndarray) -> None:
        with lent(spaces) as (e, group_scores):
            _assignment_numba.assign_labels(chunk, data, rows, fixed_offsets, e, group_scores, owners)

    run_chunks(work, labels, problem.label_costs(), threads)
    return owners


def join_owners(problem: Problem, owners: GroupOwners) -> Triple:
    """samples x labels with the score of each choice."""
    largest = float(np.finfo(np.float32).max)
    owners = owners._replace(score=np.clip(owners.score, -largest, largest))  # rows of huge floats can score higher
    indptr = np.zeros(problem.n_samples + 1, dtype=np.int64)
    last_label = np.full(problem.n_samples, -1, dtype=np.int64)
    _assignment_numba.count_owners(problem.label_groups.starts, owners, last_label, indptr)
    rows = Triple(indptr, np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32))
    last_label[:] = -1
    filled = np.zeros(problem.n_samples, dtype=np.int64)
    _assignment_numba.write_owners(problem.label_groups.starts, owners, last_label, filled, rows)
    return rows


def _measured(problem: Problem, mean: np.ndarray) -> Data:
    """The problem with the measures of its rows, as the kernels take it."""
    n_samples = problem.n_samples
    measures = Measures(np.zeros(n_samples), np.zeros(n_samples), np.zeros(n_samples, dtype=np.uint8))
    _rows_numba.measure_rows(problem.rows, read_only(mean), measures)
    return Data(problem.rows, problem.label_groups, problem.members, measures, square_length(mean))


def _count_entries(problem: Problem, label: int) -> int:
    """The entries of the rows of a label, each row once."""
    starts, groups = problem.members.starts, problem.label_groups
    of_label = groups.items[groups.starts[label] : groups.starts[label + 1]]
    samples = [problem.members.items[starts[group] : starts[group + 1]] for group in of_label]
    return int(np.diff(problem.features.indptr)[np.unique(np.concatenate(samples))].sum())


def _embed_space(problem: Problem, n_entries: int) -> tuple[EmbedSpace, Block]:
    """Work space of one thread, with a block of `n_entries` entries."""
    n_features = problem.n_features
    wide = n_features > NARROW
    space = EmbedSpace(
        place=np.full(problem.n_samples, -1, dtype=np.int32),
        marks=np.zeros((n_features // 64 + 1) * wide, dtype=np.uint64),
        local_of=np.empty(n_features * wide, dtype=np.int32),
        features=np.empty(n_features * wide, dtype=np.int32),
        e=np.empty(n_features),
        g=np.empty(n_features),
    )
    columns = np.empty(n_entries, dtype=np.uint32 if wide else np.uint16)
    return space, Block(columns, np.empty(n_entries, dtype=np.float32))


def _trimmed(array: np.ndarray, used: int) -> np.ndarray:
    """The part that is used; copied only where that frees as much as it takes."""
    return array[:used] if 2 * used > len(array) else array[:used].copy()
