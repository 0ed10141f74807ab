"""The whitener of the scorer: the inverse of X^T X + ridge, as a diagonal plus a few leading directions.

Holds no labels and no groups. With A = X^T X + ridge I, the weights of a label are A^-1 times a weighted sum of rows
(ridge regression in which every other sample is a negative), so a score is x^T A^-1 x'. A is approximated by
U S U^T + D: U and S are leading eigenvectors and eigenvalues of X^T X, D is the rest of its diagonal plus the ridge.
At full rank this is exact. Then

    x^T A^-1 x' = <x~, x~'> - <p, p'>    x~ = D^-1/2 x, as sparse as x;  p = x^T D^-1 U C^1/2, dense, of length rank
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _whitening_numba as kernels
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.spectrum import BLOCK, Spectrum, rows_times
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import to_triple

LEAST_RIDGE, MOST_RIDGE = 1e-4, 1e12  # below, scores would be float32 rounding; above, they are zero anyway


@dataclass(frozen=True)
class Whitener:
    """What whitens a row: D^-1/2 (n_features) and the leading directions (n_features x rank), float32."""

    scale: np.ndarray
    directions: np.ndarray


def whitener_of(spectrum: Spectrum, ridge: float) -> Whitener:
    """The whitener of a ridge, which counts in units of the mean squared length of the rows. They must have a length.

    Ridges outside LEAST_RIDGE..MOST_RIDGE are moved to the nearer limit.
    """
    vectors, values = spectrum.vectors, spectrum.values
    kept = values > 1e-6 * max(float(values[0]), 1e-30) if len(values) else np.zeros(0, dtype=bool)
    ridge = min(max(ridge, LEAST_RIDGE), MOST_RIDGE)
    directions = np.empty((len(spectrum.diagonal), int(kept.sum())), dtype=np.float32)
    blocks = [slice(first, first + BLOCK) for first in range(0, len(directions), BLOCK)]
    with one_thread_each():
        explained = (vectors**2) @ values
        diagonal = ridge * spectrum.mean_square + np.maximum(spectrum.diagonal - explained, 0).astype(np.float64)
        inner = np.diag(1.0 / values[kept].astype(np.float64))
        for block in blocks:
            rows = vectors[block][:, kept].astype(np.float64)
            inner += rows.T @ (rows / diagonal[block, None])
        root = np.linalg.inv(np.linalg.cholesky(inner)).T  # a root of the inverse, which may itself round to indefinite
        for block in blocks:
            directions[block] = (vectors[block][:, kept] / diagonal[block, None]) @ root
    return Whitener((1.0 / np.sqrt(diagonal)).astype(np.float32), directions)


def whiten(X: sp.csr_matrix, whitener: Whitener, threads: int = 1) -> Whitened:
    """Whiten rows: any rows with the same features, not only those that the whitener was made from."""
    triple = to_triple(X)
    coordinates = rows_times(X, whitener.directions, threads)
    values = triple.values * whitener.scale[triple.indices]
    influence = np.empty(X.shape[0], dtype=np.float32)
    kernels.measure_influence(triple.indptr, values, coordinates, influence)
    return Whitened(triple._replace(values=values), coordinates, influence, X.shape[1])
