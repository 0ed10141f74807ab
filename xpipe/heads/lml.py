"""The limited multi-label projection: probabilities that sum to k, and its exact derivative.

Holds no loss and no weights. In the paper's symbols: y = sigmoid(x + nu), nu the root of sum_i sigmoid(x_i + nu) = k.

A Newton step on logit(mean y) = logit(k / n) is exact where all logits are equal, and where all are far below 0; a
handful of steps from what normally distributed logits would need settles almost all rows, whatever k is. A step moves
y without another exponential: 1 / sigmoid(u + d) = a / y + 1 - a, a = exp(-d). What is left after that is solved in
float64 within the bracket -log(n - k) - x_(k) <= nu <= log(k) - x_(k+1), x_(i) the i-th largest: at the root, what
the first k lack of 1 is what the others have, each at most (or at least) one label's share of it.

float32 on a CPU takes the same way in kernels (`lml_rows`); what they leave unsolved is solved here.
"""

from __future__ import annotations

import math

import torch

from xpipe.errors import ConfigError, DataError, StageError
from xpipe.heads import lml_rows

STEPS = 12  # of the whole batch; rows that need more are solved by themselves
BRACKETED_STEPS = 200
TOLERANCE = {torch.float32: 5e-7, torch.float64: 1e-11}  # of sum(y), as a share of k


def lml_projection(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Probabilities nearest to the logits that sum to k: [..., n] to [..., n], differentiable, in the order of logits.

    Where k >= n, every probability is 1 and the gradient 0. float32 and float64 stay what they are; narrower types
    are computed in float32. Raises ConfigError unless k is a whole number of at least 1, DataError where logits are
    not finite.
    """
    check_k(k)
    return _Projection.apply(logits, k)


class LML(torch.nn.Module):
    """The projection behind any layer that gives logits: `LML(k)(logits)`."""

    def __init__(self, k: int):
        super().__init__()
        check_k(k)
        self.k = k

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return lml_projection(logits, self.k)

    def extra_repr(self) -> str:
        return f"k={self.k}"


def check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"`k` must be a whole number of at least 1, got {k!r}")


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: torch.Tensor, k: int) -> torch.Tensor:
        y, _ = solve(logits.detach().reshape(-1, logits.shape[-1]), k)
        y = y.reshape(logits.shape)
        ctx.save_for_backward(y)
        return y.to(logits.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        return pull(y, grad.to(y.dtype)).to(grad.dtype), None


def pull(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient by the logits, 1 / h * (grad - its mean with weights 1 / h), 1 / h = y (1 - y): [..., n]."""
    if lml_rows.fits(y):
        return lml_rows.pull(y, grad)
    found = _inverse_curvature(y)
    whole = found.sum(-1, keepdim=True)
    moved = _share(found.mul_(grad).sum(-1, keepdim=True), whole)
    # in the memory there is: new pages cost more than another pass
    return torch.sub(grad, moved, out=found).mul_(y).addcmul_(found, y, value=-1)


def _inverse_curvature(y: torch.Tensor) -> torch.Tensor:
    """1 / h of the paper, h = 1 / y + 1 / (1 - y): y (1 - y), a new tensor."""
    return torch.addcmul(y, y, y, value=-1)


def _share(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """part / whole, and 0 where whole is: rows whose probabilities are all 0 or 1 do not move."""
    return torch.where(whole > 0, part / whole, torch.zeros_like(part))


def solve(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(y [rows, n], nu [rows, 1]) for logits [rows, n]; nu is float64 where the device has it, infinite if k >= n."""
    n = x.shape[1]
    if x.dtype not in TOLERANCE:
        x = x.float()
    wide = widest(x)
    if k >= n:
        check_finite(x)
        return torch.ones_like(x), x.new_full((len(x), 1), math.inf, dtype=wide)
    if 2 * k > n and not lml_rows.fits(x):  # the labels left out are the few: 1 - sigmoid(u) = sigmoid(-u)
        y, nu = solve(-x, n - k)
        return y.neg_().add_(1), -nu
    y, nu, done = lml_rows.project(x, k) if lml_rows.fits(x) else _newton(x, k, wide)
    if not done.all():
        rows = torch.nonzero(~done).flatten()
        y[rows], nu[rows] = _bracketed(x[rows], k, wide)
    return y, nu


def _newton(x: torch.Tensor, k: int, wide: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y, nu, which rows are solved): a few steps of the whole batch, in as few passes over it as there can be."""
    n = x.shape[1]
    goal, tolerance = math.log(k / (n - k)), TOLERANCE[x.dtype] * k
    mean = x.mean(1, keepdim=True).to(wide)
    variance = (torch.linalg.vector_norm(x, dim=1, keepdim=True).to(wide) ** 2 / n - mean**2).clamp_(min=0)
    nu = goal * torch.sqrt(1 + math.pi / 8 * variance) - mean
    nu = nu.to(x.dtype).to(wide)  # what is added below, exactly
    y = torch.add(x, nu.to(x.dtype)).sigmoid_()
    low, high = torch.full_like(nu, -math.inf), torch.full_like(nu, math.inf)
    fallen = 0.0  # how far y has been moved down since its last sigmoid: each unit costs it a factor e of precision
    for step in range(STEPS):
        total = y.sum(1, keepdim=True).to(wide)
        excess = total - k
        done = excess.abs() <= tolerance
        if step == STEPS - 1 or done.all():
            break
        squares = torch.linalg.vector_norm(y, dim=1, keepdim=True).to(wide) ** 2
        low, high = torch.where(excess < 0, nu, low), torch.where(excess > 0, nu, high)
        slope = (total - squares) * n / (total * (n - total))
        target = nu - (torch.log(total / (n - total)) - goal) / slope
        between = (low + high) / 2
        target = torch.where((target > low) & (target < high), target, between)
        stuck = ~torch.isfinite(target)
        if (done | stuck).all():
            break
        move = torch.where(done | stuck, 0, target - nu)
        fallen += max(-float(move.min()), 0.0)
        if fallen < 1 and float(move.max()) < 20:
            shrink = torch.exp(-move)
            y.reciprocal_().mul_(shrink.to(x.dtype)).add_((1 - shrink).to(x.dtype)).reciprocal_()
            nu = nu + move
        else:
            nu = (nu + move).to(x.dtype).to(wide)
            torch.add(x, nu.to(x.dtype), out=y).sigmoid_()
            fallen = 0.0
    return y, nu, done.flatten()


def _bracketed(x: torch.Tensor, k: int, wide: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, nu) of rows that take longer, such as logits of 1e30: Newton within a proved bracket, halved if need be."""
    check_finite(x)
    n, kind = x.shape[1], x.dtype
    x = x.to(wide)
    largest = torch.topk(x, k + 1, dim=1).values
    origin = largest[:, k - 1 : k]
    x = x - origin  # exact near the k-th, where it matters
    low = torch.full_like(origin, -math.log(n - k))
    high = (origin - largest[:, k : k + 1]) + math.log(k)
    tolerance = TOLERANCE[wide] * k
    nu = low + (high - low) / 2
    for _ in range(BRACKETED_STEPS):
        y = torch.sigmoid(x + nu)
        total = y.sum(1, keepdim=True)
        excess = total - k
        done = excess.abs() <= tolerance
        if done.all():
            return y.to(kind), nu - origin
        low, high = torch.where(excess < 0, nu, low), torch.where(excess > 0, nu, high)
        target = nu - excess / (total - torch.linalg.vector_norm(y, dim=1, keepdim=True) ** 2)
        target = torch.where((target > low) & (target < high), target, low + (high - low) / 2)
        nu = torch.where(done, nu, target)
    raise not_converged(k, n, BRACKETED_STEPS, f"a row sums to {k} only within {float(excess.abs().max()):.1e}")


def widest(x: torch.Tensor) -> torch.dtype:
    """The widest type of numbers of its device."""
    return x.dtype if x.device.type == "mps" else torch.float64


def not_converged(k: int, n: int, steps: int, why: str) -> StageError:
    return StageError(
        f"the projection onto {k} of {n} labels did not converge",
        why=f"after {steps} steps {why}",
        fix="scale the logits down, or report the logits as a bug",
    )


def check_finite(x: torch.Tensor) -> None:
    if torch.isfinite(x).all():
        return
    raise DataError(
        "logits must be finite for the projection onto k labels",
        why="some are NaN or infinite: training may have diverged",
        fix="a smaller learning rate, or clip the gradients",
    )
