"""Losses of label sets given as index lists; each is the mean over the rows of a batch.

Holds no layers, and no dense target: a loss reads the logits, and its gradient is written into one tensor.
Sums go over labels (not means), so that a loss does not shrink as labels are added.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from xpipe.errors import ConfigError, DataError
from xpipe.heads.lml import check_k
from xpipe.heads.lml_balance import balance
from xpipe.heads.targets import Targets


def bce_loss(logits: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Binary cross-entropy of sigmoid(logits), summed over labels: softplus of all, less the logits of the targets."""
    _check(logits, targets)
    return _Binary.apply(logits, targets.rows(), targets.labels)


def softmax_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Cross-entropy of softmax(logits / temperature) against a target shared equally among the labels of a row.

    A row without labels has no such target: it adds 0. Raises ConfigError unless temperature > 0.
    """
    _check(logits, targets)
    check_temperature(temperature)
    return _Softmax.apply(logits, targets, temperature)


def topk_entropy_loss(logits: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
    """Truncated top-k entropy: for each label y of a row, log(1 + sum of exp(f_j - f_y) over the j that count).

    Those are the n - k smallest scores among labels that are not in the row's set; with one label a row, all but the
    k - 1 largest of the others. k = 1 is the softmax loss of single labels. The choice of j counts as constant in the
    gradient. Raises ConfigError unless k is a whole number of at least 1.
    """
    _check(logits, targets)
    check_k(k)
    return _TopkEntropy.apply(logits, targets, k)


def lml_loss(logits: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
    """-sum of log y over the observed labels of a row, y the projection of the logits onto k labels.

    Loss and gradient are right to rounding also where all y are 0 or 1. Raises what `lml_projection` raises.
    """
    _check(logits, targets)
    check_k(k)
    return _Projected.apply(logits, targets, k)


def quasibinary_loss(
    logits: torch.Tensor, targets: Targets, log_normaliser: torch.Tensor | float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, log C): -sum over labels of y log q - max(log q, 0), log q = z - log C.

    C = sum of exp(z) over the whole batch / its number of labels N, and the gradient goes through it. A batch without
    any label says nothing about C: `log_normaliser`, the moving one, is used instead, as a constant; without it
    C is that of one label a row. log C comes without gradient.
    """
    _check(logits, targets)
    if log_normaliser is None:
        log_normaliser = torch.logsumexp(logits.detach().flatten(), 0) - math.log(max(len(targets), 1))
    given = torch.as_tensor(log_normaliser, dtype=logits.dtype, device=logits.device)
    return _Quasibinary.apply(logits, targets.rows(), targets.labels, given)


def check_temperature(temperature: float) -> None:
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ConfigError(f"`temperature` must be a positive number, got {temperature}")


def _check(logits: torch.Tensor, targets: Targets) -> None:
    if logits.ndim != 2 or len(targets) != logits.shape[0]:
        raise DataError(
            f"{len(targets)} label sets for logits of shape {list(logits.shape)}",
            fix="logits: one row a sample, one column a label; targets: one set a sample",
        )
    labels = targets.labels
    if labels.device.type != "cpu" or not len(labels):  # a GPU checks indices itself, and would have to wait here
        return
    if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise DataError(f"a label is outside 0..{logits.shape[1] - 1}", fix="count labels from 0")


class _Binary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(z, rows, labels)
        terms = functional.softplus(z)
        terms[rows, labels] = functional.softplus(-z[rows, labels])  # not softplus(z) - z: large sums would not cancel
        return terms.sum(1).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        z, rows, labels = ctx.saved_tensors
        found = torch.sigmoid(z)
        found[rows, labels] -= 1
        return found.mul_(grad / max(len(z), 1)), None, None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, temperature: float) -> torch.Tensor:
        counts = targets.counts()
        labelled = (counts > 0).to(z.dtype)
        rows, weight = targets.rows(), 1 / counts.clamp(min=1).to(z.dtype)
        scaled = z / temperature if temperature != 1 else z
        logs = torch.log_softmax(scaled, 1)  # differences: the logarithm of the sum alone would be rounded as z is
        ctx.save_for_backward(logs, labelled, rows, targets.labels, weight)
        ctx.temperature = temperature
        return -(logs[rows, targets.labels] * weight[rows]).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logs, labelled, rows, labels, weight = ctx.saved_tensors
        found = logs.exp().mul_(labelled[:, None])
        found[rows, labels] -= weight[rows]
        return found.mul_(grad / (ctx.temperature * max(len(logs), 1))), None, None


class _TopkEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
        n, rows, labels, counts = z.shape[1], targets.rows(), targets.labels, targets.counts()
        counted = z.clone()
        counted[rows, labels] = -math.inf
        surplus = torch.minimum((k - counts).clamp(min=0), n - counts)  # the largest of the others, which do not count
        widest = int(surplus.max()) if len(surplus) else 0
        if widest:
            values, places = torch.topk(counted, widest, dim=1)
            dropped = torch.arange(widest, device=z.device) < surplus[:, None]
            counted.scatter_(1, places, values.masked_fill_(dropped, -math.inf))
        # the smallest number instead of -inf where nothing counts: exp(-inf - it) is 0, not NaN
        smallest = torch.finfo(z.dtype).min
        largest = counted.amax(1).clamp(min=smallest)
        counted -= largest[:, None]  # differences first: a logarithm beside a large logit would be rounded as that is
        total = torch.logsumexp(counted, 1).clamp(min=smallest)
        gap = (largest[rows] - z[rows, labels]) + total[rows]
        ctx.save_for_backward(counted, total, gap, rows, labels)
        return functional.softplus(gap).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        counted, total, gap, rows, labels = ctx.saved_tensors
        pull = torch.sigmoid(gap)
        found = (counted - total[:, None]).exp_()
        found *= torch.zeros_like(total).index_add_(0, rows, pull)[:, None]
        found[rows, labels] = -pull
        return found.mul_(grad / max(len(counted), 1)), None, None


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
        found = balance(x, k)
        rows, labels = targets.rows(), targets.labels
        moved = (x[rows, labels].to(found.nu.dtype) - found.origin[rows]) + found.nu[rows]
        ctx.save_for_backward(found.weights, found.sums, moved, rows, labels)
        ctx.kind = x.dtype
        return (-functional.logsigmoid(moved).sum() / max(len(x), 1)).to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        weights, sums, moved, rows, labels = ctx.saved_tensors
        pull = torch.sigmoid(-moved) * (grad.to(moved.dtype) / max(len(weights), 1))  # -d log y / d (x + nu)
        pulls = torch.zeros_like(sums).index_add_(0, rows, pull)
        found = weights * (pulls / sums).to(weights.dtype)[:, None]  # d nu / d x = -weights / sums
        found[rows, labels] -= pull.to(weights.dtype)
        return found.to(ctx.kind), None, None


class _Quasibinary(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, given: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n_own = labels.shape[0]
        # log C beside the largest logit: differences are exact where log C itself is rounded as large logits are
        largest = z.max() if z.numel() else z.new_zeros(())
        log_q = z - largest
        relative = torch.logsumexp(log_q.flatten(), 0) - math.log(n_own) if n_own else given - largest
        log_q -= relative
        terms = log_q.clamp(min=0)
        terms[rows, labels] = (-log_q[rows, labels]).clamp(min=0)  # max(log q, 0) - log q
        log_c = largest + relative if n_own else given.clone()
        ctx.save_for_backward(log_q, rows, labels)
        ctx.mark_non_differentiable(log_c)
        return terms.sum(1).sum() / max(len(z), 1), log_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        log_q, rows, labels = ctx.saved_tensors
        over = log_q > 0
        if n_own := labels.shape[0]:
            found = log_q.exp().mul_(n_own - over.sum()).div_(n_own).add_(over)  # exp(z) / its sum is q / n_own
            found[rows, labels] -= 1
        else:
            found = over.to(log_q.dtype)
        return found.mul_(grad / max(len(log_q), 1)), None, None, None
