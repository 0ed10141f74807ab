"""The bottlenecked sigmoid layer, the usual narrow output layer.

Holds no proof of what it cannot predict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from xpipe.heads.head import Head, check_counts, to_numpy
from xpipe.heads.losses import bce_loss
from xpipe.heads.targets import Targets


class BSL(Head):
    """A bottlenecked sigmoid layer: x = P e + b of width `dim`, logits W x, sigmoid, binary cross-entropy.

    The baseline of Grivas, Vergari and Lopez (Taming the Sigmoid Bottleneck, AAAI 2024). W has no bias. A logit above 0
    is a probability above 1/2.

    Parameters
    ----------
    in_dim : int
        Width of the inputs e, float [batch, in_dim].
    n_labels : int
        Number of labels; logits are float [batch, n_labels].
    dim : int
        Width of x, the bottleneck.

    Raises
    ------
    ConfigError
        If a size is not a whole number of at least 1.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import BSL
    >>> head = BSL(in_dim=8, n_labels=20, dim=4)
    >>> head(torch.zeros(3, 8)).shape
    torch.Size([3, 20])
    >>> W, bias = head.weights()
    >>> W.shape, bias is None
    ((20, 4), True)
    """

    layer = "bsl"

    def __init__(self, in_dim: int, n_labels: int, dim: int):
        super().__init__(in_dim, n_labels)
        check_counts(dim=dim)
        self.dim = dim
        self.projection = torch.nn.Linear(in_dim, dim)
        self.classifier = torch.nn.Linear(dim, n_labels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.classifier(self.projection(x))
        return found

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return to_numpy(self.classifier.weight), None

    def options(self) -> dict[str, Any]:
        return {"dim": self.dim}
