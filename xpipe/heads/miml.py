"""Networks for bags of instances where only the labels of bags are known: Deep-MIML, and EAGLE's co-attention on it.

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

ABSENT = -2.0  # first value of the biases of labels


class DeepMIML(torch.nn.Module):
    """Deep-MIML (Feng and Zhou, AAAI 2017): linear layer, max over concepts, ReLU, max over instances.

    A bias per label is added to the maxima, which are never negative: without it no probability could be below 1/2. The
    biases start below 0, because a score of 0 means an absent label. If they started at 0, the first steps would push
    all scores of some labels to 0, where ReLU has no gradient, and these labels would never be learned.

    Parameters
    ----------
    in_dim, n_labels : int
        Bags are float [batch, instances, in_dim], logits float [batch, n_labels].
    concepts : int
        Number of concepts per label.
    hidden : int, optional
        Width of a linear layer with ReLU before all that, as in the paper's experiments.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import DeepMIML
    >>> network = DeepMIML(in_dim=8, n_labels=20, concepts=3)
    >>> network(torch.zeros(2, 5, 8), sizes=torch.tensor([5, 2])).shape
    torch.Size([2, 20])
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
        """Logits. sizes: int64 [batch], the first so many instances of each bag are real; None: all."""
        self._check(bags, sizes)
        scores = self.instance_logits(bags)
        if sizes is not None:  # scores are never negative, so a score of 0 leaves an instance out
            scores = scores * _real(bags, sizes)[..., None]
        return self._masked(scores, bags, sizes).amax(1) + self.bias

    def instance_logits(self, bags: torch.Tensor) -> torch.Tensor:
        """Scores of each instance before mask and bias (V2 in the paper), at least 0: [batch, instances, n_labels]."""
        return torch.relu(self.layers(bags).unflatten(-1, (self.concepts, self.n_labels)).amax(-2))

    def _masked(self, scores: torch.Tensor, bags: torch.Tensor, sizes: torch.Tensor | None) -> torch.Tensor:
        """The scores of instances as they enter the maximum."""
        return scores

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        """Binary cross-entropy, a mean over the bags."""
        return bce_loss(logits, targets)

    def probabilities(self, bags: torch.Tensor, sizes: torch.Tensor | None = None) -> torch.Tensor:
        """Probabilities [batch, n_labels]."""
        return torch.sigmoid(self(bags, sizes))

    def _check(self, bags: torch.Tensor, sizes: torch.Tensor | None) -> None:
        """Raise DataError for bags or sizes of a wrong shape."""
        if bags.ndim != 3 or bags.shape[1] < 1 or bags.shape[2] != self.in_dim:
            raise DataError(f"bags must have the shape [batch, instances, {self.in_dim}], got {list(bags.shape)}")
        if sizes is None:
            return
        if sizes.shape != bags.shape[:1] or bool(((sizes < 1) | (sizes > bags.shape[1])).any()):
            raise DataError(f"`sizes` must be {len(bags)} numbers from 1 to {bags.shape[1]}, one per bag")

    def extra_repr(self) -> str:
        return f"in_dim={self.in_dim}, n_labels={self.n_labels}, concepts={self.concepts}, hidden={self.hidden}"


class CoAttentionMIML(DeepMIML):
    """Deep-MIML with EAGLE's co-attention: labels attend to the instances of a bag.

    The score of an instance for a label is multiplied by g * softmax over instances of tau * <instance, label>, where g
    is the number of instances of the bag.

    Parameters
    ----------
    in_dim, n_labels, concepts, hidden
        As in `DeepMIML`.
    embedding : array_like or scipy sparse matrix of float, shape (n_labels, in_dim)
        The label embedding of `xpipe.eagle.embed`; it stays fixed.
    tau : float, default 1.0
        How strongly instances are selected, at least 0; 0 is Deep-MIML.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import CoAttentionMIML
    >>> network = CoAttentionMIML(in_dim=8, n_labels=20, concepts=3, embedding=torch.ones(20, 8))
    >>> network.mask(torch.zeros(2, 5, 8)).mean().item()  # equal instances count equally
    1.0
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
        """Factors of instances for each label (M in the paper), with mean 1 per bag: [batch, instances, n_labels]."""
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
    """Which instances are real, bool [batch, instances]."""
    return torch.arange(bags.shape[1], device=bags.device) < sizes[:, None]
