"""The scorer's metric: the inverse of X^T X + ridge, as a diagonal plus a few leading directions.

Holds no labels and no groups. With A = X^T X + ridge I, a label's weights are A^-1 times a weighted sum of rows (ridge
regression with every other sample as a negative), so a score is x^T A^-1 x'. A is approximated by U S U^T + D: U, S
are leading eigenvectors and values of X^T X, D the rest of its diagonal plus the ridge; exact at full rank. Then

    x^T A^-1 x' = <x~, x~'> - <p, p'>    x~ = D^-1/2 x, as sparse as x;  p = x^T D^-1 U C^1/2, dense and rank wide
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _whitening_numba as kernels
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.seeding import bit_generator, permutation
from xpipe.ground.sparse import to_matrix, to_triple

EXACT = 1024  # up to so many features every direction is kept
RANK = 256  # of more features: beyond it F1 rises by less than 0.01 (45,000 x 5,000, groups of ten), cost in proportion
RANK_ALIKE = 1024  # where members of groups are alike: what tells them apart lies in weaker directions
ALIKE = 0.1  # correlation of two members; k-means groups have 0.3 to 0.5, random ones 0
MOST_DIRECTIONS = 1 << 26  # entries of all directions (256 MiB): very wide data gets fewer of them
OVERSAMPLING = 32
SWEEPS = 3  # of subspace iteration; the residual diagonal makes up for directions that are not quite the leading ones
DENSE_GRAM = 8192  # up to so many features X^T X is formed
MOST_ROWS = 100_000  # rows the directions are learnt from; more would move them very little
BLOCK = 1 << 14  # features at a time
GRAM_BLOCK = 256  # rows of X^T X a product; fixed, so that the number of threads changes no byte
LEAST_RIDGE, MOST_RIDGE = 1e-4, 1e12  # below: scores would be rounding of float32; above: they are zero anyway
NO_LENGTH = 1e-12  # rows of a mean squared length below this, where the largest value is about 1, have no directions


@dataclass(frozen=True)
class Spectrum:
    """Leading directions of X^T X: vectors (n_features x rank), values, diagonal of X^T X (float32), and the rows'
    mean squared length, the unit of a ridge; 0 where they have none."""

    vectors: np.ndarray
    values: np.ndarray
    diagonal: np.ndarray
    unit: float


@dataclass(frozen=True)
class Metric:
    """What whitens a row: D^-1/2 (n_features) and the leading directions (n_features x rank). float32."""

    scale: np.ndarray
    directions: np.ndarray


@dataclass(frozen=True)
class Whitened:
    """Rows in the scorer's metric: scaled sparse rows, leading coordinates, and each row's influence on itself."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    coordinates: np.ndarray
    influence: np.ndarray
    n_features: int


def usual_rank(n_features: int, likeness: float = 0.0) -> int:
    """Directions kept for so many features, members of a group having this correlation."""
    if n_features <= EXACT:
        return n_features
    return min(RANK_ALIKE if likeness > ALIKE else RANK, max(16, MOST_DIRECTIONS // n_features))


def scaled_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """X times the power of two that brings its largest value to (1/2, 1]: no square can then leave float32.

    A ridge counts in units of the rows' mean squared length, so owners stay what they are. Only the exponents of the
    values change, but for those that are next to nothing beside the largest one.
    """
    mantissa, exponent = np.frexp(np.abs(X.data).max(initial=0))
    exponent -= mantissa == 0.5
    if exponent == 0:
        return X
    return to_matrix(to_triple(X)._replace(values=np.ldexp(X.data, -exponent)), X.shape[1])


def sampled_rows(n_rows: int, seed: int = 0) -> np.ndarray:
    """The rows that directions are learnt from, in order."""
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(permutation(n_rows, seed, "rows for directions")[:MOST_ROWS])


def leading_directions(
    X: sp.csr_matrix, rank: int | None = None, seed: int = 0, n_rows: int | None = None, threads: int = 1
) -> Spectrum:
    """Randomised subspace iteration on X^T X, on one BLAS thread: more would add up in another order.

    X may be a sample of `n_rows` rows. Values should be about 1 at most (`scaled_rows`): sums are in float32. There are
    no directions where the rows have no length.
    """
    n_features = X.shape[1]
    rank = min(rank or usual_rank(n_features), n_features)
    share = np.float32((n_rows or X.shape[0]) / max(X.shape[0], 1))
    diagonal = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float32).ravel()
    unit = float(diagonal.sum(dtype=np.float64) / max(X.shape[0], 1))
    if unit < NO_LENGTH:
        return Spectrum(np.zeros((n_features, 0), np.float32), np.zeros(0, np.float32), diagonal * share, 0.0)
    with one_thread_each():
        gram = _gram(X, threads) if n_features <= DENSE_GRAM else None
        if rank == n_features and gram is not None:
            values, vectors = np.linalg.eigh(gram)
            leading = np.maximum(values[::-1], 0).astype(np.float32)
            return Spectrum(vectors[:, ::-1].astype(np.float32), leading * share, diagonal * share, unit)
        width = min(rank + OVERSAMPLING, n_features)
        raw = bit_generator(seed, "whitening").random_raw(-(-n_features * width // 8)).view(np.uint8)
        basis = (raw[: n_features * width].astype(np.float32) - np.float32(127.5)).reshape(n_features, width)
        for _ in range(SWEEPS):
            basis = _orthonormal(_times_gram(X, gram, basis, threads))
        image = _times_gram(X, gram, basis, threads)
        values, small = np.linalg.eigh(_products(basis, image))
        chosen = np.argsort(-values, kind="stable")[:rank]
        del image
        vectors = basis @ small[:, chosen].astype(np.float32)
    return Spectrum(vectors, np.maximum(values[chosen], 0).astype(np.float32) * share, diagonal * share, unit)


def _gram(X: sp.csr_matrix, threads: int) -> np.ndarray:
    triple, turned = to_triple(X), to_triple(sp.csr_matrix(X.T))
    gram = np.zeros((X.shape[1], X.shape[1]), dtype=np.float32)
    _in_pieces(X.shape[1], threads, lambda first, last: kernels.gram_rows(*turned, *triple, first, last, gram))
    return gram


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left^T right in float64, some rows at a time: a copy of tall matrices would not fit beside them."""
    total = np.zeros((left.shape[1], right.shape[1]))
    for first in range(0, len(left), BLOCK):
        total += left[first : first + BLOCK].astype(np.float64).T @ right[first : first + BLOCK]
    return total


def _orthonormal(tall: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the same space, but for directions too weak to matter."""
    values, vectors = np.linalg.eigh(_products(tall, tall))
    kept = values > 1e-12 * max(values[-1], 1e-300)
    return tall @ (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)


def _times_gram(X: sp.csr_matrix, gram: np.ndarray | None, basis: np.ndarray, threads: int) -> np.ndarray:
    if gram is not None:
        blocks = [slice(first, first + GRAM_BLOCK) for first in range(0, len(gram), GRAM_BLOCK)]
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(lambda block: gram[block] @ basis, blocks)))
    basis = np.ascontiguousarray(basis, dtype=np.float32)
    turned = sp.csr_matrix(X.T)
    return _rows_times(turned, _rows_times(X, basis, threads), threads)


def _rows_times(X: sp.csr_matrix, directions: np.ndarray, threads: int) -> np.ndarray:
    """X @ directions, each row by itself, so that the number of threads changes nothing."""
    triple = to_triple(X)
    out = np.empty((X.shape[0], directions.shape[1]), dtype=np.float32)
    _in_pieces(
        X.shape[0],
        threads,
        lambda first, last: kernels.project_rows(*triple, directions, first, last, out[first:last]),
    )
    return out


def _in_pieces(n: int, threads: int, work: Callable[[int, int], None]) -> None:
    cuts = np.linspace(0, n, 16 * threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


def metric_of(spectrum: Spectrum, ridge: float) -> Metric:
    """The metric of a ridge, which counts in units of the rows' mean squared length. They must have a length.

    Ridges outside LEAST_RIDGE..MOST_RIDGE count as these.
    """
    vectors, values = spectrum.vectors, spectrum.values
    kept = values > 1e-6 * max(float(values[0]), 1e-30) if len(values) else np.zeros(0, dtype=bool)
    ridge = min(max(ridge, LEAST_RIDGE), MOST_RIDGE)
    directions = np.empty((len(spectrum.diagonal), int(kept.sum())), dtype=np.float32)
    blocks = [slice(first, first + BLOCK) for first in range(0, len(directions), BLOCK)]
    with one_thread_each():
        explained = (vectors**2) @ values
        diagonal = ridge * spectrum.unit + np.maximum(spectrum.diagonal - explained, 0).astype(np.float64)
        inner = np.diag(1.0 / values[kept].astype(np.float64))
        for block in blocks:
            rows = vectors[block][:, kept].astype(np.float64)
            inner += rows.T @ (rows / diagonal[block, None])
        root = np.linalg.inv(np.linalg.cholesky(inner)).T  # of the inverse, which itself may round to an indefinite one
        for block in blocks:
            directions[block] = (vectors[block][:, kept] / diagonal[block, None]) @ root
    return Metric((1.0 / np.sqrt(diagonal)).astype(np.float32), directions)


def whiten(X: sp.csr_matrix, metric: Metric, threads: int = 1) -> Whitened:
    """Rows in a metric; any rows, not only those it was made from."""
    triple = to_triple(X)
    coordinates = _rows_times(X, metric.directions, threads)
    values = triple.values * metric.scale[triple.indices]
    influence = np.empty(X.shape[0], dtype=np.float32)
    kernels.own_influence(triple.indptr, values, coordinates, influence)
    return Whitened(triple.indptr, triple.indices, values, coordinates, influence, X.shape[1])
