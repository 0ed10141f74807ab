"""The whitener of the scorer: ridge regression with an intercept, as products of rows.

Holds no labels and no groups. m is the mean row, n the number of rows, A = (X - m)^T (X - m) + ridge I. Ridge
regression with an intercept on targets q scores a row with mean(q) + (x - m)^T A^-1 sum_j q_j (x_j - m), so each target
adds the product of two rows to the score:

    k(x, x') = (x - m)^T A^-1 (x' - m) + 1 / n

A is approximated by U S U^T + D: U and S are leading eigenvectors and eigenvalues of (X - m)^T (X - m), D is the rest
of its diagonal plus the ridge. U is zero outside the features with the most variance.
At full rank this is exact, if these are all features. Then

    x^T A^-1 x' = <x~, x~'> - <p, p'>    x~ = D^-1/2 x, as sparse as x;  p = x^T D^-1 U C^1/2, dense, of length rank

The mean is never subtracted from a row, which would make it dense. With t = x^T A^-1 m and c = m^T A^-1 m + 1 / n,
k(x, x') = x^T A^-1 x' - t - t' + c, and -t - t' + c = (t/w - w) (t'/w - w) - (t/w) (t'/w) with w^2 = c. So a row gets
one more feature, t/w - w, and one more coordinate, t/w, and products stay <x~, x~'> - <p, p'>.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _whitening_numba as kernels
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.parts import in_pieces
from xpipe.eagle.spectrum import Spectrum, columns_of_features, rows_times
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import Triple, to_triple

LEAST_RIDGE, MOST_RIDGE = 1e-4, 1e12  # below, scores would be float32 rounding; above, they are zero anyway


@dataclass(frozen=True)
class Whitener:
    """What whitens a row; float32."""

    scale: np.ndarray  # D^-1/2, n_features
    features: np.ndarray  # numbers of the features that directions lie in, ascending
    directions: np.ndarray  # these features x rank
    of_mean: np.ndarray  # A^-1 m / w, n_features
    width: float  # w


def whitener_of(spectrum: Spectrum, ridge: float) -> Whitener:
    """The whitener of a ridge, which counts in units of the mean squared length of the rows. They must have a length.

    Ridges outside LEAST_RIDGE..MOST_RIDGE are moved to the nearer limit.
    """
    n_kept = int((spectrum.values > 1e-6 * spectrum.values.max(initial=1e-30)).sum())  # the values descend
    vectors, values, features = spectrum.vectors[:, :n_kept], spectrum.values[:n_kept], spectrum.features
    ridge = min(max(ridge, LEAST_RIDGE), MOST_RIDGE)
    with one_thread_each():
        explained = np.zeros(len(spectrum.diagonal), dtype=np.float32)
        explained[features] = (vectors**2) @ values
        diagonal = ridge * spectrum.mean_square + np.maximum(spectrum.diagonal - explained, 0).astype(np.float64)
        of_features = diagonal[features]
        scaled = vectors * (1.0 / np.sqrt(of_features))[:, None]  # float64: low ridges leave few digits
        inner = np.diag(1.0 / values.astype(np.float64)) + (scaled.T @ scaled)
        root = np.linalg.inv(np.linalg.cholesky(inner)).T  # a root of the inverse, which may itself round to indefinite
        directions = (vectors * (1.0 / of_features).astype(np.float32)[:, None]) @ root.astype(np.float32)
        mean = spectrum.mean.astype(np.float64)
        of_mean = mean / diagonal
        of_mean[features] -= directions @ (spectrum.mean[features] @ directions)
        width = math.sqrt(max(float(mean @ of_mean), 0.0) + 1.0 / max(spectrum.n_rows, 1))
    scale, of_mean = 1.0 / np.sqrt(diagonal), of_mean / width
    return Whitener(scale.astype(np.float32), features, directions, of_mean.astype(np.float32), width)


def empty_whitener(n_features: int) -> Whitener:
    """The whitener of rows without length: all products are 1."""
    nothing = np.zeros(n_features, np.float32)
    return Whitener(nothing, np.zeros(0, np.int64), np.zeros((0, 0), np.float32), nothing, 1.0)


def coordinates_of(X: sp.csr_matrix, whitener: Whitener, threads: int = 1) -> np.ndarray:
    """The coordinates p of rows, float32, and that of the mean; each row by itself: any other rows change no byte."""
    coordinates = rows_times(columns_of_features(X, whitener.features), whitener.directions, threads, more=1)
    along_mean, rows = np.empty(X.shape[0], np.float32), to_triple(X)
    in_pieces(
        X.shape[0],
        threads,
        lambda first, last: kernels.multiply_rows(_some(rows, first, last), whitener.of_mean, along_mean[first:last]),
    )
    coordinates[:, -1] = along_mean
    return coordinates


def _some(rows: Triple, first: int, last: int) -> Triple:
    """The rows first to last - 1 as a view."""
    return rows._replace(indptr=rows.indptr[first : last + 1])


def whiten(X: sp.csr_matrix, whitener: Whitener, threads: int = 1, coordinates: np.ndarray | None = None) -> Whitened:
    """Whiten rows: any rows with the same features, not only those that the whitener was made from.

    coordinates: of these rows, where they are known already (`coordinates_of`).
    """
    triple, n_features = to_triple(X), X.shape[1]
    if coordinates is None:
        coordinates = coordinates_of(X, whitener, threads)
    rows = Triple(
        triple.indptr + np.arange(len(triple.indptr)),
        np.empty(len(triple.indices) + X.shape[0], np.uint32),
        np.empty(len(triple.indices) + X.shape[0], np.float32),
    )
    influence = np.empty(X.shape[0], dtype=np.float32)

    def whiten_rows(first: int, last: int) -> None:
        own, along = _some(rows, first, last), coordinates[first:last]
        of_mean = along[:, -1] - np.float32(whitener.width)
        kernels.scale_rows(_some(triple, first, last), whitener.scale, of_mean, n_features, own)
        kernels.measure_influence(own.indptr, own.values, along, influence[first:last])

    in_pieces(X.shape[0], threads, whiten_rows)
    return Whitened(rows, coordinates, influence, n_features + 1)
