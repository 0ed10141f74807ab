"""The limited multi-label projection: probabilities that sum to k, and its exact derivative.

Holds no loss and no weights. The projection of Amos, Koltun and Kolter (arXiv 1906.08707), in their symbols:
y = sigmoid(x + nu), with nu the root of sum_i sigmoid(x_i + nu) = k.

The root is found by Newton steps on logit(mean y) = logit(k / n). Such a step is exact where all logits are equal, and
where all are far below 0. The start is the root for normally distributed logits, so a few steps settle almost all rows,
whatever k is. A step moves y without another exponential: 1 / sigmoid(u + d) = a / y + 1 - a, a = exp(-d). Rows that
are not settled then are solved in float64 within the bracket -log(n - k) - x_(k) <= nu <= log(k) - x_(k+1), where x_(i)
is the i-th largest logit. The bracket holds because at the root the sum of 1 - y over the k largest equals the sum of y
over the others, and each sum is at least its largest term and at most its number of terms times that.

float32 on a CPU is solved in the same way by kernels (`lml_rows`); rows that they leave unsolved are solved here.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from xpipe.errors import ConfigError, DataError, StageError
from xpipe.heads import lml_rows

STEPS = 12  # for the whole batch; rows that need more are solved separately
BRACKETED_STEPS = 200
TOLERANCE = {torch.float32: 5e-7, torch.float64: 1e-11}  # of the sum of y, relative to k


def lml_projection(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Project logits onto probabilities that sum to k, differentiably (Amos, Koltun and Kolter, arXiv 1906.08707).

    y = argmax over 0 <= y <= 1 with sum k of <x, y> + H(y), H the sum of binary entropies: y = sigmoid(x + nu).

    Parameters
    ----------
    logits : tensor of float, shape (..., n)
        The logits x. float32 and float64 stay as they are; narrower types are computed in float32.
    k : int
        The sum of the probabilities. Where k >= n, all probabilities are 1 and the gradient is 0.

    Returns
    -------
    tensor of float, shape (..., n)
        In the order of the logits: higher logits have higher probabilities.

    Raises
    ------
    ConfigError
        Unless k is a whole number of at least 1.
    DataError
        If a logit is not finite.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import lml_projection
    >>> lml_projection(torch.tensor([1.0, 1.0, 1.0, 1.0]), k=2)
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    check_k(k)
    found: torch.Tensor = _Projection.apply(logits, k)
    return found


class LML(torch.nn.Module):
    """`lml_projection` as a module, to be put behind any layer that gives logits.

    Parameters
    ----------
    k : int
        The sum of the probabilities.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import LML
    >>> round(float(LML(k=2)(torch.tensor([3.0, 1.0, -1.0])).sum()), 4)
    2.0
    """

    def __init__(self, k: int):
        super().__init__()
        check_k(k)
        self.k = k

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return lml_projection(logits, self.k)

    def extra_repr(self) -> str:
        return f"k={self.k}"


def check_k(k: int) -> None:
    """Raise ConfigError unless k is a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"`k` must be a whole number of at least 1, got {k!r}")


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, k: int) -> torch.Tensor:
        y, _ = solve(logits.detach().reshape(-1, logits.shape[-1]), k)
        y = y.reshape(logits.shape)
        ctx.save_for_backward(y)
        return y.to(logits.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        return pull(y, grad.to(y.dtype)).to(grad.dtype), None


def pull(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient of the logits: 1 / h * (grad - mean of grad weighted by 1 / h), with 1 / h = y (1 - y); [..., n]."""
    if lml_rows.fits(y):
        return lml_rows.pull(y, grad)
    found = _inverse_curvature(y)
    whole = found.sum(-1, keepdim=True)
    moved = _share(found.mul_(grad).sum(-1, keepdim=True), whole)
    # in place: new memory pages cost more than another pass
    return torch.sub(grad, moved, out=found).mul_(y).addcmul_(found, y, value=-1)


def _inverse_curvature(y: torch.Tensor) -> torch.Tensor:
    """1 / h of the paper, h = 1 / y + 1 / (1 - y): y (1 - y), a new tensor."""
    return torch.addcmul(y, y, y, value=-1)


def _share(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """part / whole, and 0 where whole is 0: rows whose probabilities are all 0 or 1 have no gradient."""
    return torch.where(whole > 0, part / whole, torch.zeros_like(part))


def solve(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(y [rows, n], nu [rows, 1]) for logits [rows, n]; nu is in `widest`, infinite if k >= n."""
    n = x.shape[1]
    if x.dtype not in TOLERANCE:
        x = x.float()
    wide = widest(x)
    if k >= n:
        check_finite(x)
        return torch.ones_like(x), x.new_full((len(x), 1), math.inf, dtype=wide)
    if 2 * k > n and not lml_rows.fits(x):  # solve for the few labels that are left out: 1 - sigmoid(u) = sigmoid(-u)
        y, nu = solve(-x, n - k)
        return y.neg_().add_(1), -nu
    y, nu, done = lml_rows.project(x, k) if lml_rows.fits(x) else _newton(x, k, wide)
    if not done.all():
        rows = torch.nonzero(~done).flatten()
        y[rows], nu[rows] = _bracketed(x[rows], k, wide)
    return y, nu


def _newton(x: torch.Tensor, k: int, wide: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y, nu, which rows are solved): a few Newton steps of the whole batch, in as few passes over it as possible."""
    n = x.shape[1]
    goal, tolerance = math.log(k / (n - k)), TOLERANCE[x.dtype] * k
    mean = x.mean(1, keepdim=True).to(wide)
    variance = (torch.linalg.vector_norm(x, dim=1, keepdim=True).to(wide) ** 2 / n - mean**2).clamp_(min=0)
    nu = goal * torch.sqrt(1 + math.pi / 8 * variance) - mean
    nu = nu.to(x.dtype).to(wide)  # exactly the number that is added below
    y = torch.add(x, nu.to(x.dtype)).sigmoid_()
    low, high = torch.full_like(nu, -math.inf), torch.full_like(nu, math.inf)
    fallen = 0.0  # how far nu fell since the last sigmoid: each 1 costs y a factor e of precision
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
    """(y, nu) of rows that need more steps, such as logits of 1e30: Newton within a proved bracket, or bisection."""
    check_finite(x)
    n, kind = x.shape[1], x.dtype
    x = x.to(wide)
    largest = torch.topk(x, k + 1, dim=1).values
    origin = largest[:, k - 1 : k]
    x = x - origin  # exact near the k-th largest, where it matters
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
    """float64, where the device has it."""
    return x.dtype if x.device.type == "mps" else torch.float64


def not_converged(k: int, n: int, steps: int, why: str) -> StageError:
    """The error for a projection that did not converge."""
    return StageError(
        f"the projection onto {k} of {n} labels did not converge",
        why=f"after {steps} steps {why}",
        fix="scale the logits down, or report the logits as a bug",
    )


def check_finite(x: torch.Tensor) -> None:
    """Raise DataError unless all logits are finite."""
    if torch.isfinite(x).all():
        return
    raise DataError(
        "logits must be finite for the projection onto k labels",
        why="some are NaN or infinite: training may have diverged",
        fix="a smaller learning rate, or clip the gradients",
    )
