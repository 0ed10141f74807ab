"""The smooth top-k SVM of Berrada, Zisserman and Kumar (2018), as the peer of LML in time. Holds no timing.

With e_j = exp(s_j / (k tau)) and elementary symmetric polynomials sigma of all e_j but that of the true label y, the
loss is tau * log(1 + exp(1 / tau) sigma_k / (e_y sigma_{k-1})). Everything is in log space.
"""

from __future__ import annotations

import torch

LOWEST = -1e30  # stands for log 0: differences of two of them stay finite


def smooth_svm_loss(scores: torch.Tensor, labels: torch.Tensor, k: int, tau: float = 1.0) -> torch.Tensor:
    """The mean loss of a batch.

    scores: float [n_rows, n_labels]. labels: int64 [n_rows], one true label per row. The polynomials come from the
    divide-and-conquer algorithm of the paper, which multiplies polynomials pairwise and drops powers above k.
    """
    scaled = scores / (k * tau)
    own = scaled.gather(1, labels[:, None]).squeeze(1)
    others = scaled.scatter(1, labels[:, None], LOWEST)  # e = 0 adds nothing to any polynomial
    powers = log_polynomials(others, k)
    ratio = powers[:, k] - powers[:, k - 1] - own + 1 / tau
    return tau * torch.nn.functional.softplus(ratio).mean()


def log_polynomials(values: torch.Tensor, k: int) -> torch.Tensor:
    """log sigma_0 .. log sigma_k of exp(values): float [n_rows, k + 1]."""
    n_rows = len(values)
    level = torch.stack([torch.zeros_like(values), values], dim=2)  # polynomials 1 + e_j x, by their log coefficients
    while level.shape[1] > 1:
        if level.shape[1] % 2:
            one = torch.full((n_rows, 1, level.shape[2]), LOWEST, dtype=values.dtype)
            one[:, :, 0] = 0
            level = torch.cat([level, one], dim=1)
        level = multiply(level[:, 0::2], level[:, 1::2], k)
    return level[:, 0, : k + 1] if level.shape[2] > k else pad(level[:, 0], k + 1)


def multiply(left: torch.Tensor, right: torch.Tensor, k: int) -> torch.Tensor:
    """Products of polynomials given by log coefficients, [n_rows, pairs, degree + 1], without powers above k."""
    degree = min(left.shape[2] + right.shape[2] - 2, k)
    terms = [left[:, :, i : i + 1] + pad(shift(right, i), degree + 1) for i in range(min(left.shape[2], degree + 1))]
    return torch.logsumexp(torch.stack(terms), dim=0)


def shift(values: torch.Tensor, places: int) -> torch.Tensor:
    """Coefficients of a polynomial times x to the power of `places`."""
    return torch.nn.functional.pad(values, (places, 0), value=LOWEST)


def pad(values: torch.Tensor, size: int) -> torch.Tensor:
    """Coefficients cut or filled up to `size`."""
    missing = size - values.shape[-1]
    return values[..., :size] if missing <= 0 else torch.nn.functional.pad(values, (0, missing), value=LOWEST)
