"""The margin of label sets at inputs of length 1, from their certificates: what counts where queries have length 1.

Holds no search: `verify` in mode topk or argmax finds the points and multipliers that are evaluated here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.argmaxability.evidence import RowsEvidence
from xpipe.argmaxability.modes import sets_asked
from xpipe.argmaxability.rounding import gamma
from xpipe.argmaxability.separation_bounds import norm_bounds, unit_margin_bound
from xpipe.argmaxability.sets import check_sets
from xpipe.argmaxability.verdicts import Verdicts
from xpipe.argmaxability.wellformed import check_columns, wellformed_sets
from xpipe.errors import ConfigError


def unit_margins(W: Any, Y: Any, verdicts: Verdicts) -> tuple[np.ndarray, np.ndarray]:
    """Bound the margin of every set at inputs of length 1: half of the gap between it and all others, at the best one.

    For indexes without bias, in modes topk and argmax. Without a box this is half of the distance between the hull of
    the set's rows and the hull of all others. Rounding is accounted for: the bounds are proved.

    Parameters
    ----------
    W : array_like of float, shape (n_labels, d), or StoredRows
        The rows; of length 1 in most indexes, so that the margin is one of cosines.
    Y : scipy sparse matrix, shape (n_sets, n_labels), or None
        The label sets of the verdicts. None in mode argmax: every label by itself.
    verdicts : Verdicts
        From `verify(W, Y, mode="topk")`, or mode argmax.

    Returns
    -------
    lower, upper : ndarray of float64, shape (n_sets,)
        Proved bounds: 0 where there is no point, inf where there are no multipliers.

    Raises
    ------
    ConfigError
        If the verdicts are of mode sign.
    DataError
        If W and Y are not those of the verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import unit_margins, verify
    >>> W, Y = np.array([[1.0, 0.0], [-1.0, 0.0]]), sp.csr_matrix([[1, 0]])
    >>> lower, upper = unit_margins(W, Y, verify(W, Y, mode="topk", radius="exact"))
    >>> round(float(lower[0]), 6), round(float(upper[0]), 6)
    (1.0, 1.0)
    """
    if verdicts.mode == "sign":
        raise ConfigError("margins at |x| = 1 are of modes topk and argmax", fix='verify(W, Y, mode="topk")')
    evidence = RowsEvidence.of(W, None)
    indptr, indices = check_sets(sets_asked(Y, evidence.n_labels, verdicts.mode), evidence.n_labels)
    claims = check_columns(verdicts, len(indptr) - 1, evidence.d)
    good = wellformed_sets(claims, evidence.n_labels)
    radius, _ = evidence.bounds(indptr, indices, claims)
    lengths = np.sqrt(np.einsum("ij,ij->i", claims.points, claims.points)) * (1 + gamma(evidence.d + 8))
    below, _ = norm_bounds(evidence.largest, evidence.d)
    known = good & (radius > 0) & (lengths > 0)
    lower = np.where(known, radius * below / np.where(known, lengths, 1.0) * (1 - gamma(16)), 0.0)
    upper = np.full(len(claims), np.inf)
    for number in np.flatnonzero(good).tolist():
        labels, multipliers = claims.multipliers_of(number)
        if len(labels):
            positive = np.isin(labels, indices[indptr[number] : indptr[number + 1]])
            upper[number] = unit_margin_bound(evidence.rows.take(labels), positive, multipliers)
    return lower, upper
