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


def times_chances(values: torch.Tensor, chances: torch.Tensor | None) -> torch.Tensor:
    """Values of targets [entries], each times the chance of its target."""
    return values if chances is None else values * chances.to(values.dtype)


def expected(if_own: torch.Tensor, if_not: torch.Tensor, chances: torch.Tensor | None) -> torch.Tensor:
    """What to expect of targets [entries]: `if_own` with the chance of the target, else `if_not`."""
    if chances is None:
        return if_own
    chances = chances.to(if_own.dtype)
    return if_own * chances + if_not * (1 - chances)


def waits(z: torch.Tensor) -> bool:
    """Whether reading a number of this tensor waits for a device."""
    return z.device.type != "cpu"


def expected_labels(z: torch.Tensor, targets: Targets) -> torch.Tensor | float:
    """`Targets.n_expected`; a tensor where reading it would wait for the device of the logits z."""
    if targets.chances is not None and waits(z):
        return targets.chances.sum(dtype=torch.float64)
    return targets.n_expected()


class BinaryLoss(torch.autograd.Function):
    """`bce_loss` of logits z."""

    @staticmethod
    def forward(
        ctx: Any, z: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, chances: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(z, rows, labels, chances)
        terms = functional.softplus(z)
        # not softplus(z) - z, which would lose digits
        terms[rows, labels] = expected(functional.softplus(-z[rows, labels]), terms[rows, labels], chances)
        return terms.sum(1).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        z, rows, labels, chances = ctx.saved_tensors
        found = torch.sigmoid(z)
        found[rows, labels] -= 1 if chances is None else chances.to(z.dtype)
        return found.mul_(grad / max(len(z), 1)), None, None, None


class SoftmaxLoss(torch.autograd.Function):
    """`softmax_loss` of logits z."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, temperature: float) -> torch.Tensor:
        rows = targets.rows()
        if targets.chances is None:
            counts = targets.counts()
            labelled, share = (counts > 0).to(z.dtype), (1 / counts.clamp(min=1).to(z.dtype))[rows]
        else:
            totals = targets.sums(targets.chances.to(z.dtype))
            labelled = (totals > 0).to(z.dtype)
            share = targets.chances.to(z.dtype) / totals.clamp(min=torch.finfo(z.dtype).tiny)[rows]
        scaled = z / temperature if temperature != 1 else z
        logs = torch.log_softmax(scaled, 1)  # not z - logsumexp(z), which would be rounded like z
        ctx.save_for_backward(logs, labelled, rows, targets.labels, share)
        ctx.temperature = temperature
        return -(logs[rows, targets.labels] * share).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logs, labelled, rows, labels, share = ctx.saved_tensors
        found = logs.exp().mul_(labelled[:, None])
        found[rows, labels] -= share
        return found.mul_(grad / (ctx.temperature * max(len(logs), 1))), None, None


class TopkEntropyLoss(torch.autograd.Function):
    """`topk_entropy_loss` of scores z."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
        n, rows, labels, counts = z.shape[1], targets.rows(), targets.labels, targets.counts()
        counted = z.clone()
        counted[rows, labels] = -math.inf
        surplus = torch.minimum((k - counts).clamp(min=0), n - counts)  # how many of the largest others do not count
        widest = min(k, n) if waits(z) else int(surplus.max()) if len(surplus) else 0
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
        ctx.save_for_backward(counted, total, gap, rows, labels, targets.chances)
        return times_chances(functional.softplus(gap), targets.chances).sum() / max(len(z), 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        counted, total, gap, rows, labels, chances = ctx.saved_tensors
        pull = times_chances(torch.sigmoid(gap), chances)
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
        ctx.save_for_backward(found.weights, found.sums, moved, rows, labels, targets.chances)
        ctx.kind = x.dtype
        return (-times_chances(functional.logsigmoid(moved), targets.chances).sum() / max(len(x), 1)).to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        weights, sums, moved, rows, labels, chances = ctx.saved_tensors
        pull = torch.sigmoid(-moved) * (grad.to(moved.dtype) / max(len(weights), 1))  # -d log y / d (x + nu)
        pull = times_chances(pull, chances)
        pulls = torch.zeros_like(sums).index_add_(0, rows, pull)
        found = weights * (pulls / sums).to(weights.dtype)[:, None]  # d nu / d x = -weights / sums
        found[rows, labels] -= pull.to(weights.dtype)
        return found.to(ctx.kind), None, None


class QuasibinaryLoss(torch.autograd.Function):
    """`quasibinary_loss` of logits z; given: log C for a batch without labels."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, targets: Targets, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, labels, n_own = targets.rows(), targets.labels, expected_labels(z, targets)
        # log C relative to the largest logit: differences are exact where log C itself is rounded like large logits
        largest = z.max() if z.numel() else z.new_zeros(())
        log_q = z - largest
        if isinstance(n_own, torch.Tensor):
            total = torch.logsumexp(log_q.flatten(), 0) - n_own.log().to(z.dtype)
            relative = torch.where(n_own > 0, total, given - largest)
            log_c = torch.where(n_own > 0, largest + relative, given)
        else:
            relative = torch.logsumexp(log_q.flatten(), 0) - math.log(n_own) if n_own > 0 else given - largest
            log_c = largest + relative if n_own > 0 else given.clone()
        log_q -= relative
        terms = log_q.clamp(min=0)
        # max(log q, 0) - log q for a label
        terms[rows, labels] = expected((-log_q[rows, labels]).clamp(min=0), terms[rows, labels], targets.chances)
        ctx.save_for_backward(log_q, rows, labels, targets.chances)
        ctx.n_own = n_own
        ctx.mark_non_differentiable(log_c)
        return terms.sum(1).sum() / max(len(z), 1), log_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        log_q, rows, labels, chances = ctx.saved_tensors
        over, n_own = log_q > 0, ctx.n_own
        found = over.to(log_q.dtype)
        if isinstance(n_own, torch.Tensor):
            share = log_q.exp().mul_(n_own - over.sum()).div_(n_own)
            found += torch.where(n_own > 0, share, torch.zeros_like(share))
        elif n_own > 0:  # exp(z) divided by its sum is q / n_own
            found += log_q.exp().mul_(n_own - over.sum()).div_(n_own)
        found[rows, labels] -= 1 if chances is None else chances.to(log_q.dtype)
        return found.mul_(grad / max(len(log_q), 1)), None, None
