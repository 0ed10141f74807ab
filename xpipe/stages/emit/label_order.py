"""An order of the labels of heads/ in which the training label sets have few sign changes. Runs at a worker.

Writes no rows and searches nothing itself: the order is that of `argmaxability.order_labels`, `work` applies it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import order_labels, sign_changes
from xpipe.engine.messages import Finished, Unit
from xpipe.formats.parts import concatenate
from xpipe.ground.sparse import to_matrix
from xpipe.stages.arrays import write_array
from xpipe.stages.emit.facts import EmitFacts, OrderEffect, SignChanges
from xpipe.stages.emit.label_survey import ORDER, LabelRows, label_map, renumber_labels


def choose_order(folder: str, unit: Unit, shared: EmitFacts) -> Finished[OrderEffect]:
    """Store the order (int64, new place -> number among the labels that stay); gives what it does to sign changes."""
    Y = _training_label_sets(folder, shared)
    order = order_labels(Y)
    effect = OrderEffect(before=count_sign_changes(Y), after=count_sign_changes(Y[:, order]))
    return Finished((write_array(folder, ORDER, order),), effect)


def _training_label_sets(folder: str, shared: EmitFacts) -> sp.csr_matrix:
    """The training rows that are emitted, with a 1 for each of their labels, in the original order of the labels."""
    numbers = label_map(folder)
    labels = concatenate([renumber_labels(part, numbers) for part in LabelRows(shared.inputs, "train").parts()])
    Y = to_matrix(labels, shared.survey.labels_kept)
    Y = sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)  # a score may be 0
    return Y[np.diff(Y.indptr) > 0] if shared.inputs.params.drops_rows else Y


def count_sign_changes(Y: sp.csr_matrix) -> SignChanges:
    changes = sign_changes(Y)
    largest = int(changes.max(initial=0))
    mean = float(changes.mean()) if len(changes) else 0.0
    return SignChanges(mean=round(mean, 4), largest=largest, smallest_k=-(-largest // 2))
