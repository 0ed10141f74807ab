"""What a worker does for stage assign: make the choices, find the owners of a chunk of labels, gather all chunks.

Holds no algorithm and no order of steps: these are `eagle.plan`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import plan
from xpipe.eagle.chances import chances_by_map
from xpipe.eagle.choice import Choice
from xpipe.eagle.trust import TrialQuality
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.errors import StageError
from xpipe.formats.parts import read_part, write_part
from xpipe.ground import files
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import entry_rows, slice_rows, with_ones
from xpipe.grouping import spread_labels
from xpipe.stages.arrays import write_array
from xpipe.stages.assign.decided import decision_of, write_decision
from xpipe.stages.assign.messages import Assignment, ChunkResult, GatherResult, OwnerFiles, Quality, Settled
from xpipe.stages.assign.params import ASSIGNED, CANDIDATES
from xpipe.stages.assign.stored_rows import StoredRows
from xpipe.stages.label_chunks import LabelChunk, groups_of
from xpipe.stages.matrices import MatrixRef, load_group_matrix, load_matrix, open_matrix, write_matrix_part

EMPTY = Triple(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def choose_method(folder: str, unit: Unit, shared: Assignment) -> Finished[Choice]:
    """Make the choices of `discriminative` and `auto`. Writes the whitener and near groups for the chunks."""
    Y1, Y2 = load_group_matrix(shared.membership), load_group_matrix(shared.group_labels)
    decision = plan.decide(shared.options, StoredRows(folder, shared), Y1, Y2, usable_cores())
    assert decision.choice is not None  # only methods that choose come here
    return Finished(write_decision(folder, decision), decision.choice)


def judge_method(folder: str, unit: Unit, shared: Assignment) -> Finished[TrialQuality | None]:
    """How good the owners of a method without choices look in a trial."""
    Y1, Y2 = load_group_matrix(shared.membership), load_group_matrix(shared.group_labels)
    return Finished((), plan.judge(shared.options, StoredRows(folder, shared), Y1, Y2, usable_cores()))


def assign_chunk(folder: str, unit: LabelChunk, shared: Settled) -> Finished[ChunkResult]:
    """Find the owners of the labels of a chunk, and write them: rows are samples, values are scores."""
    assignment, decision = shared.assignment, decision_of(folder, shared)
    chunk = groups_of(unit, assignment, decision.near)
    samples, Y1, Y2 = chunk.samples, chunk.Y1, chunk.Y2
    found = plan.assign_chunk(
        decision,
        StoredRows(folder, assignment, shared),
        plan.Chunk(samples, Y1, Y2, chunk.groups),
        threads=1,
        embedding=None if assignment.embedding is None else _stored_vectors(unit, assignment.embedding),
        backend=assignment.backend,
    )
    objective = None if found.objective is None else tuple(found.objective.tolist())
    entries = [_write_pairs(folder, "chunks", unit, samples, to_triple(found.scores))]
    result = ChunkResult(int(spread_labels(Y1, Y2).nnz), objective)
    if found.chances is not None:
        owned, total, shift = found.chances
        entries.append(write_array(folder, f"shifts/{unit.name}.npy", shift))
        result = replace(result, owned=owned, expected=total, shifts=entries[-1].path)
    if found.candidates is not None:
        entries.append(_write_pairs(folder, "candidate_chunks", unit, samples, to_triple(found.candidates)))
        result = replace(result, candidates=entries[-1].path)
    return Finished(tuple(entries), result)


def _stored_vectors(unit: LabelChunk, embedding: MatrixRef) -> sp.csr_matrix:
    """The stored vectors of the labels of a chunk. Stage embed cuts labels into the same chunks."""
    stored = open_matrix(embedding, "labels")
    labels, vectors = read_part(stored.paths[unit.number], mapped=False)
    if not np.array_equal(labels, np.arange(unit.first, unit.last)):
        raise StageError("label vectors are cut otherwise than the labels", fix="xpipe clean, then run again")
    return to_matrix(vectors, stored.n_columns)


def _write_pairs(folder: str, below: str, unit: LabelChunk, samples: np.ndarray, scores: Triple) -> FileEntry:
    """Write the rows that have entries; columns become label numbers of the whole matrix."""
    path = f"{below}/{unit.name}.arrow"
    filled = np.flatnonzero(np.diff(scores.indptr))
    indptr = scores.indptr[np.append(filled, len(samples))]
    kept = Triple(indptr, scores.indices + np.int32(unit.first), scores.values)
    return FileEntry(path, **write_part(files.join(folder, path), samples[filled], kept))


def gather_rows(folder: str, unit: Unit, shared: OwnerFiles) -> Finished[GatherResult]:
    """Join the owners of all chunks to rows of samples, in parts like those of the features; measure their quality.

    Candidates are joined in the same way.
    """
    assigned = _joined(folder, shared.paths, shared)
    if shared.to_chances is not None:
        assigned = assigned._replace(values=chances_by_map(assigned.values, shared.to_chances))
    entries, n_candidates = _write_parts(folder, ASSIGNED, assigned, shared), 0
    quality = None if shared.truth is None else _quality(assigned, shared.truth)
    if shared.candidates is not None:
        likely = _joined(folder, shared.candidates, shared)
        entries, n_candidates = [*entries, *_write_parts(folder, CANDIDATES, likely, shared)], len(likely.indices)
    return Finished(tuple(entries), GatherResult(len(assigned.indices), n_candidates, quality))


def _joined(folder: str, paths: tuple[str, ...], shared: OwnerFiles) -> Triple:
    """The pairs of all chunks, one row per sample."""
    return _sorted_by_sample([read_part(files.join(folder, path)) for path in paths], sum(shared.cuts))


def _write_parts(folder: str, artifact: str, pairs: Triple, shared: OwnerFiles) -> list[FileEntry]:
    """Write pairs in parts like those of the features."""
    numbers = open_matrix(shared.features, "train").samples()
    return [
        write_matrix_part(folder, artifact, "train", index, numbers[start:stop], slice_rows(pairs, start, stop))
        for index, (start, stop) in enumerate(pairwise(np.cumsum([0, *shared.cuts]).tolist()))
    ]


def _sorted_by_sample(chunks: list[tuple[np.ndarray, Triple]], n_samples: int) -> Triple:
    """One row per sample with the entries of all chunks, labels ascending. A chunk: (samples, their rows)."""
    chunks = [(np.zeros(0, np.int64), EMPTY), *chunks]
    rows = np.concatenate([samples[entry_rows(triple.indptr)] for samples, triple in chunks])
    labels = np.concatenate([triple.indices for _, triple in chunks])
    order = np.lexsort((labels, rows))
    indptr = np.searchsorted(rows[order], np.arange(n_samples + 1)).astype(np.int64)
    return Triple(indptr, labels[order], np.concatenate([triple.values for _, triple in chunks])[order])


def _quality(assigned: Triple, where: MatrixRef) -> Quality:
    """Precision, recall and F1 of the assigned labels against the true ones."""
    truth = canonical(load_matrix(where), "labels")
    found = to_matrix(with_ones(assigned), truth.shape[1])
    hits = float(found.multiply(truth > 0).sum())
    precision, recall = hits / max(found.nnz, 1), hits / max(truth.nnz, 1)
    f1 = 2 * hits / max(found.nnz + truth.nnz, 1)
    return Quality(round(precision, 4), round(recall, 4), round(f1, 4))
