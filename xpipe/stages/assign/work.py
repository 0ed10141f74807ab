"""Chunks of labels at a worker: choose what there is to choose, find owners; then rows from all chunks.

Knows nothing of Dask; the algorithms are `eagle`.
"""

from __future__ import annotations

import io
from dataclasses import asdict

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import assign, embed_and_assign
from xpipe.eagle.ownership import checked
from xpipe.eagle.problem import as_ones
from xpipe.errors import StageError
from xpipe.formats.parts import concatenate, read_part, slice_rows, write_part
from xpipe.ground import files
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.grouping.groups import spread_labels
from xpipe.stages.arrays import read_array
from xpipe.stages.label_chunks import MEAN, groups_of, rows_of_samples, whole
from xpipe.stages.matrices import open_matrix, part_path
from xpipe.stages.read.work import entry_of

SCALE, DIRECTIONS = "metric/scale.npy", "metric/directions.npy"


def choose_method(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """The choices of `discriminative` and `auto`; the metric they led to is kept for the chunks."""
    from xpipe.eagle.choice import decide
    from xpipe.ground.machine import usable_cores

    Y1, Y2 = whole(*shared["membership"]), whole(*shared["group_labels"])
    options = {name: shared["params"][name] for name in ("ridge", "threshold", "rounds", "steps", "step_size")}
    choice, metric = decide(
        lambda samples: rows_of_samples(shared, samples), Y1, Y2, shared["method"], seed=shared["seed"],
        mean=read_array(folder, MEAN) if shared["method"] == "auto" else None, threads=usable_cores(), **options,
    )  # fmt: skip
    entries = []
    for path, array in ((SCALE, metric.scale), (DIRECTIONS, metric.directions)):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        entries.append(entry_of(folder, path, buffer.getvalue()))
    return entries, asdict(choice)


def assign_chunk(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Owners of labels first..last: rows are samples, values the scores. Kept as a part until all chunks are there."""
    samples, Y1, Y2 = groups_of(unit, shared)
    scores, facts = _scores(folder, unit, samples, Y1, Y2, shared)
    checked(scores, as_ones(Y1, "membership"), as_ones(Y2, "group_labels"), shared["method"])
    path = f"owners/{unit['unit']}.arrow"
    triple = to_triple(scores)
    chosen = np.flatnonzero(np.diff(triple.indptr))
    indices = triple.indices + np.int32(unit["first"])
    kept = Triple(triple.indptr[np.append(chosen, len(samples))], indices, triple.values)
    written = write_part(files.join(folder, path), samples[chosen], kept)
    return [{"path": path, **written}], {"allowed": int(spread_labels(Y1, Y2).nnz), **facts}


def _scores(
    folder: str, unit: dict, samples: np.ndarray, Y1: sp.csr_matrix, Y2: sp.csr_matrix, shared: dict
) -> tuple[sp.csr_matrix, dict]:
    """Scores of the owners (samples x labels of the chunk), and the objective of its labels where there is one."""
    method, params = shared["method"], shared["params"]
    if method == "baseline":
        return spread_labels(Y1, Y2), {}
    X = rows_of_samples(shared, samples)
    if method == "discriminative":
        from xpipe.eagle.discriminative import find_owners
        from xpipe.eagle.whitening import Metric, whiten

        rows = whiten(X, Metric(read_array(folder, SCALE), read_array(folder, DIRECTIONS)), threads=1)
        del X  # its values are in `rows`, scaled
        options = {name: params[name] for name in ("owners", "rounds")}
        options |= {name: shared["choice"][name] for name in ("calibration", "threshold", "most_members")}
        return find_owners(rows, Y1, Y2, threads=1, **options)[1], {}
    if shared["embedding"]:
        stored = open_matrix(shared["embedding"], "labels")
        labels, vectors = read_part(stored.paths[unit["number"]], mapped=False)  # stage embed cuts labels as this one
        if not np.array_equal(labels, np.arange(unit["first"], unit["last"])):
            raise StageError("label vectors are cut otherwise than the labels", fix="xpipe clean, then run again")
        E = to_matrix(vectors, stored.n_columns)
        return assign(X, Y1, Y2, E, threads=1, return_scores=True, backend=shared["backend"])[1], {}
    centred = method == "centred"
    _, scores, objective = embed_and_assign(
        X, Y1, Y2, steps=params["steps"] if method == "eagle" else 0, step_size=params["step_size"], centred=centred,
        mean=read_array(folder, MEAN) if centred else None, trace=True, threads=1, backend=shared["backend"],
    )  # fmt: skip
    return scores, {"objective": np.asarray(objective, dtype=np.float64).tolist()}


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
