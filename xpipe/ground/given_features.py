"""Features as users have them: sparse matrices and arrays, dense arrays, lists of rows, pandas and polars frames.

Holds no labels (`given_labels`), and imports neither pandas nor polars: their frames are known by what they can do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError, InputError
from xpipe.ground.sparse import canonical

FORMS = "a scipy sparse matrix or array, a dense array, or a pandas or polars frame of numbers: one row per sample"


def as_features(X: Any, what: str = "features (X)") -> sp.csr_matrix:
    """Features in any form as CSR with sorted unique indices and finite float32 values.

    Parameters
    ----------
    X : scipy sparse matrix or array, array_like, pandas.DataFrame or polars.DataFrame
        One row per sample. Numbers that are 0 are not stored.
    what : str
        What messages call it.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_features)

    Raises
    ------
    InputError
        It has another form, or a number that is not finite as float32. It is a DataError and a ValueError.

    Examples
    --------
    >>> from xpipe.ground.given_features import as_features
    >>> as_features([[0.0, 2.0], [0.0, 0.0]]).nnz
    1
    """
    try:
        return canonical(X if sp.issparse(X) else _from_dense(X, what), what)
    except InputError:
        raise
    except DataError as error:
        raise InputError(error.what, where=error.where, why=error.why, fix=error.fix) from error


def check_width(found: int, wanted: int, estimator: str) -> None:
    """Raise InputError unless rows have as many features as the estimator was fitted to."""
    if found != wanted:
        raise InputError(
            "the features do not fit the model",
            why=f"X has {found} features, but {estimator} is expecting {wanted} features as input",
            fix="make the rows the same way as those it was fitted to",
        )


def is_frame(given: Any) -> bool:
    """Whether this is a table with named columns, as pandas and polars have them."""
    return hasattr(given, "columns") and hasattr(given, "to_numpy")


def _from_dense(X: Any, what: str) -> sp.csr_matrix:
    """The numbers of an array, a frame or a list of rows."""
    if is_frame(X) and hasattr(X, "sparse") and all(hasattr(kind, "subtype") for kind in X.dtypes):
        return sp.csr_matrix(X.sparse.to_coo())  # a pandas frame of sparse columns
    try:
        array = np.asarray(X.to_numpy() if is_frame(X) else X)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers", why=str(error)[:200], fix=FORMS) from error
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {what} are {array.dtype}", fix=FORMS)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers, not {array.dtype}", fix=FORMS)
    if array.ndim != 2:
        raise InputError(
            f"{what} must have one row per sample, not the shape {array.shape}",
            fix="Reshape your data: X.reshape(1, -1) is one sample, X.reshape(-1, 1) one feature",
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        place = f"row {row}, column {column}"
        raise InputError(f"{what} have NaN or inf: {array[row, column]}", where=place, fix="replace or drop it")
    return sp.csr_matrix(array)
