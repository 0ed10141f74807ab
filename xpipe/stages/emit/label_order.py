"""An order of the labels of heads/ in which the training label sets have few sign changes. Runs at a worker.

Writes no rows and searches nothing itself: the order is that of `argmaxability.order_labels`, `emit_rows` applies it.
"""

from __future__ import annotations

import io

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import order_labels, sign_changes
from xpipe.formats.parts import concatenate
from xpipe.ground.sparse import to_matrix
from xpipe.stages.emit.work import ORDER, LabelRows, label_map, renumber_labels
from xpipe.stages.read.work import entry_of


def order(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """Store the order (int64, new place -> number among the labels that stay); gives what it does to sign changes."""
    numbers = label_map(folder)
    labels = concatenate([renumber_labels(part, numbers) for part in LabelRows(shared, "train").parts()])
    Y = to_matrix(labels, shared["facts"]["labels_kept"])
    Y = sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)  # a score may be 0
    if shared["params"]["rows_without_labels"] == "drop":
        Y = Y[np.diff(Y.indptr) > 0]
    found = order_labels(Y)
    buffer = io.BytesIO()
    np.save(buffer, found, allow_pickle=False)
    facts = {"before": describe_changes(Y), "after": describe_changes(Y[:, found])}
    return [entry_of(folder, ORDER, buffer.getvalue())], facts


def describe_changes(Y: sp.csr_matrix) -> dict:
    """Mean and largest number of sign changes, and the smallest k whose DFT head is sure to produce every set."""
    changes = sign_changes(Y)
    largest = int(changes.max(initial=0))
    mean = float(changes.mean()) if len(changes) else 0.0
    return {"mean": round(mean, 4), "largest": largest, "smallest_k": -(-largest // 2)}
