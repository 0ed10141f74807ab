"""Products with the fixed matrix of a DFT head, W_DFT x: by inverse FFT, by the matrix, or by one block of its rows.

Holds no learned weights. All routes give the same result up to rounding; they differ in time and memory:

    fft     O(n log n) and no matrix; slow where n has a large prime factor
    dense   the n x (2k + 1) matrix, one product; fastest where it fits into the cache or k is small
    blocks  the first few thousand rows, used for all others: going on by m rows turns the pair of frequency j by the
            angle 2 pi j m / n, so all logits are the product of [x turned once per block] and the block

Measured with benchmarks/heads.py, nanoseconds per logit, forward and backward, 2 cores: fft 2.4 (6.6 where a batch of
logits does not fit into the cache), blocks 0.6 + 0.042 k (2.8 + 0.042 k), dense 0.4 + 0.038 k in the cache and
0.4 + 0.09 k out of it, for any batch.
"""

from __future__ import annotations

import math

import torch

from xpipe.argmaxability import dft_matrix

IN_CACHE = 1 << 20  # entries of a matrix
FEW_FREQUENCIES = 16
LARGE_BATCH = 12_000_000  # logits
FAST_FACTOR = 13  # FFT libraries have code for prime factors up to this
BLOCK = (2048, 8192)  # rows


def product_route(n: int, k: int, memory: int) -> str:
    """ "dense" or "blocks", for n labels and a matrix of at most `memory` bytes."""
    entries = n * (2 * k + 1)
    return "dense" if (entries <= IN_CACHE or k <= FEW_FREQUENCIES) and 4 * entries <= memory else "blocks"


def choose_route(n: int, k: int, batch: int, product: str) -> str:
    """ "fft" or `product`. Depends on sizes alone, so that a repeated run takes the same route."""
    if product == "dense" or largest_prime(n) > FAST_FACTOR:
        return product
    large = batch * n > LARGE_BATCH
    return "fft" if (6.6 if large else 2.4) < (2.8 if large else 0.6) + 0.042 * k else product


def largest_prime(n: int) -> int:
    """The largest prime factor of n, 1 for n = 1."""
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n) if n > 1 else largest


def block_rows(n: int) -> int:
    """Rows of a block: a divisor of n if there is one of a good size, so that the last block is a whole one."""
    if n <= BLOCK[1]:
        return n
    divisors = [rows for rows in range(BLOCK[0], BLOCK[1] + 1) if n % rows == 0]
    middle = math.sqrt(BLOCK[0] * BLOCK[1])
    return min(divisors, key=lambda rows: abs(rows - middle)) if divisors else -(-n // -(-n // int(middle)))


def block_matrices(n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(block [rows, 2k + 2], turns [blocks, k + 1, 2]), float64.

    The block has the columns of W_DFT, with a zero column after the first, so that each frequency has two. turns: the
    cosine and sine that turn the input for each block.
    """
    rows = block_rows(n)
    frequencies = torch.arange(k + 1)
    angles = torch.outer(torch.arange(rows), frequencies).remainder_(n).double() * (2 * math.pi / n)
    block = torch.stack([torch.cos(angles), torch.sin(angles)], 2) * math.sqrt(2 / n)
    block[:, 0, 0] = 1 / math.sqrt(n)
    starts = torch.arange(0, n, rows)
    angles = torch.outer(starts, frequencies).remainder_(n).double() * (2 * math.pi / n)
    return block.reshape(rows, 2 * k + 2), torch.stack([torch.cos(angles), -torch.sin(angles)], 2)


def by_fft(x: torch.Tensor, n: int) -> torch.Tensor:
    """W_DFT x for x [batch, 2k + 1], by an inverse real FFT of length n."""
    spectrum = _pairs(torch.cat([x[:, :1], x[:, 1:] * math.sqrt(0.5)], 1)).conj()
    logits: torch.Tensor = torch.fft.irfft(spectrum, n, norm="ortho")
    return logits


def by_blocks(x: torch.Tensor, n: int, block: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """W_DFT x for x [batch, 2k + 1], with the results of `block_matrices`."""
    turned = torch.view_as_real(_pairs(x)[:, None] * torch.view_as_complex(turns))
    logits = turned.reshape(-1, block.shape[1]) @ block.T
    return logits.reshape(len(x), -1)[:, :n]


def dense_matrix(n: int, k: int) -> torch.Tensor:
    """W_DFT, float64 [n, 2k + 1]."""
    return torch.from_numpy(dft_matrix(n, k))


def _pairs(x: torch.Tensor) -> torch.Tensor:
    """Complex [batch, k + 1]: the constant, then cosine + i sine of each frequency."""
    return torch.view_as_complex(torch.cat([x[:, :1], torch.zeros_like(x[:, :1]), x[:, 1:]], 1).unflatten(1, (-1, 2)))
