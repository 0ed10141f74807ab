"""Inverse propensities of labels (Jain, Prabhu and Varma, KDD 2016).

    q_l = 1 + C (N_l + B)^-A    with    C = (log N - 1) (B + 1)^A

N is the number of training rows, N_l the number of training rows that have label l. Holds no metric that uses them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.formats.catalog import plain_name
from xpipe.ground.close_match import did_you_mean
from xpipe.metrics.propensity_constants import FAMILIES, USUAL, Constants


def usual_propensity(dataset: str) -> Constants:
    """Find the constants A and B that the literature uses for a dataset.

    Parameters
    ----------
    dataset : str
        A name of the table USUAL; upper and lower case, `-` and `_` make no difference.

    Returns
    -------
    Constants

    Raises
    ------
    ConfigError
        If the dataset is not in the table.

    Examples
    --------
    >>> from xpipe.metrics import usual_propensity
    >>> usual_propensity("Amazon-670K")
    Constants(a=0.6, b=2.6)
    """
    for name, constants in USUAL.items():
        if plain_name(name) == plain_name(dataset):
            return constants
    hint = did_you_mean(dataset, USUAL, most=3, cutoff=0.4)
    give = f"{hint} Else give" if hint else "give"
    raise ConfigError(f"no usual propensity constants for {dataset!r}", fix=f"{give} A and B: {FAMILIES}")


def label_frequency(labels: Any) -> np.ndarray:
    """Count the rows that have each label.

    Parameters
    ----------
    labels : scipy sparse matrix or ndarray, shape (n_rows, n_labels)
        Entries that are not 0 count.

    Returns
    -------
    ndarray of int64, shape (n_labels,)

    Raises
    ------
    DataError
        If the matrix is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import label_frequency
    >>> label_frequency(np.array([[1, 0], [1, 1]])).tolist()
    [2, 1]
    """
    from xpipe.metrics.truth import check_truth

    matrix = check_truth(labels)
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int64)


def inverse_propensity(frequency: np.ndarray, n_rows: int, *, a: float, b: float) -> np.ndarray:
    """Compute the inverse propensity of each label: q_l = 1 + (log N - 1) (B + 1)^A (N_l + B)^-A.

    Parameters
    ----------
    frequency : ndarray of int, shape (n_labels,)
        N_l: the training rows that have each label.
    n_rows : int
        N: the number of training rows; at least 3, or propensities would be above 1.
    a, b : float
        The constants A and B, for example from `usual_propensity`.

    Returns
    -------
    ndarray of float64, shape (n_labels,)

    Raises
    ------
    ConfigError
        If a constant is not above 0.
    DataError
        If there are fewer than 3 rows, or a frequency is outside 0..n_rows.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import inverse_propensity
    >>> inverse_propensity(np.array([1, 100]), 1000, a=0.55, b=1.5).round(2).tolist()
    [6.91, 1.77]
    """
    if not (a > 0 and b > 0 and math.isfinite(a) and math.isfinite(b)):
        raise ConfigError(f"propensity constants must be above 0, got A = {a} and B = {b}", fix=f"usual: {FAMILIES}")
    counts = np.asarray(frequency, dtype=np.float64)
    if n_rows < 3:
        raise DataError(
            f"{n_rows} training rows are too few for propensities", why="log N - 1 must be above 0", fix="leave PSP out"
        )
    if counts.ndim != 1 or (len(counts) and not (counts.min() >= 0 and counts.max() <= n_rows)):
        raise DataError(
            f"label frequencies must be one number from 0 to {n_rows:,} per label",
            fix="count the training rows of each label: xpipe.metrics.label_frequency(Y)",
        )
    return propensity_formula(counts, n_rows, a, b)


def propensity_formula(counts: np.ndarray, n_rows: int, a: float, b: float) -> np.ndarray:
    """The formula without checks, float64."""
    c = (math.log(max(n_rows, 1)) - 1) * (b + 1) ** a
    return np.asarray(1 + c * (counts + b) ** -a)
