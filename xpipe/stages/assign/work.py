"""Owners of labels at a worker: choose what there is to choose, find the owners per chunk of labels, gather rows.

Knows nothing of Dask; the algorithms are `eagle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import assign, embed_and_assign
from xpipe.eagle.choice import Choice, decide
from xpipe.eagle.discriminative import find_owners
from xpipe.eagle.ownership import checked
from xpipe.eagle.problem import as_ones
from xpipe.eagle.whitening import Metric, whiten
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.errors import StageError
from xpipe.formats.parts import concatenate, read_part, slice_rows, write_part
from xpipe.ground import files
from xpipe.ground.backend import Backend
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.grouping import spread_labels
from xpipe.stages.arrays import read_array, write_array
from xpipe.stages.assign.params import AssignParams
from xpipe.stages.label_chunks import MEAN, Grouped, LabelChunk, groups_of, load_group_matrix, rows_of_samples
from xpipe.stages.matrices import MatrixRef, open_matrix, write_matrix_part

SCALE, DIRECTIONS = "metric/scale.npy", "metric/directions.npy"


@dataclass(frozen=True)
class Problem(Grouped):
    """What owners are found from. embedding: stored label vectors, where they are what the method would compute."""

    params: AssignParams
    embedding: MatrixRef | None
    seed: int
    backend: Backend


@dataclass(frozen=True)
class Settled:
    """The problem with the method that is used; choice: what `discriminative` and `auto` chose."""

    problem: Problem
    method: str
    choice: Choice | None


@dataclass(frozen=True)
class ChunkFacts:
    """allowed: pairs of sample and label that groups allow. objective: per step, where the method has one."""

    allowed: int
    objective: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Owners:
    """Files of owners of all chunks, to be gathered. cuts: rows of each part of the features."""

    paths: tuple[str, ...]
    features: MatrixRef
    truth: MatrixRef | None
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Quality:
    """Against the true labels."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class GatherFacts:
    assigned: int
    quality: Quality | None = None


def choose_method(folder: str, unit: Unit, shared: Problem) -> Finished[Choice]:
    """The choices of `discriminative` and `auto`; the metric they led to is kept for the chunks."""
    params = shared.params
    choice, metric = decide(
        lambda samples: rows_of_samples(shared.features, samples), load_group_matrix(shared.membership),
        load_group_matrix(shared.group_labels), params.method, seed=shared.seed,
        mean=read_array(folder, MEAN) if params.method == "auto" else None, threads=usable_cores(), ridge=params.ridge,
        threshold=params.threshold, rounds=params.rounds, steps=params.steps, step_size=params.step_size,
    )  # fmt: skip
    kept = {SCALE: metric.scale, DIRECTIONS: metric.directions}
    return Finished(tuple(write_array(folder, path, array) for path, array in kept.items()), choice)


def assign_chunk(folder: str, unit: LabelChunk, shared: Settled) -> Finished[ChunkFacts]:
    """Owners of the labels of a chunk: rows are samples, values the scores. Kept until all chunks are there."""
    samples, Y1, Y2 = groups_of(unit, shared.problem)
    scores, objective = _scores(folder, unit, samples, Y1, Y2, shared)
    checked(scores, as_ones(Y1, "membership"), as_ones(Y2, "group_labels"), shared.method)
    path = f"owners/{unit.name}.arrow"
    triple = to_triple(scores)
    chosen = np.flatnonzero(np.diff(triple.indptr))
    indices = triple.indices + np.int32(unit.first)
    kept = Triple(triple.indptr[np.append(chosen, len(samples))], indices, triple.values)
    entry = FileEntry(path, **write_part(files.join(folder, path), samples[chosen], kept))
    return Finished((entry,), ChunkFacts(int(spread_labels(Y1, Y2).nnz), objective))


def _scores(
    folder: str, unit: LabelChunk, samples: np.ndarray, Y1: sp.csr_matrix, Y2: sp.csr_matrix, shared: Settled
) -> tuple[sp.csr_matrix, tuple[float, ...] | None]:
    """Scores of the owners (samples x labels of the chunk), and the objective of its labels where there is one."""
    problem, method = shared.problem, shared.method
    if method == "baseline":
        return spread_labels(Y1, Y2), None
    if method == "discriminative":
        return _discriminative_scores(folder, samples, Y1, Y2, shared), None
    X = rows_of_samples(problem.features, samples)
    if problem.embedding is not None:
        E = _stored_vectors(unit, problem.embedding)
        return assign(X, Y1, Y2, E, threads=1, return_scores=True, backend=problem.backend)[1], None
    centred = method == "centred"
    _, scores, objective = embed_and_assign(
        X, Y1, Y2, steps=problem.params.steps if method == "eagle" else 0, step_size=problem.params.step_size,
        centred=centred, mean=read_array(folder, MEAN) if centred else None, trace=True, threads=1,
        backend=problem.backend,
    )  # fmt: skip
    return scores, tuple(np.asarray(objective, dtype=np.float64).tolist())


def _discriminative_scores(
    folder: str, samples: np.ndarray, Y1: sp.csr_matrix, Y2: sp.csr_matrix, shared: Settled
) -> sp.csr_matrix:
    choice, params = shared.choice, shared.problem.params
    assert choice is not None  # the method needs one
    metric = Metric(read_array(folder, SCALE), read_array(folder, DIRECTIONS))
    rows = whiten(rows_of_samples(shared.problem.features, samples), metric, threads=1)  # the plain ones are let go
    _, scores = find_owners(
        rows, Y1, Y2, calibration=choice.calibration, owners=params.owners,
        threshold=choice.threshold, rounds=params.rounds, most_members=choice.most_members, threads=1,
    )  # fmt: skip
    return scores


def _stored_vectors(unit: LabelChunk, embedding: MatrixRef) -> sp.csr_matrix:
    """The label vectors of a chunk: stage embed cuts labels as this one."""
    stored = open_matrix(embedding, "labels")
    labels, vectors = read_part(stored.paths[unit.number], mapped=False)
    if not np.array_equal(labels, np.arange(unit.first, unit.last)):
        raise StageError("label vectors are cut otherwise than the labels", fix="xpipe clean, then run again")
    return to_matrix(vectors, stored.n_columns)


def gather_rows(folder: str, unit: Unit, shared: Owners) -> Finished[GatherFacts]:
    """Rows of samples from all chunks of labels, cut as the features are; with the true labels, how good they are."""
    assigned = _sorted_by_sample([read_part(files.join(folder, path)) for path in shared.paths], sum(shared.cuts))
    numbers = open_matrix(shared.features, "train").samples()
    entries = [
        write_matrix_part(
            folder, "assigned_labels", "train", index, numbers[start:stop], slice_rows(assigned, start, stop)
        )
        for index, (start, stop) in enumerate(pairwise(np.cumsum([0, *shared.cuts]).tolist()))
    ]
    quality = None if shared.truth is None else _quality(assigned, shared.truth)
    return Finished(tuple(entries), GatherFacts(len(assigned.indices), quality))


def _sorted_by_sample(chunks: list[tuple[np.ndarray, Triple]], n_samples: int) -> Triple:
    rows = np.concatenate([np.repeat(samples, np.diff(triple.indptr)) for samples, triple in chunks])
    labels = np.concatenate([triple.indices for _, triple in chunks])
    order = np.lexsort((labels, rows))
    indptr = np.searchsorted(rows[order], np.arange(n_samples + 1)).astype(np.int64)
    return Triple(indptr, labels[order], np.concatenate([triple.values for _, triple in chunks])[order])


def _quality(assigned: Triple, where: MatrixRef) -> Quality:
    stored = open_matrix(where, "train")
    truth = canonical(to_matrix(concatenate([triple for _, triple in stored.parts()]), stored.n_columns), "labels")
    found = to_matrix(assigned._replace(values=np.ones(len(assigned.indices), dtype=np.float32)), stored.n_columns)
    hits = float(found.multiply(truth > 0).sum())
    precision, recall = hits / max(found.nnz, 1), hits / max(truth.nnz, 1)
    f1 = 2 * hits / max(found.nnz + truth.nnz, 1)
    return Quality(round(precision, 4), round(recall, 4), round(f1, 4))
