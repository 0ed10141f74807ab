"""What the LML loss needs of the projection: the root nu, and the weights y (1 - y) that give the derivative of nu.

Holds no loss. Also correct where the projection saturates: there all y round to 0 or 1, and a wide range of nu gives
the sum k. But the sum of 1 - y over the k labels above 1/2 still equals the sum of y over the others:

    sum over those above of sigmoid(-(x_i + nu))  =  sum over the others of sigmoid(x_j + nu)

Both sides and the weights are computed as logarithms, in float64, so that nothing underflows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch.nn import functional

from xpipe.heads import lml_rows
from xpipe.heads.lml import TOLERANCE, check_finite, not_converged, solve, widest

STEPS = 100
ENOUGH = 0.5  # sum of the weights divided by min(k, n - k); below, the sum of y no longer determines nu
PIECE = 1 << 21  # logits solved together in float64


class Balance(NamedTuple):
    """The root nu of each row: log y = log sigmoid((x - origin) + nu), and d nu / d x = -weights / sums.

    weights: [rows, n], in the type of the logits; sums, origin, nu: [rows], in float64 where the device has it.
    """

    weights: torch.Tensor
    sums: torch.Tensor
    origin: torch.Tensor
    nu: torch.Tensor


def balance(x: torch.Tensor, k: int) -> Balance:
    """The balance of logits [rows, n]; types narrower than float32 become float32. Raises DataError unless finite."""
    if x.dtype not in TOLERANCE:
        x = x.float()
    n, wide = x.shape[1], widest(x)
    if k >= n:  # y = 1 whatever the logits are
        check_finite(x)
        ones = torch.ones(len(x), dtype=wide, device=x.device)
        return Balance(torch.zeros_like(x), ones, torch.zeros_like(ones), ones * math.inf)
    weights, sums, nu, done = lml_rows.balance(x, k) if lml_rows.fits(x) else _from_projection(x, k)
    origin = torch.zeros_like(nu)
    left = torch.nonzero(~done).flatten()
    for rows in left.split(max(PIECE // n, 1)):
        shares, origin[rows], nu[rows] = _in_logarithms(x[rows].to(wide), k)
        weights[rows], sums[rows] = shares.to(x.dtype), 1.0
    return Balance(weights, sums, origin, nu)


def _from_projection(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weights, sums, nu, which rows are settled): one more Newton step from the root of the projection."""
    n = x.shape[1]
    y, nu = solve(x, k)
    total = y.sum(1).to(nu.dtype)
    weights = torch.addcmul(y, y, y, value=-1)
    sums = weights.sum(1).to(nu.dtype)
    nu = nu[:, 0] - (total - k) / sums
    exact = torch.finfo(nu.dtype).eps * nu.abs() <= TOLERANCE[x.dtype]  # then x + nu is exact enough, too
    return weights, sums, nu, exact & (sums >= ENOUGH * min(k, n - k))


def _in_logarithms(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weights with sum 1, origin, nu) of rows: Newton steps on the logarithms, within the bracket of `lml`."""
    check_finite(x)
    n = x.shape[1]
    largest = torch.topk(x, k + 1, dim=1).values
    origin = largest[:, k - 1 : k]
    x = x - origin  # exact near the k-th largest, where it matters
    low = torch.full_like(origin, -math.log(n - k))
    high = (origin - largest[:, k : k + 1]) + math.log(k)
    nu = low + (high - low) / 2
    rounding = 4 * torch.finfo(x.dtype).eps * (1 + high - low)
    for _ in range(STEPS):
        moved = x + nu
        above = moved > 0
        small = functional.logsigmoid(-moved.abs())  # log(1 - y) for those above, log y for the others
        logs = small + functional.logsigmoid(moved.abs())
        surplus = above.sum(1, keepdim=True) - k
        left = torch.logaddexp(_of_those(small, above), (-surplus).clamp(min=0).to(x.dtype).log())
        right = torch.logaddexp(_of_those(small, ~above), surplus.clamp(min=0).to(x.dtype).log())
        gap = right - left
        slope = torch.exp(_of_those(logs, above) - left) + torch.exp(_of_those(logs, ~above) - right)
        low, high = torch.where(gap < 0, nu, low), torch.where(gap > 0, nu, high)
        step = gap / slope
        target = nu - step
        inside = (target >= low) & (target <= high)
        done = step.abs() <= rounding
        nu = torch.where(done & inside, target, torch.where(done, nu, torch.where(inside, target, (low + high) / 2)))
        if done.all():
            return torch.softmax(logs, 1), origin[:, 0], nu[:, 0]
    raise not_converged(k, n, STEPS, f"the two sides of a row still differ by a factor of {float(gap.abs().max()):.1e}")


def _of_those(logs: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum over the chosen labels, [rows, 1]; -inf where none is chosen."""
    return torch.logsumexp(logs.masked_fill(~chosen, -math.inf), 1, keepdim=True)
