"""Chunks of labels at a worker: how labels are cut, and the rows and groups that a chunk needs.

Knows nothing of Dask and of no algorithm; stages embed and assign both work this way.
"""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import to_matrix
from xpipe.stages.emit.work import normalise_rows
from xpipe.stages.matrices import open_matrix
from xpipe.stages.read.work import entry_of

CHUNK_ENTRIES = 20_000_000  # feature entries that the labels of one chunk touch together; fixed, so chunks are too
MEAN = "mean/row.npy"


@lru_cache(maxsize=4)
def whole(folder: str, name: str) -> sp.csr_matrix:
    """A matrix of groups, all of it: small beside the features."""
    stored = open_matrix([folder, name], "train")
    return to_matrix(stored.load(), stored.n_columns)


def plan(folder: str, shared: dict, with_mean: bool) -> tuple[list[dict], dict]:
    """Chunks of consecutive labels of about equal cost; on request also the mean row of all samples."""
    Y1, Y2 = whole(*shared["membership"]), whole(*shared["group_labels"])
    stored = open_matrix(shared["features"], "train")
    lengths = np.concatenate([np.diff(triple.indptr) for _, triple in stored.parts()])
    group_cost = np.asarray(Y1.T @ lengths.astype(np.float64)).ravel()
    cost = np.asarray(Y2.T @ group_cost).ravel()
    chunks, first, total = [], 0, 0.0
    for label in range(shared["n_labels"]):
        if label > first and total + cost[label] > shared["chunk_entries"]:
            chunks.append([first, label])
            first, total = label, 0.0
        total += cost[label]
    chunks.append([first, shared["n_labels"]])
    if not with_mean:
        return [], {"chunks": chunks}
    mean = np.zeros(stored.n_columns)
    for _, triple in stored.parts():
        rows = normalise_rows(triple)
        mean += np.bincount(rows.indices, rows.values.astype(np.float64), minlength=stored.n_columns)
    buffer = io.BytesIO()
    np.save(buffer, mean / max(stored.n_rows, 1), allow_pickle=False)
    return [entry_of(folder, MEAN, buffer.getvalue())], {"chunks": chunks}


def units_of(chunks: list[list[int]]) -> list[dict]:
    return [
        {"unit": f"labels-{number:05d}", "number": number, "first": first, "last": last, "rows": last - first}
        for number, (first, last) in enumerate(chunks)
    ]


def groups_of(unit: dict, shared: dict) -> tuple[np.ndarray, sp.csr_matrix, sp.csr_matrix]:
    """(samples, Y1, Y2) of the groups that carry labels first..last; labels count from first."""
    Y2 = sp.csr_matrix(whole(*shared["group_labels"])[:, unit["first"] : unit["last"]])
    groups = np.flatnonzero(Y2.getnnz(axis=1))
    members = sp.csr_matrix(whole(*shared["membership"])[:, groups])
    samples = np.flatnonzero(members.getnnz(axis=1))
    return samples, sp.csr_matrix(members[samples]), sp.csr_matrix(Y2[groups])


def rows_of_samples(shared: dict, samples: np.ndarray) -> sp.csr_matrix:
    """Their feature rows, of length 1."""
    stored = open_matrix(shared["features"], "train")
    return to_matrix(normalise_rows(stored.take(samples)[1]), stored.n_columns)
