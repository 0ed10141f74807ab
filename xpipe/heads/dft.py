"""The DFT head: a fixed trigonometric matrix that makes every set of at most k labels argmaxable, and learned slack.

Holds no proofs (`xpipe.argmaxability` has them) and no FFTs (`dft_routes`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from xpipe.argmaxability import dft_matrix
from xpipe.argmaxability.dft import check_size
from xpipe.errors import ConfigError
from xpipe.heads import dft_routes
from xpipe.heads.head import Head, check_counts, to_numpy
from xpipe.heads.losses import bce_loss
from xpipe.heads.registry import largest_dft_k
from xpipe.heads.targets import Targets

ROUTES = ("auto", "fft", "dense", "blocks")
MATRIX_SHARE = 8  # a fixed matrix may take one part in this many of the memory where it is
FIXED = ("matrix", "block", "turns", "order")  # buffers: the parts of W_DFT that a route needs


class DFT(Head):
    """A DFT layer: x = P e + b of width 2k + 1 + slack, logits W_DFT x[:2k + 1] + S x[2k + 1:].

    The DFT output layer of Grivas, Vergari and Lopez (Taming the Sigmoid Bottleneck, AAAI 2024), with sigmoid and
    binary cross-entropy. P, b and S (n_labels x slack) are learned; W_DFT is `xpipe.argmaxability.dft_matrix(n_labels,
    k)`. b starts with sqrt(n) logit(k / n), so that training starts near probability k / n. A logit above 0 is a
    probability above 1/2.

    Parameters
    ----------
    in_dim, n_labels : int
        Width of the inputs e, float [batch, in_dim]; number of labels.
    k : int
        Every set of at most k labels is argmaxable.
    slack : int, default 0
        Number of learned columns beside the fixed matrix.
    label_order : array_like of int, shape (n_labels,), optional
        A permutation, as `order_labels` gives: label label_order[p] has row p of W_DFT.
    route : {"auto", "fft", "dense", "blocks"}, default "auto"
        How W_DFT x is computed, see `dft_routes`. "auto" takes the fastest for the sizes, with a matrix of at most an
        eighth of the memory where the head is: of the machine, or what is free on a CUDA device.

    Raises
    ------
    ConfigError
        Unless 1 <= k, 2k + 1 <= n_labels, 0 <= slack, and label_order is a permutation.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import DFT
    >>> head = DFT(in_dim=8, n_labels=20, k=2, slack=3)
    >>> head(torch.zeros(4, 8)).shape
    torch.Size([4, 20])
    >>> W, bias = head.weights()
    >>> W.shape, bias is None
    ((20, 8), True)
    """

    layer = "dft"
    matrix: torch.Tensor
    block: torch.Tensor
    turns: torch.Tensor
    order: torch.Tensor | None
    slack_weight: torch.nn.Parameter | None

    def __init__(
        self,
        in_dim: int,
        n_labels: int,
        k: int,
        slack: int = 0,
        *,
        label_order: np.ndarray | Sequence[int] | None = None,
        route: str = "auto",
    ):
        super().__init__(in_dim, n_labels)
        check_counts(k=k)
        check_size(n_labels, k)
        if slack:
            check_counts(slack=slack)
        if route not in ROUTES:
            raise ConfigError(f"`route` must be one of {', '.join(ROUTES)}, got {route!r}")
        self.k, self.slack, self.route = k, slack, route
        self.label_order = _check_order(label_order, n_labels)
        self.projection = torch.nn.Linear(in_dim, 2 * k + 1 + slack)
        with torch.no_grad():
            self.projection.bias.zero_()
            self.projection.bias[0] = math.sqrt(n_labels) * math.log(k / (n_labels - k))
        if slack:
            self.slack_weight = torch.nn.Parameter(torch.empty(n_labels, slack))
            bound = 1 / math.sqrt(slack)  # as torch.nn.Linear's and so as BSL's
            torch.nn.init.uniform_(self.slack_weight, -bound, bound)
        else:
            self.register_parameter("slack_weight", None)
        self._fix()

    @classmethod
    def arguments(cls, given: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
        """k: by default the largest label set of the dataset, as far as its labels allow; slack: the option `dim`."""
        largest = max(1, min(int(dataset["k"]), largest_dft_k(int(dataset["n_labels"]))))
        return {"k": given.get("k", largest), "slack": given["dim"]}

    def _fix(self) -> None:
        """Make the parts of W_DFT that the route needs: buffers that move with the head, but are not in its file."""
        weight = self.projection.weight
        dtype = _exact_enough(weight.dtype)
        self.product = self.route
        if self.route == "auto":
            self.product = dft_routes.product_route(self.n_labels, self.k, _memory(weight.device) // MATRIX_SHARE)
        order = None if self.label_order is None else torch.from_numpy(np.argsort(self.label_order))
        matrix = block = turns = None
        if weight.device.type == "meta":  # only shapes are needed
            order = None
        elif self.product == "dense":
            matrix = dft_routes.dense_matrix(self.n_labels, self.k).to(dtype)
            if order is not None:  # rows are moved once, instead of logits in every batch
                matrix, order = matrix[order], None
        elif self.product == "blocks":
            block, turns = (part.to(dtype) for part in dft_routes.block_matrices(self.n_labels, self.k))
        for name, part in zip(FIXED, (matrix, block, turns, order), strict=True):
            self.register_buffer(name, None if part is None else part.to(weight.device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> DFT:
        """Called by `.to`, `.double` and so on: a matrix of another type is computed again, not rounded.

        On another device the route may be another one, too: what a machine has room for need not fit there.
        """
        kind, device = self.projection.weight.dtype, self.projection.weight.device
        fixed = {name: self._buffers[name] for name in FIXED}
        self._buffers.update(dict.fromkeys(FIXED))  # they do not move
        try:
            super()._apply(fn, recurse)
        finally:
            self._buffers.update(fixed)
        weight = self.projection.weight
        if weight.device != device or _exact_enough(weight.dtype) != _exact_enough(kind):
            self._fix()
        elif weight.dtype == kind:  # `fn` is another change, such as to shared memory
            self._buffers.update({name: None if part is None else fn(part) for name, part in fixed.items()})
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.projection(x)
        width = 2 * self.k + 1
        logits = self._product(x[:, :width])
        if self.slack_weight is not None:
            logits = logits + x[:, width:] @ self.slack_weight.T
        return logits

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        """W_DFT x, in the order of the labels."""
        n = self.n_labels
        route = self.product
        if self.route == "auto":
            route = dft_routes.choose_route(n, self.k, len(x), route)
        with torch.autocast(x.device.type, enabled=False):  # FFTs and angles need more than half precision
            x = x.to(_exact_enough(x.dtype))
            if route == "dense":
                return x @ self.matrix.T
            logits = dft_routes.by_fft(x, n) if route == "fft" else dft_routes.by_blocks(x, n, self.block, self.turns)
        return logits if self.order is None else logits[:, self.order]

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        return bce_loss(logits, targets)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        W = dft_matrix(self.n_labels, self.k)
        if self.label_order is not None:
            W = W[np.argsort(self.label_order)]
        return (W if self.slack_weight is None else np.hstack([W, to_numpy(self.slack_weight)])), None

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"k": self.k, "slack": self.slack, "route": self.route}
        return options if self.label_order is None else {**options, "label_order": self.label_order.tolist()}


def _check_order(order: Any, n_labels: int) -> np.ndarray | None:
    """A permutation as int64, None for None."""
    if order is None:
        return None
    given = np.asarray(order)
    if given.shape != (n_labels,) or given.dtype.kind not in "iu" or (np.sort(given) != np.arange(n_labels)).any():
        raise ConfigError(
            f"`label_order` must hold each of the numbers 0..{n_labels - 1} once",
            fix="xpipe.argmaxability.order_labels(Y) gives such an order",
        )
    return np.asarray(given.astype(np.int64))


def _exact_enough(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, else float32: angles in half precision would be those of other labels."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _memory(device: torch.device) -> int:
    """The free memory of a CUDA device in bytes; else that of the machine, the same at every start, as is the route."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
