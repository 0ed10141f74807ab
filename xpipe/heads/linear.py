"""Heads that are one linear layer, z = W x + b that differ in the meaning of z: binary, softmax, quasibinary, LML.

Holds no head with a bottleneck: each label has as many weights as the encoder has outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from xpipe.errors import ConfigError
from xpipe.heads.head import Head, to_numpy
from xpipe.heads.lml import check_k, lml_projection
from xpipe.heads.loss_gradients import expected_labels
from xpipe.heads.losses import bce_loss, check_temperature, lml_loss, quasibinary_loss, softmax_loss
from xpipe.heads.targets import Targets

SETTLING = 20  # passes over the rows in `Quasibinary.settle`, at most


class _Linear(Head):
    """z = W x + b: float [batch, in_dim] to float [batch, n_labels]."""

    def __init__(self, in_dim: int, n_labels: int):
        super().__init__(in_dim, n_labels)
        self.linear = torch.nn.Linear(in_dim, n_labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x)
        return found

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return to_numpy(self.linear.weight), to_numpy(self.linear.bias)

    def options(self) -> dict[str, Any]:
        return {}


class Binary(_Linear):
    """One sigmoid per label, binary cross-entropy. A logit above 0 is a probability above 1/2.

    Parameters
    ----------
    in_dim, n_labels : int
        Width of the inputs, number of labels.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Binary
    >>> head = Binary(in_dim=8, n_labels=20)
    >>> head.probabilities(torch.zeros(3, 8)).shape
    torch.Size([3, 20])
    """

    layer = "binary"

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))


class Softmax(_Linear):
    """Softmax over the labels. The target of a row is shared equally among its labels.

    Adding a number to all logits of a row changes no probability, so a logit of 0 is no threshold. Its `mode` is topk:
    a set that `verify` finds argmaxable in this mode is one whose labels this head can rank before all others.

    Parameters
    ----------
    in_dim, n_labels : int
        Width of the inputs, number of labels.
    temperature : float, default 1.0
        Logits are divided by it; above 0.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Softmax
    >>> head = Softmax(in_dim=8, n_labels=20, temperature=2.0)
    >>> head.probabilities(torch.zeros(3, 8)).sum(1).round(decimals=5).tolist()
    [1.0, 1.0, 1.0]
    """

    layer = "softmax"
    mode = "topk"

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
    """Probabilities that sum to k, by the LML projection (Amos, Koltun and Kolter, arXiv 1906.08707).

    y = sigmoid(z + nu) with one nu per row such that the sum of y is k. The loss counts the observed labels only: minus
    the sum of log y over them. As with softmax, the `mode` is topk: a set that `verify` finds argmaxable in this mode
    is one whose labels this head can rank before all others.

    Parameters
    ----------
    in_dim, n_labels : int
        Width of the inputs, number of labels.
    k : int
        The number of labels to predict per row.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import LMLHead
    >>> head = LMLHead(in_dim=8, n_labels=20, k=3)
    >>> head.probabilities(torch.zeros(2, 8)).sum(1).round(decimals=4).tolist()
    [3.0, 3.0]
    """

    layer = "lml"
    mode = "topk"

    def __init__(self, in_dim: int, n_labels: int, k: int):
        super().__init__(in_dim, n_labels)
        check_k(k)
        self.k = k

    @classmethod
    def arguments(cls, given: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
        """k: by default the mean number of labels per row of the dataset, rounded."""
        return {"k": given["k"] if "k" in given else max(1, round(dataset["labels_a_row"]))}

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return lml_loss(logits, targets, self.k)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return lml_projection(self(x), self.k)

    def options(self) -> dict[str, Any]:
        return {"k": self.k}


class Quasibinary(_Linear):
    """Probabilities q = min(exp(z) / C, 1) with one C for all labels and samples.

    The quasibinary classifier of Liao, Gavves, Oh and Snoek (ICPR 2020). In training mode `loss` updates the buffer
    `log_normaliser` (log C), a moving average over batches; a batch without labels does not change it. Before the first
    batch it is log(n_labels), which fits zero logits and one label per row. `settle` replaces it by the C of other
    rows. `weights` subtracts log C - log 2 from the bias, so that a score above 0 is a q above 1/2.

    Parameters
    ----------
    in_dim, n_labels : int
        Width of the inputs, number of labels.
    momentum : float, default 0.9
        Share of the old C in the moving average; at least 0 and below 1.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Quasibinary, Targets
    >>> head = Quasibinary(in_dim=8, n_labels=20)
    >>> x, targets = torch.zeros(2, 8), Targets.of([[3, 17], []])
    >>> loss = head.loss(head(x), targets)  # moves C: the probabilities of this batch then sum to its 2 labels
    >>> round(float(head.probabilities(x).sum().detach()), 4)
    2.0
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
        if self.training:
            self._move(log_c.to(self.log_normaliser.dtype), expected_labels(logits, targets) > 0)
        return found

    @torch.no_grad()
    def _move(self, log_c: torch.Tensor, has_labels: torch.Tensor | bool) -> None:
        """Move the average towards the log C of a batch, if it has labels. No number is read: that would wait."""
        if self.momentum:  # the first batch replaces the guess
            kept, new = math.log(self.momentum), math.log1p(-self.momentum)
            log_c = torch.where(self.updates > 0, torch.logaddexp(self.log_normaliser + kept, log_c + new), log_c)
        if isinstance(has_labels, torch.Tensor):
            log_c = torch.where(has_labels, log_c, self.log_normaliser)
        if isinstance(has_labels, torch.Tensor) or has_labels:
            self.log_normaliser.copy_(log_c)
            self.updates += has_labels

    @torch.no_grad()
    def settle(self, batches: Callable[[], Iterable[tuple[torch.Tensor, Targets]]]) -> None:
        """Choose C so that the sum of q, cut at 1, over the given rows is the number of their labels.

        Rows that the weights were fitted to have a larger sum of exp(z) than other rows, with dropout even more so.
        With the moving C, all probabilities of new rows would be too low. Reads the batches several times.
        """
        log_c, cut = math.inf, -1  # with C = inf nothing is cut, so the first pass gives the C of the paper
        for _ in range(SETTLING):
            total, n_cut, n_own, n_all = -math.inf, 0, 0.0, 0
            for logits, targets in batches():
                z = logits.double()
                is_cut = z > log_c
                total = float(np.logaddexp(total, float(torch.logsumexp(z.masked_fill(is_cut, -math.inf), (0, 1)))))
                n_cut, n_own, n_all = n_cut + int(is_cut.sum()), n_own + targets.n_expected(), n_all + z.numel()
            if not n_cut < n_own < n_all or n_cut == cut:
                break
            # labels that are cut have q = 1, and the others share the rest; so C only falls, and more may be cut
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
