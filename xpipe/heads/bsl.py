"""The bottlenecked sigmoid layer: the usual narrow output layer. Holds no proof of what it cannot predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from xpipe.heads.head import Head, check_counts, to_numpy
from xpipe.heads.losses import bce_loss
from xpipe.heads.targets import Targets


class BSL(Head):
    """x = P e + b of width `dim`, logits W x without bias, sigmoid, binary cross-entropy. Score above 0: above 1/2."""

    layer = "bsl"

    def __init__(self, in_dim: int, n_labels: int, dim: int):
        super().__init__(in_dim, n_labels)
        check_counts(dim=dim)
        self.dim = dim
        self.projection = torch.nn.Linear(in_dim, dim)
        self.classifier = torch.nn.Linear(dim, n_labels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.projection(x))

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return to_numpy(self.classifier.weight), None

    def options(self) -> dict[str, Any]:
        return {"dim": self.dim}
