"""The calibration of a trained head: predictions of held-out rows, and the map that is fitted to them.

Holds no fit of a map (`ground.calibration_map`) and no training (`training_run`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.calibration_map import TOP, CalibrationMap, fit_predictions
from xpipe.ground.sparse import canonical
from xpipe.heads.batch import Batch
from xpipe.heads.model import HeadModel, as_matrix
from xpipe.heads.training_run import TrainingRun

ENOUGH = 2000  # held-out rows to fit a map to
MORE, AGAIN = 0.2, 2  # where there are fewer: the share of rows that a further model goes without, and how many models


class HeldOut(NamedTuple):
    """Held-out rows with labels, batch by batch: the model's own probabilities of their best labels, and the labels."""

    predicted: list[sp.csr_matrix]
    truths: list[sp.csr_matrix]

    @property
    def n_rows(self) -> int:
        return sum(part.shape[0] for part in self.truths)


def fit_calibration(run: TrainingRun) -> CalibrationMap | None:
    """The map from the own probabilities of a trained model to calibrated ones; None where no rows are held out.

    Where these are few, further models are trained without other rows, for as many epochs, for this only. Few rows take
    little time; so no checkpoint is kept of them.
    """
    if run.held_out is None:
        return None
    found = predict_held_out(run.model, run.held_out)
    again = replace(run.options, validation=MORE, epochs=run.best_epoch)
    for number in range(AGAIN if found.n_rows < ENOUGH else 0):
        start = run.options.validation + number * MORE
        try:
            other = TrainingRun(run.folder, again, None, None, run.device, start)
            other.train()
        except DataError:  # so few rows that none of them is there, or a loss that is not finite
            break
        assert other.held_out is not None
        more = predict_held_out(other.model, other.held_out)
        found = HeldOut(found.predicted + more.predicted, found.truths + more.truths)
    return fit_predictions(found.predicted, found.truths)


def predict_held_out(model: HeadModel, batches: Iterable[Batch]) -> HeldOut:
    """What a calibration is fitted to. Rows without labels do not count.

    Where the scores of labels are chances, a label is as right as its score says.
    """
    found = HeldOut([], [])
    for batch in batches:
        ranked = model.rank([batch], TOP, calibrated=False)
        labelled = np.flatnonzero(np.diff(batch.targets.offsets.numpy()))
        found.predicted.append(as_matrix(ranked.labels, ranked.probabilities, model.head.n_labels)[labelled])
        found.truths.append(_true_labels(batch, model.head.n_labels)[labelled])
    return found


def _true_labels(batch: Batch, n_labels: int) -> sp.csr_matrix:
    """The labels of a batch, with the chances that they are right."""
    labels, offsets = batch.targets.labels.numpy(), batch.targets.offsets.numpy()
    told = batch.targets.chances
    chances = np.ones(len(labels), np.float32) if told is None else told.numpy()
    return canonical(sp.csr_matrix((chances, labels, offsets), (batch.n_rows, n_labels)), "labels")
