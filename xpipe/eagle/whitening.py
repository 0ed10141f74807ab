"""The scorer's metric: the inverse of X^T X + ridge, as a diagonal plus a few leading directions.

Holds no labels and no groups. With A = X^T X + ridge I, a label's weights are A^-1 times a weighted sum of rows (ridge
regression with every other sample as a negative), so a score is x^T A^-1 x'. A is approximated by U S U^T + D: U, S
are leading eigenvectors and values of X^T X, D the rest of its diagonal plus the ridge; exact at full rank. Then

    x^T A^-1 x' = <x~, x~'> - <p, p'>    x~ = D^-1/2 x, as sparse as x;  p = x^T D^-1 U C^1/2, dense and rank wide
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from xpipe.eagle import _owners_numba as kernels
from xpipe.seeding import bit_generator
from xpipe.sparse import to_triple

EXACT = 2048  # up to so many features every direction is kept
RANK = 256  # of more features: beyond it F1 rises by less than 0.01 (45,000 x 5,000, groups of ten), cost in proportion
OVERSAMPLING = 32
SWEEPS = 3  # of subspace iteration; the residual diagonal makes up for directions that are not quite the leading ones
DENSE_GRAM = 8192  # up to so many features X^T X is formed


@dataclass(frozen=True)
class Spectrum:
    """Leading directions of X^T X: vectors (n_features x rank), values, and the diagonal of X^T X. All float32."""

    vectors: np.ndarray
    values: np.ndarray
    diagonal: np.ndarray


@dataclass(frozen=True)
class Whitened:
    """Rows in the scorer's metric: scaled sparse rows, leading coordinates, and each row's influence on itself."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    coordinates: np.ndarray
    influence: np.ndarray


def usual_rank(n_features: int) -> int:
    return n_features if n_features <= EXACT else RANK


def leading_directions(X: sp.csr_matrix, rank: int, seed: int = 0) -> Spectrum:
    """Randomised subspace iteration on X^T X, on one BLAS thread: more would add up in another order."""
    n_features = X.shape[1]
    rank = min(rank, n_features)
    diagonal = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float32).ravel()
    with threadpool_limits(1):
        gram = np.asarray((X.T @ X).todense(), dtype=np.float32) if n_features <= DENSE_GRAM else None
        if rank == n_features and gram is not None:
            values, vectors = np.linalg.eigh(gram)
            return Spectrum(vectors[:, ::-1].astype(np.float32), values[::-1].astype(np.float32), diagonal)
        width = min(rank + OVERSAMPLING, n_features)
        bits = bit_generator(seed, "whitening").random_raw(n_features * width)
        basis = ((bits >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)).reshape(
            n_features, width
        )
        for _ in range(SWEEPS):
            basis, _ = np.linalg.qr(_times_gram(X, gram, basis))
        image = _times_gram(X, gram, basis)
        values, small = np.linalg.eigh((basis.T @ image).astype(np.float64))
        chosen = np.argsort(-values, kind="stable")[:rank]
        vectors = basis @ small[:, chosen].astype(np.float32)
    return Spectrum(vectors, np.maximum(values[chosen], 0).astype(np.float32), diagonal)


def _times_gram(X: sp.csr_matrix, gram: np.ndarray | None, basis: np.ndarray) -> np.ndarray:
    if gram is not None:
        return gram @ basis
    return np.asarray(X.T @ (X @ basis), dtype=np.float32)


def whiten(X: sp.csr_matrix, spectrum: Spectrum, ridge: float, threads: int = 1) -> Whitened:
    """Rows of X in the metric of a ridge. X may be any rows, not only those the spectrum was made from."""
    vectors, values = spectrum.vectors, spectrum.values
    explained = (vectors**2) @ values
    diagonal = ridge + np.maximum(spectrum.diagonal - explained, 0).astype(np.float64)
    with threadpool_limits(1):
        scaled = vectors / diagonal[:, None]
        kept = values > 1e-6 * max(float(values[0]), 1e-30) if len(values) else np.zeros(0, dtype=bool)
        scaled, values = scaled[:, kept], values[kept]
        inner = np.diag(1.0 / values.astype(np.float64)) + vectors[:, kept].astype(np.float64).T @ scaled
        root = np.linalg.cholesky(np.linalg.inv(inner))
        directions = scaled @ root
    directions = np.ascontiguousarray(directions, dtype=np.float32)
    triple = to_triple(X)
    coordinates = np.empty((X.shape[0], directions.shape[1]), dtype=np.float32)
    cuts = np.linspace(0, X.shape[0], 4 * threads + 1).astype(np.int64)

    def project(part: int) -> None:
        first, last = cuts[part], cuts[part + 1]
        kernels.project_rows(*triple, directions, first, last, coordinates[first:last])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(project, range(len(cuts) - 1)))
    scaled_values = (triple.values / np.sqrt(diagonal[triple.indices])).astype(np.float32)
    scaled_rows = sp.csr_matrix((scaled_values, triple.indices, triple.indptr), shape=X.shape)
    squares = np.asarray(scaled_rows.multiply(scaled_rows).sum(axis=1)).ravel()
    influence = squares - np.einsum("ij,ij->i", coordinates, coordinates)
    return Whitened(triple.indptr, triple.indices, scaled_values, coordinates, influence.astype(np.float32))
