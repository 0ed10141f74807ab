"""Chunks of labels at a worker: take the rows their groups need, embed, assign; then rows from all chunks.

Knows nothing of Dask; the algorithms are `eagle`.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe import files
from xpipe.eagle import assign, embed
from xpipe.formats.parts import concatenate, read_part, slice_rows, write_part
from xpipe.grouping import spread_labels
from xpipe.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.stages.emit_rows import normalise_rows
from xpipe.stages.matrices import open_matrix, part_path
from xpipe.stages.read_rows import entry_of

CHUNK_ENTRIES = 20_000_000  # feature entries that the labels of one chunk touch together; fixed, so chunks are too
MEAN = "mean/row.npy"


@lru_cache(maxsize=4)
def _load(folder: str, name: str) -> sp.csr_matrix:
    stored = open_matrix([folder, name], "train")
    return to_matrix(stored.load(), stored.n_columns)


def plan(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """Chunks of consecutive labels of about equal cost; for the centred method also the mean row of all samples."""
    Y1, Y2 = _load(*shared["membership"]), _load(*shared["group_labels"])
    stored = open_matrix(shared["features"], "train")
    lengths = np.concatenate([np.diff(triple.indptr) for _, triple in stored.parts()])
    group_cost = np.asarray(Y1.T @ lengths.astype(np.float64)).ravel()
    cost = np.asarray(Y2.T @ group_cost).ravel()
    chunks, first, total = [], 0, 0.0
    for label in range(shared["n_labels"]):
        if label > first and total + cost[label] > CHUNK_ENTRIES:
            chunks.append([first, label])
            first, total = label, 0.0
        total += cost[label]
    chunks.append([first, shared["n_labels"]])
    if shared["params"]["method"] != "centred":
        return [], {"chunks": chunks}
    mean = np.zeros(stored.n_columns)
    for _, triple in stored.parts():
        rows = normalise_rows(triple)
        mean += np.bincount(rows.indices, rows.values.astype(np.float64), minlength=stored.n_columns)
    buffer = io.BytesIO()
    np.save(buffer, mean / max(stored.n_rows, 1), allow_pickle=False)
    return [entry_of(folder, MEAN, buffer.getvalue())], {"chunks": chunks}


def assign_chunk(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Owners of labels first..last: rows are samples, values the scores. Kept as a part until all chunks are there."""
    first, last = unit["first"], unit["last"]
    Y1, Y2 = _load(*shared["membership"]), _load(*shared["group_labels"])
    Y2 = sp.csr_matrix(Y2[:, first:last])
    groups = np.flatnonzero(Y2.getnnz(axis=1))
    members = sp.csr_matrix(Y1[:, groups])
    samples = np.flatnonzero(members.getnnz(axis=1))
    scores = _scores(folder, samples, members[samples], Y2[groups], shared)
    path = f"owners/{unit['unit']}.arrow"
    triple = to_triple(scores)
    chosen = np.flatnonzero(np.diff(triple.indptr))
    kept = Triple(triple.indptr[np.append(chosen, len(samples))], triple.indices + np.int32(first), triple.values)
    facts = write_part(files.join(folder, path), samples[chosen], kept)
    return [{"path": path, **facts}], {}


def _scores(folder: str, samples: np.ndarray, Y1: sp.csr_matrix, Y2: sp.csr_matrix, shared: dict) -> sp.csr_matrix:
    """Scores of the owners, samples x labels of the chunk."""
    params = shared["params"]
    if params["method"] == "baseline":
        return spread_labels(Y1, Y2)
    stored = open_matrix(shared["features"], "train")
    X = to_matrix(normalise_rows(stored.take(samples)[1]), stored.n_columns)
    centred = params["method"] == "centred"
    options: dict[str, Any] = {"steps": params["steps"] if params["method"] == "eagle" else 0, "threads": 1}
    if centred:
        options["mean"] = np.load(io.BytesIO(files.read_bytes(files.join(folder, MEAN))), allow_pickle=False)
    E = embed(X, Y1, Y2, step_size=params["step_size"], centred=centred, **options)
    return assign(X, Y1, Y2, E, threads=1, return_scores=True)[1]


def gather(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """Rows of samples from all chunks of labels, cut as the features are; with the true labels, how good they are."""
    n_samples = sum(shared["cuts"])
    rows, labels, scores = [], [], []
    for path in shared["chunks"]:
        samples, triple = read_part(files.join(folder, path))
        rows.append(np.repeat(samples, np.diff(triple.indptr)))
        labels.append(triple.indices)
        scores.append(triple.values)
    order = np.lexsort((np.concatenate(labels), np.concatenate(rows)))
    all_rows = np.concatenate(rows)[order]
    indptr = np.searchsorted(all_rows, np.arange(n_samples + 1)).astype(np.int64)
    assigned = Triple(indptr, np.concatenate(labels)[order], np.concatenate(scores)[order])
    numbers = open_matrix(shared["features"], "train").samples()
    entries, start = [], 0
    for index, count in enumerate(shared["cuts"]):
        path = part_path("assigned_labels", "train", index)
        part = slice_rows(assigned, start, start + count)
        facts = write_part(files.join(folder, path), numbers[start : start + count], part)
        entries.append({"path": path, "split": "train", **facts})
        start += count
    return entries, {"assigned": len(assigned.indices), **quality(assigned, shared)}


def quality(assigned: Triple, shared: dict) -> dict:
    """Precision, recall and F1 against the true labels, where they are known."""
    if shared["truth"] is None:
        return {}
    stored = open_matrix(shared["truth"], "train")
    truth = canonical(to_matrix(concatenate([triple for _, triple in stored.parts()]), stored.n_columns), "labels")
    found = to_matrix(assigned._replace(values=np.ones(len(assigned.indices), dtype=np.float32)), stored.n_columns)
    hits = float(found.multiply(truth > 0).sum())
    precision, recall = hits / max(found.nnz, 1), hits / max(truth.nnz, 1)
    f1 = 2 * hits / max(found.nnz + truth.nnz, 1)
    return {"precision": round(precision, 4), "recall": round(recall, 4), "f1": round(f1, 4)}
