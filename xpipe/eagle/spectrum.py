"""Leading directions of feature rows about their mean, by randomised subspace iteration.

Holds no labels, no groups and no ridge: `whitening` makes a whitener of a spectrum and a ridge.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _whitening_numba as kernels
from xpipe.eagle.options import MOST_FEATURES, usual_rank
from xpipe.eagle.parts import in_pieces
from xpipe.eagle.problem import with_unsigned_columns
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.seeding import bit_generator, permutation
from xpipe.ground.sparse import to_matrix, to_triple

OVERSAMPLING = 32  # directions beyond the rank that the iteration carries
SWEEPS = 2  # of subspace iteration; the residual diagonal makes up for directions that are not quite the leading ones
SWEEPS_ALIKE = 3  # where members of groups are alike: ridges are low, and weak directions count
MOST_ROWS = 100_000  # rows that the directions are learned from; more would change them very little
GRAM_FEATURES = 64  # rows of X^T X that are added up together: they stay in cache while all rows of X pass
GRAM_BLOCK = 256  # rows of X^T X per product; fixed, so that the number of threads changes no byte
PRODUCT_BLOCK = 128  # columns per product; fixed as well
PROJECTED_COLUMNS = 128  # directions that rows are multiplied with at a time: those of 5,000 features take 2.5 MB
NO_LENGTH = 1e-12  # where the largest value is about 1, rows of a smaller mean squared length have no directions


@dataclass(frozen=True)
class Spectrum:
    """Leading eigenvectors and eigenvalues of (X - m)^T (X - m), where every row of m is the mean row; float32.

    Where there are many features, X has only those with the most variance. diagonal, mean: of all features.
    """

    features: np.ndarray  # numbers of the features of X, ascending
    vectors: np.ndarray  # these features x rank
    values: np.ndarray  # rank
    diagonal: np.ndarray  # of (X - m)^T (X - m), n_features
    mean: np.ndarray  # the mean row, n_features
    n_rows: int
    mean_square: float  # mean squared length of the rows, the unit in which a ridge counts; 0: they have no length


def scaled_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """X times the power of two that brings its largest value into (1/2, 1], so that squares stay within float32.

    Owners do not change, because a ridge counts in units of the mean squared length of the rows. Only the exponents of
    the values change, except for values that are next to nothing beside the largest one.
    """
    mantissa, exponent = np.frexp(np.abs(X.data).max(initial=0))
    exponent -= mantissa == 0.5
    if exponent == 0:
        return X
    return to_matrix(to_triple(X)._replace(values=np.ldexp(X.data, -exponent)), X.shape[1])


def sampled_rows(n_rows: int, seed: int = 0) -> np.ndarray:
    """The numbers of the rows that directions are learned from, ascending."""
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(permutation(n_rows, seed, "rows for directions")[:MOST_ROWS])


def leading_directions(
    X: sp.csr_matrix,
    rank: int | None = None,
    seed: int = 0,
    n_rows: int | None = None,
    threads: int = 1,
    sweeps: int = SWEEPS,
) -> Spectrum:
    """The leading directions of rows about their mean, on one BLAS thread: several would add in another order.

    X may be a sample of `n_rows` rows. Its values should be 1 at most (`scaled_rows`), because sums are in float32.
    There are no directions where the rows have no length.
    """
    n_features = X.shape[1]
    rank = min(rank or usual_rank(n_features), n_features, MOST_FEATURES)
    n_rows = n_rows or X.shape[0]
    share = np.float32(n_rows / max(X.shape[0], 1))
    squares = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float64).ravel()
    mean_square = float(squares.sum() / max(X.shape[0], 1))
    mean = (np.asarray(X.sum(axis=0), dtype=np.float64).ravel() / max(X.shape[0], 1)).astype(np.float32)
    diagonal = np.maximum(squares - X.shape[0] * mean.astype(np.float64) ** 2, 0).astype(np.float32) * share
    features = _most_variance(diagonal)
    if mean_square < NO_LENGTH:
        nothing = np.zeros((len(features), 0), np.float32)
        return Spectrum(features, nothing, np.zeros(0, np.float32), diagonal, mean, n_rows, 0.0)
    X, of_mean = columns_of_features(X, features), mean[features]
    with one_thread_each():
        gram = _gram(X, of_mean, threads)
        if rank == n_features:
            values, vectors = np.linalg.eigh(gram)
            vectors, values = vectors[:, ::-1].astype(np.float32), values[::-1]
        else:
            vectors, values = _subspace_iteration(gram, rank, seed, threads, sweeps)
    values = np.maximum(values, 0).astype(np.float32) * share
    return Spectrum(features, vectors, values, diagonal, mean, n_rows, mean_square)


def columns_of_features(X: sp.csr_matrix, features: np.ndarray) -> sp.csr_matrix:
    """The columns of these features, ascending."""
    return X if len(features) == X.shape[1] else sp.csr_matrix(X[:, features])


def _most_variance(diagonal: np.ndarray) -> np.ndarray:
    """The numbers of the MOST_FEATURES features with the most variance, ascending; of equal ones, the first."""
    return np.sort(np.argsort(-diagonal, kind="stable")[:MOST_FEATURES])


def _subspace_iteration(
    gram: np.ndarray, rank: int, seed: int, threads: int, sweeps: int
) -> tuple[np.ndarray, np.ndarray]:
    """(vectors, values) of the leading directions of a symmetric matrix, from a random start."""
    n_features = len(gram)
    width = min(rank + OVERSAMPLING, n_features)
    raw = bit_generator(seed, "whitening").random_raw(-(-n_features * width // 8)).view(np.uint8)
    basis = (raw[: n_features * width].astype(np.float32) - np.float32(127.5)).reshape(n_features, width)
    for _ in range(sweeps):
        basis = _orthonormal(_times(gram, basis, threads), threads)
    image = _times(gram, basis, threads)
    values, small = np.linalg.eigh(products(basis, image, threads))
    chosen = np.argsort(-values, kind="stable")[:rank]
    del image
    return basis @ small[:, chosen].astype(np.float32), values[chosen]


def _gram(X: sp.csr_matrix, mean: np.ndarray, threads: int) -> np.ndarray:
    """(X - m)^T (X - m), dense float32."""
    n_features, rows = X.shape[1], with_unsigned_columns(to_triple(X.sorted_indices()))
    gram = np.zeros((n_features, n_features), dtype=np.float32)
    with ThreadPoolExecutor(threads) as pool:
        pieces = range(0, n_features, GRAM_FEATURES)
        list(pool.map(lambda first: kernels.gram_rows(rows, mean, first, first + GRAM_FEATURES, gram), pieces))
    kernels.mirror(gram)
    return gram


def products(left: np.ndarray, right: np.ndarray, threads: int = 1) -> np.ndarray:
    """left^T right in float64, some columns at a time."""
    total = np.empty((left.shape[1], right.shape[1]))
    turned = left.astype(np.float64).T

    def multiply(start: int) -> None:
        inside = slice(start, start + PRODUCT_BLOCK)
        total[:, inside] = turned @ right[:, inside].astype(np.float64)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(multiply, range(0, right.shape[1], PRODUCT_BLOCK)))
    return total


def _orthonormal(tall: np.ndarray, threads: int) -> np.ndarray:
    """Orthonormal columns that span the same space, without directions that are too weak to matter."""
    values, vectors = np.linalg.eigh(products(tall, tall, threads))
    kept = values > max(1e-12 * values.max(initial=0), 1e-300)
    found: np.ndarray = tall @ (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    return found


def _times(gram: np.ndarray, basis: np.ndarray, threads: int) -> np.ndarray:
    """gram @ basis, some rows at a time."""
    blocks = [slice(first, first + GRAM_BLOCK) for first in range(0, len(gram), GRAM_BLOCK)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda block: gram[block] @ basis, blocks)))


def rows_times(X: sp.csr_matrix, directions: np.ndarray, threads: int, more: int = 0) -> np.ndarray:
    """X @ directions, and room for `more` columns; each row by itself: the number of threads changes no byte."""
    triple, rank = to_triple(X), directions.shape[1]
    blocks = _in_blocks(directions)
    out = np.empty((X.shape[0], rank + more), dtype=np.float32)
    in_pieces(
        X.shape[0],
        threads,
        lambda first, last: kernels.project_rows(triple, blocks, rank, first, last, out[first:last]),
    )
    return out


def _in_blocks(directions: np.ndarray) -> np.ndarray:
    """Columns in blocks of PROJECTED_COLUMNS, the last one filled up with 0: [blocks, n_features, columns]."""
    n_features, rank = directions.shape
    width = max(1, min(PROJECTED_COLUMNS, rank))
    blocks = np.zeros((-(-rank // width), n_features, width), dtype=np.float32)
    for number, block in enumerate(blocks):
        columns = directions[:, number * width : (number + 1) * width]
        block[:, : columns.shape[1]] = columns
    return blocks
