"""An order of the labels of heads/ in which the training label sets have few sign changes. Runs at a worker.

Holds no search: `argmaxability.order_labels` finds the order, and `work` applies it to the rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import order_labels, sign_changes
from xpipe.engine.messages import Finished, Unit
from xpipe.ground.sparse import to_matrix
from xpipe.ground.sparse_rows import concatenate, with_ones
from xpipe.stages.arrays import write_array
from xpipe.stages.emit.facts import EmitFacts, OrderEffect, SignChanges
from xpipe.stages.emit.label_survey import ORDER, LabelRows, label_map, renumber_labels


def choose_order(folder: str, unit: Unit, shared: EmitFacts) -> Finished[OrderEffect]:
    """Store the order (int64: new place -> number among the kept labels); gives the sign changes before and after."""
    Y = _training_label_sets(folder, shared)
    order = order_labels(Y)
    effect = OrderEffect(before=count_sign_changes(Y), after=count_sign_changes(Y[:, order]))
    return Finished((write_array(folder, ORDER, order),), effect)


def _training_label_sets(folder: str, shared: EmitFacts) -> sp.csr_matrix:
    """The emitted training rows with a 1 for each of their labels, in the original order of the labels."""
    numbers = label_map(folder)
    labels = concatenate([renumber_labels(part, numbers) for part in LabelRows(shared.inputs, "train").parts()])
    Y = to_matrix(with_ones(labels), shared.survey.labels_kept)  # a score may be 0
    return Y[np.diff(Y.indptr) > 0] if shared.inputs.params.drops_rows else Y


def count_sign_changes(Y: sp.csr_matrix) -> SignChanges:
    """Statistics of the sign changes of label sets."""
    changes = sign_changes(Y)
    largest = int(changes.max(initial=0))
    mean = float(changes.mean()) if len(changes) else 0.0
    return SignChanges(mean=round(mean, 4), largest=largest, smallest_k=-(-largest // 2))
