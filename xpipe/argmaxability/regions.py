"""Rows that lie near each other: one product with a centre bounds the scores of a whole region of rows.

For mode argmax, where every row is asked about: most rows then meet few others. Knows nothing of solvers. For a row w
of a region with centre c and radius r, w.x <= c.x + r |x|. A point x whose own row scores higher than that is ahead of
the whole region, and no product with its rows is needed. Centres are rows at first, far from each other; then means.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.exact_bounds import TINY
from xpipe.argmaxability.output_layer import row_norms
from xpipe.argmaxability.rounding import SINGLE, gamma
from xpipe.argmaxability.separation_bounds import FAR, MOST_SUMMED, TINIEST, norm_bounds
from xpipe.argmaxability.stored_rows import StoredRows
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse_rows import row_pointers

ROWS_PER_REGION = 48
MOST_REGIONS = 1 << 14
ROUNDS = 16  # in which centres are chosen: each round takes rows that are far from those of earlier rounds
LOOSE = 0.92  # rows further from their centre than this share of their length are in no region
FEW_ENOUGH = 0.25  # the share of rows outside regions, or of products left to do, above which regions do not pay


@dataclasses.dataclass(frozen=True)
class Regions:
    """Regions of rows. Row numbers of region k are `members[ptr[k] : ptr[k + 1]]`; `loose` rows are in none.

    centres float32 [k, d], radii float64 [k]: no row of the region is further from its centre. shifts float64 [k]: its
    highest bias. length: no centre is longer.
    """

    rows: StoredRows
    bias: np.ndarray | None
    centres: np.ndarray
    radii: np.ndarray
    shifts: np.ndarray
    ptr: np.ndarray
    members: np.ndarray
    loose: np.ndarray
    length: float

    def prove(self, labels: np.ndarray, points: np.ndarray, largest: float, caution: float) -> np.ndarray | None:
        """The radius that each point proves for its label by itself (float64 [n]), 0 where that is below 1.

        The points must be within the box. None where regions leave too many products to do, or float32 overflows.
        """
        d = self.rows.d
        _, above = norm_bounds(largest, d)
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points)) * (1 + gamma(d + 8))
        if d * lengths.max(initial=0.0) * max(above, self.length) > FAR:
            return None
        own = np.einsum("ij,ij->i", points, self.rows.take(labels))
        own -= caution * gamma(2 * d + 16) * lengths * above + TINY
        if self.bias is not None:
            own += self.bias[labels]
            own -= caution * gamma(16) * (np.abs(self.bias[labels]) + np.abs(own))
        needed = own - 2 * above * (1 + gamma(64))
        factors = points.astype(np.float32)
        inexact = caution * gamma(d + 8, SINGLE) * lengths + d * TINIEST  # of a product, relative to the row's length
        bounds = (factors @ self.centres.T).astype(np.float64)
        bounds += (inexact * self.length)[:, None] + self.radii * lengths[:, None] + self.shifts
        bounds += caution * gamma(16) * np.abs(bounds)
        left = bounds > needed[:, None]
        sizes = np.diff(self.ptr)
        if float((left @ sizes).sum()) > FEW_ENOUGH * len(points) * len(self.rows):
            return None
        highest = np.where(left, -np.inf, bounds).max(axis=1, initial=-np.inf)
        errors = inexact * above
        todo = sp.csc_matrix(left)
        for region in np.flatnonzero(np.diff(todo.indptr)).tolist():
            askers = todo.indices[todo.indptr[region] : todo.indptr[region + 1]]
            members = self.members[self.ptr[region] : self.ptr[region + 1]]
            self._raise(highest, askers, members, factors, labels, errors, caution)
        step = self.rows.rows_per_block
        for first in range(0, len(self.loose), step):
            every = np.arange(len(points))
            self._raise(highest, every, self.loose[first : first + step], factors, labels, errors, caution)
        half = (own - highest) * 0.5
        proved = half / above * (1 - caution * gamma(8))
        return np.asarray(np.where(proved >= 1, proved, 0.0))

    def _raise(
        self,
        highest: np.ndarray,
        askers: np.ndarray,
        members: np.ndarray,
        factors: np.ndarray,
        labels: np.ndarray,
        errors: np.ndarray,
        caution: float,
    ) -> None:
        """Raise `highest` of some points to the scores of some rows, their own labels left out."""
        scores = (factors[askers] @ self.rows.take(members, np.float32).T).astype(np.float64)
        scores += errors[askers, None]
        if self.bias is not None:
            scores += self.bias[members]
            scores += caution * gamma(16) * (np.abs(self.bias[members]) + np.abs(scores))
        scores[members[None, :] == labels[askers, None]] = -np.inf
        highest[askers] = np.maximum(highest[askers], scores.max(axis=1))


def find_regions(rows: StoredRows, bias: np.ndarray | None) -> Regions | None:
    """Regions of the rows; None where too many rows are near no centre, or float32 does not do."""
    n, d = rows.shape
    count = min(n // ROWS_PER_REGION, MOST_REGIONS)
    if not count or not rows.narrow or d > MOST_SUMMED:
        return None
    with one_thread_each():  # with more threads BLAS adds up in another order
        nearest = _nearest_leaders(rows, count)
    sums = np.zeros((count, d))
    for first, block in rows.blocks(np.float32):
        own = nearest[first : first + len(block)]
        sums += sp.csr_matrix((np.ones(len(own), np.float32), (own, np.arange(len(own)))), (count, len(own))) @ block
    centres = (sums / np.maximum(np.bincount(nearest, minlength=count), 1)[:, None]).astype(np.float32)
    exact = centres.astype(np.float64)
    distances, norms = np.empty(n), np.empty(n)
    for first, block in rows.blocks():
        part = slice(first, first + len(block))
        norms[part], distances[part] = row_norms(block), row_norms(block - exact[nearest[part]])
    loose = distances > LOOSE * norms
    if loose.mean() > FEW_ENOUGH:
        return None
    members = np.flatnonzero(~loose)
    members = members[np.argsort(nearest[members], kind="stable")]
    inside = nearest[members]
    radii, shifts = np.zeros(count), np.full(count, -np.inf)
    np.maximum.at(radii, inside, distances[members])
    np.maximum.at(shifts, inside, 0.0 if bias is None else bias[members])
    ptr = row_pointers(np.bincount(inside, minlength=count))
    kept = np.diff(ptr) > 0
    length = float(row_norms(exact[kept]).max(initial=0.0)) * (1 + gamma(d + 16))
    above = radii[kept] * (1 + gamma(2 * d + 16))
    return Regions(
        rows, bias, centres[kept], above, shifts[kept], np.append(ptr[:-1][kept], ptr[-1]), members,
        np.flatnonzero(loose), length,
    )  # fmt: skip


def _nearest_leaders(rows: StoredRows, count: int) -> np.ndarray:
    """The number of the nearest of `count` rows that are far from each other, for every row (int64 [n])."""
    n = len(rows)
    squares = np.maximum(rows.norms() ** 2, 1e-300).astype(np.float64)
    least, nearest = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
    chosen = 0
    while chosen < count:
        more = min(-(-count // ROUNDS), count - chosen)
        far = np.argpartition(-least, min(4 * more, n - 1))[: 4 * more] if chosen else np.arange(n)
        leaders = np.sort(far)[np.linspace(0, len(far) - 1, more).astype(np.int64)]
        centres = rows.take(leaders, np.float32)
        for first, block in rows.blocks(np.float32):
            part = slice(first, first + len(block))
            distances = squares[leaders] - 2 * (block @ centres.T)  # the square of the row is the same for all
            best = distances.argmin(axis=1)
            found = (distances[np.arange(len(block)), best] + squares[part]) / squares[part]
            closer = found < least[part]
            least[part] = np.where(closer, found, least[part])
            nearest[part] = np.where(closer, chosen + best, nearest[part])
        least[leaders], nearest[leaders] = 0.0, chosen + np.arange(more)
        chosen += more
    return nearest
