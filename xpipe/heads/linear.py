"""Heads that are one linear layer, W x + b, and differ in what their logits mean: binary, softmax, quasibinary, LML.

Holds no bottleneck: each label has as many weights as the encoder has outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from xpipe.errors import ConfigError
from xpipe.heads.head import Head, to_numpy
from xpipe.heads.lml import check_k, lml_projection
from xpipe.heads.losses import bce_loss, check_temperature, lml_loss, quasibinary_loss, softmax_loss
from xpipe.heads.targets import Targets


class _Linear(Head):
    def __init__(self, in_dim: int, n_labels: int):
        super().__init__(in_dim, n_labels)
        self.linear = torch.nn.Linear(in_dim, n_labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return to_numpy(self.linear.weight), to_numpy(self.linear.bias)

    def options(self) -> dict[str, Any]:
        return {}


class Binary(_Linear):
    """A sigmoid a label, binary cross-entropy. Score above 0: probability above 1/2."""

    layer = "binary"

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))


class Softmax(_Linear):
    """Softmax over labels, its target shared equally among the labels of a row; logits are divided by `temperature`.

    Its probabilities do not change when all logits move together, so score 0 is no threshold of its own: a set whose
    labels `verify` finds to be above 0 and all others below is one it can rank first.
    """

    layer = "softmax"

    def __init__(self, in_dim: int, n_labels: int, temperature: float = 1.0):
        super().__init__(in_dim, n_labels)
        check_temperature(temperature)
        self.temperature = float(temperature)

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return softmax_loss(logits, targets, self.temperature)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self(x) / self.temperature, 1)

    def options(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


class LMLHead(_Linear):
    """Probabilities that sum to k by the LML projection; the loss counts observed labels only.

    The projection moves all logits of a row together; as with softmax, a set that `verify` finds is one it ranks first.
    """

    layer = "lml"

    def __init__(self, in_dim: int, n_labels: int, k: int):
        super().__init__(in_dim, n_labels)
        check_k(k)
        self.k = k

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return lml_loss(logits, targets, self.k)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return lml_projection(self(x), self.k)

    def options(self) -> dict[str, Any]:
        return {"k": self.k}


SETTLING = 20  # passes over the rows at most


class Quasibinary(_Linear):
    """q = exp(z) / C with one C for all labels and samples, cut at 1.

    In training mode `loss` moves `log_normaliser` (buffer, log C), the average of the batches', by `momentum`; a batch
    without labels leaves it. Before the first batch it is log(n_labels), that of zero logits and one label a row.
    `settle` replaces it by that of other rows. Score above 0 in `weights`: q above 1/2, as log C - log 2 is taken off
    the bias.
    """

    layer = "quasibinary"
    log_normaliser: torch.Tensor
    updates: torch.Tensor

    def __init__(self, in_dim: int, n_labels: int, momentum: float = 0.9):
        super().__init__(in_dim, n_labels)
        if not 0 <= momentum < 1:
            raise ConfigError(f"`momentum` must be at least 0 and below 1, got {momentum}")
        self.momentum = float(momentum)
        self.register_buffer("log_normaliser", torch.tensor(math.log(n_labels), dtype=torch.float64))
        self.register_buffer("updates", torch.tensor(0, dtype=torch.int64))

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        found, log_c = quasibinary_loss(logits, targets, self.log_normaliser)
        if self.training and targets.labels.shape[0]:
            self._move(log_c.to(self.log_normaliser.dtype))
        return found

    @torch.no_grad()
    def _move(self, log_c: torch.Tensor) -> None:
        if int(self.updates) and self.momentum:  # the first batch replaces the guess
            kept, new = math.log(self.momentum), math.log1p(-self.momentum)
            log_c = torch.logaddexp(self.log_normaliser + kept, log_c + new)
        self.log_normaliser.copy_(log_c)
        self.updates += 1

    @torch.no_grad()
    def settle(self, batches: Callable[[], Iterable[tuple[torch.Tensor, Targets]]]) -> None:
        """Choose C so that the sum of q, cut at 1, over the given rows is the number of their labels.

        Training rows, which the weights were fitted to, have a larger sum of exp(z) than others, and with dropout even
        more so: the moving C makes all probabilities of new rows too low. Reads the batches several times.
        """
        log_c, cut = math.inf, -1  # at C = inf nothing is cut: the first pass gives the C of the paper
        for _ in range(SETTLING):
            total, n_cut, n_own, n_all = -math.inf, 0, 0, 0
            for logits, targets in batches():
                z = logits.double()
                is_cut = z > log_c
                total = float(np.logaddexp(total, float(torch.logsumexp(z.masked_fill(is_cut, -math.inf), (0, 1)))))
                n_cut, n_own, n_all = n_cut + int(is_cut.sum()), n_own + len(targets.labels), n_all + z.numel()
            if not 0 < n_own < n_all or n_cut == cut:
                break
            # what is cut has q = 1; the others share what is left, so that C only falls, and more may be cut
            log_c, cut = total - math.log(n_own - n_cut), n_cut
        if math.isfinite(log_c):
            self.log_normaliser.fill_(log_c)

    def log_probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """log q, cut at 0, [batch, n_labels]."""
        return (logits - self.log_normaliser.to(logits.dtype)).clamp(max=0)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return self.log_probabilities(self(x)).exp()

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        W, bias = to_numpy(self.linear.weight), to_numpy(self.linear.bias)
        return W, bias - float(self.log_normaliser) + math.log(2)

    def options(self) -> dict[str, Any]:
        return {"momentum": self.momentum}
