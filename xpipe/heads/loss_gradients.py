"""The losses as functions with their own gradients, which need one tensor of the size of the logits.

Holds no checks and no documentation of the losses: those are in `losses`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from xpipe.heads.lml_balance import balance
from xpipe.heads.targets import Targets


class BinaryLoss(torch.autograd.Function):
    """`bce_loss` of logits z."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(z, rows, labels)
        terms = functional.softplus(z)
        terms[rows, labels] = functional.softplus(-z[rows, labels])  # not softplus(z) - z, which would lose digits
        return terms.sum(1).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        z, rows, labels = ctx.saved_tensors
        found = torch.sigmoid(z)
        found[rows, labels] -= 1
        return found.mul_(grad / max(len(z), 1)), None, None


class SoftmaxLoss(torch.autograd.Function):
    """`softmax_loss` of logits z."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, temperature: float) -> torch.Tensor:
        counts = targets.counts()
        labelled = (counts > 0).to(z.dtype)
        rows, weight = targets.rows(), 1 / counts.clamp(min=1).to(z.dtype)
        scaled = z / temperature if temperature != 1 else z
        logs = torch.log_softmax(scaled, 1)  # not z - logsumexp(z), which would be rounded like z
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


class TopkEntropyLoss(torch.autograd.Function):
    """`topk_entropy_loss` of scores z."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
        n, rows, labels, counts = z.shape[1], targets.rows(), targets.labels, targets.counts()
        counted = z.clone()
        counted[rows, labels] = -math.inf
        surplus = torch.minimum((k - counts).clamp(min=0), n - counts)  # how many of the largest others do not count
        widest = int(surplus.max()) if len(surplus) else 0
        if widest:
            values, places = torch.topk(counted, widest, dim=1)
            dropped = torch.arange(widest, device=z.device) < surplus[:, None]
            counted.scatter_(1, places, values.masked_fill_(dropped, -math.inf))
        # where nothing counts, the smallest number instead of -inf: exp(-inf - smallest) is 0, not NaN
        smallest = torch.finfo(z.dtype).min
        largest = counted.amax(1).clamp(min=smallest)
        counted -= largest[:, None]  # differences first: a logarithm added to a large logit would be rounded like it
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


class ProjectedLoss(torch.autograd.Function):
    """`lml_loss` of logits x."""

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


class QuasibinaryLoss(torch.autograd.Function):
    """`quasibinary_loss` of logits z; given: log C for a batch without labels."""

    @staticmethod
    def forward(
        ctx: Any, z: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, given: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n_own = labels.shape[0]
        # log C relative to the largest logit: differences are exact where log C itself is rounded like large logits
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
            found = (
                log_q.exp().mul_(n_own - over.sum()).div_(n_own).add_(over)
            )  # exp(z) divided by its sum is q / n_own
            found[rows, labels] -= 1
        else:
            found = over.to(log_q.dtype)
        return found.mul_(grad / max(len(log_q), 1)), None, None, None
