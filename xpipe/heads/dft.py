"""The DFT head: a fixed trigonometric matrix that makes every set of at most k labels argmaxable, and learned slack.

Holds no proofs (`xpipe.argmaxability` has them) and no FFTs (`dft_routes`).
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch

from xpipe.argmaxability import dft_matrix
from xpipe.argmaxability.dft import check_size
from xpipe.errors import ConfigError
from xpipe.heads import dft_routes
from xpipe.heads.head import Head, check_counts, to_numpy
from xpipe.heads.losses import bce_loss
from xpipe.heads.targets import Targets

ROUTES = ("auto", "fft", "dense", "blocks")
MATRIX_SHARE = 8  # a fixed matrix may take one part in this many of the machine's memory


class DFT(Head):
    """x = P e + b of width 2k + 1 + slack, logits W_DFT x[:2k + 1] + S x[2k + 1:], sigmoid, binary cross-entropy.

    P, b and S (n_labels x slack) are learned, W_DFT is `xpipe.argmaxability.dft_matrix(n_labels, k)`. b starts with
    sqrt(n) logit(k / n), so that training starts near probability k / n. Score above 0: probability above 1/2.
    label_order: a permutation, as `order_labels` gives: label label_order[p] has row p of W_DFT.
    route: how W_DFT x is computed: "fft", "dense", "blocks" (see `dft_routes`), or "auto", the fastest for the sizes
        within an eighth of the device's memory.
    Raises ConfigError unless 1 <= k, 2k + 1 <= n_labels, 0 <= slack, and label_order is a permutation.
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
        label_order: Any = None,
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

    def _fix(self) -> None:
        """Keep what the route needs of W_DFT: buffers that follow the head to its device, but not into its file."""
        weight = self.projection.weight
        dtype = _exact_enough(weight.dtype)
        self.product = self.route
        if self.route == "auto":
            self.product = dft_routes.product_route(self.n_labels, self.k, _memory() // MATRIX_SHARE)
        order = None if self.label_order is None else torch.from_numpy(np.argsort(self.label_order))
        matrix = block = turns = None
        if weight.device.type == "meta":  # shapes alone are asked for
            order = None
        elif self.product == "dense":
            matrix = dft_routes.dense_matrix(self.n_labels, self.k).to(dtype)
            if order is not None:  # rows moved once, instead of logits at every step
                matrix, order = matrix[order], None
        elif self.product == "blocks":
            block, turns = (part.to(dtype) for part in dft_routes.block_matrices(self.n_labels, self.k))
        for name, part in (("matrix", matrix), ("block", block), ("turns", turns), ("order", order)):
            self.register_buffer(name, None if part is None else part.to(weight.device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> DFT:
        """What `.to`, `.double` and the like call: a matrix of another type is made anew, not rounded."""
        before = _exact_enough(self.projection.weight.dtype)
        super()._apply(fn, recurse)
        after = _exact_enough(self.projection.weight.dtype)
        kept = self.matrix if self.matrix is not None else self.block
        if after != before or (kept is not None and kept.dtype != after):
            self._fix()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.projection(x)
        width = 2 * self.k + 1
        logits = self._product(x[:, :width])
        if self.slack_weight is not None:
            logits = logits + x[:, width:] @ self.slack_weight.T
        return logits

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        n = self.n_labels
        route = self.product
        if self.route == "auto":
            route = dft_routes.choose_route(n, self.k, len(x), route)
        with torch.autocast(x.device.type, enabled=False):  # neither FFTs nor angles bear half precision
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
    if order is None:
        return None
    order = np.asarray(order)
    if order.shape != (n_labels,) or order.dtype.kind not in "iu" or (np.sort(order) != np.arange(n_labels)).any():
        raise ConfigError(
            f"`label_order` must hold each of the numbers 0..{n_labels - 1} once",
            fix="xpipe.argmaxability.order_labels(Y) gives such an order",
        )
    return order.astype(np.int64)


def _exact_enough(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64; float32 for all others: angles in half precision would be other labels'."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _memory() -> int:
    """Of the machine, in bytes; the same at every start, so that the route is too."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
