"""Networks for bags of instances of which only the bag's labels are known: Deep-MIML, and EAGLE's co-attention on it.

Holds no label embedding of its own: `xpipe.eagle.embed` learns it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from xpipe.errors import ConfigError, DataError
from xpipe.heads.head import check_counts
from xpipe.heads.losses import bce_loss
from xpipe.heads.targets import Targets

ABSENT = -2.0  # where the biases of labels start


class DeepMIML(torch.nn.Module):
    """Bags [batch, instances, in_dim] to logits [batch, n_labels]: FC + ReLU, max over concepts, max over instances.

    hidden: width of an FC + ReLU before that, the two-layer network of the paper's experiments; None: without.
    A bias a label is added to the maxima, which are never negative: without it no probability could be below 1/2. It
    starts below 0, as a score of 0 means an absent label: from 0 on, the first steps press all scores of some labels
    to 0, where ReLU has no gradient, and those labels are never learned.
    """

    def __init__(self, in_dim: int, n_labels: int, concepts: int, hidden: int | None = None):
        super().__init__()
        check_counts(in_dim=in_dim, n_labels=n_labels, concepts=concepts)
        if hidden is not None:
            check_counts(hidden=hidden)
        self.in_dim, self.n_labels, self.concepts, self.hidden = in_dim, n_labels, concepts, hidden
        first = [] if hidden is None else [torch.nn.Linear(in_dim, hidden), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*first, torch.nn.Linear(hidden or in_dim, concepts * n_labels))
        self.bias = torch.nn.Parameter(torch.full((n_labels,), ABSENT))

    def forward(self, bags: torch.Tensor, sizes: torch.Tensor | None = None) -> torch.Tensor:
        """sizes: int64 [batch], how many instances of each bag are real, the first ones; None: all."""
        self._check(bags, sizes)
        scores = self.instance_logits(bags)
        if sizes is not None:  # relu(...) >= 0: an instance of score 0 is one that is not there
            scores = scores * _real(bags, sizes)[..., None]
        return self._masked(scores, bags, sizes).amax(1) + self.bias

    def instance_logits(self, bags: torch.Tensor) -> torch.Tensor:
        """V2: the scores of each instance before mask and bias, never negative, [batch, instances, n_labels]."""
        return torch.relu(self.layers(bags).unflatten(-1, (self.concepts, self.n_labels)).amax(-2))

    def _masked(self, scores: torch.Tensor, bags: torch.Tensor, sizes: torch.Tensor | None) -> torch.Tensor:
        return scores

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, bags: torch.Tensor, sizes: torch.Tensor | None = None) -> torch.Tensor:
        return torch.sigmoid(self(bags, sizes))

    def _check(self, bags: torch.Tensor, sizes: torch.Tensor | None) -> None:
        if bags.ndim != 3 or bags.shape[1] < 1 or bags.shape[2] != self.in_dim:
            raise DataError(f"bags must have the shape [batch, instances, {self.in_dim}], got {list(bags.shape)}")
        if sizes is None:
            return
        if sizes.shape != bags.shape[:1] or bool(((sizes < 1) | (sizes > bags.shape[1])).any()):
            raise DataError(f"`sizes` must be {len(bags)} numbers from 1 to {bags.shape[1]}, one a bag")

    def extra_repr(self) -> str:
        return f"in_dim={self.in_dim}, n_labels={self.n_labels}, concepts={self.concepts}, hidden={self.hidden}"


class CoAttentionMIML(DeepMIML):
    """Deep-MIML whose instance scores are multiplied by g * softmax over instances of tau * <instance, label>.

    embedding: of the labels, [n_labels, in_dim], dense or sparse, from `xpipe.eagle.embed`; fixed. tau: how hard
    instances are chosen, at least 0; 0 is Deep-MIML.
    """

    embedding: torch.Tensor

    def __init__(
        self,
        in_dim: int,
        n_labels: int,
        concepts: int,
        embedding: Any,
        tau: float = 1.0,
        hidden: int | None = None,
    ):
        super().__init__(in_dim, n_labels, concepts, hidden)
        if not (tau >= 0 and math.isfinite(tau)):
            raise ConfigError(f"`tau` must be a number of at least 0, got {tau}")
        dense = embedding.toarray() if hasattr(embedding, "toarray") else np.asarray(embedding)
        if dense.shape != (n_labels, in_dim):
            raise DataError(f"the embedding has the shape {dense.shape}, not ({n_labels}, {in_dim})")
        self.tau = float(tau)
        self.register_buffer("embedding", torch.as_tensor(dense, dtype=torch.get_default_dtype()).clone())

    def mask(self, bags: torch.Tensor, sizes: torch.Tensor | None = None) -> torch.Tensor:
        """M: how much each instance counts for each label, mean 1 over a bag, [batch, instances, n_labels]."""
        affinity = self.tau * (bags @ self.embedding.T)
        if sizes is None:
            return bags.shape[1] * torch.softmax(affinity, 1)
        affinity = affinity.masked_fill(~_real(bags, sizes)[..., None], -math.inf)
        return sizes[:, None, None] * torch.softmax(affinity, 1)

    def _masked(self, scores: torch.Tensor, bags: torch.Tensor, sizes: torch.Tensor | None) -> torch.Tensor:
        return scores * self.mask(bags, sizes) if self.tau else scores

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, tau={self.tau}"


def _real(bags: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Which instances are, [batch, instances]."""
    return torch.arange(bags.shape[1], device=bags.device) < sizes[:, None]
