"""How good a model is on held-out rows: the head's own loss, and nDCG@5.

Holds no training.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
import torch

from xpipe.heads.batch import Batch
from xpipe.heads.model import HeadModel, as_matrix
from xpipe.metrics.measuring import measure
from xpipe.metrics.predictions import rank

TOP = 5  # of the criterion nDCG@5


@torch.inference_mode()
def validate(model: HeadModel, batches: Iterable[Batch]) -> dict[str, float]:
    """{"validation_loss", "validation_ndcg"} of the rows of all batches. Leaves the model in evaluation mode."""
    model.eval()
    rows, n_labels = 0, model.head.n_labels
    total = torch.zeros((), dtype=torch.float64, device=model.device)  # read once: reading waits for the device
    found, labels, offsets, true = [], [], [np.zeros(1, np.int64)], []
    for batch in batches:
        moved = batch.to(model.device)
        logits = model(moved)
        total += model.head.loss(logits, moved.targets).double() * batch.n_rows
        best = rank(logits.float().cpu().numpy(), TOP, threads=1).labels
        labels.append(best)
        found.append(np.broadcast_to(np.arange(best.shape[1], 0, -1, dtype=np.float32), best.shape))
        offsets.append(batch.targets.offsets[1:].numpy() + offsets[-1][-1])
        true.append(batch.targets.labels.numpy())
        rows += batch.n_rows
    entries = np.concatenate(true)
    truth = sp.csr_matrix((np.ones(len(entries), np.float32), entries, np.concatenate(offsets)), (rows, n_labels))
    scores = as_matrix(np.concatenate(labels), np.concatenate(found), n_labels)
    ndcg = measure(scores, truth, TOP, threads=1).ndcg[-1]
    return {"validation_loss": float(total) / rows, "validation_ndcg": float(ndcg)}
