"""Labels as users have them: sparse or dense 0/1 matrices, frames with one column per label, or lists of names.

Holds no features (`given_features`), and imports neither pandas nor polars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import InputError
from xpipe.ground.given_features import as_features, is_frame
from xpipe.ground.sparse import Triple, to_matrix
from xpipe.ground.sparse_rows import row_pointers, sort_rows

FORMS = "a 0/1 matrix (rows x labels), or one list of labels per row: [['soup', 'quick'], [], ['bread']]"
LISTS = (list, tuple, set, frozenset)


class GivenLabels(NamedTuple):
    """Labels of rows.

    Attributes
    ----------
    matrix : scipy.sparse.csr_matrix of shape (n_rows, n_labels)
        Entries that are not 0 are labels.
    names : numpy.ndarray of str objects or int64, shape (n_labels,), or None
        The label of each column, ascending; None where columns have only numbers.
    """

    matrix: sp.csr_matrix
    names: np.ndarray | None


def as_labels(Y: Any, what: str = "labels (Y)") -> GivenLabels:
    """Labels in any form as a CSR matrix and the names of its columns.

    Parameters
    ----------
    Y : scipy sparse matrix, array_like, frame, or sequence of lists
        A matrix, an array of two dimensions or a frame: rows x labels, where entries that are not 0 are labels; the
        columns of a frame are names. Or one list of labels (str, or whole numbers) per row: a list of lists, an array
        or a series of lists, an Arrow array. Or one label per row. A label that is twice in a list counts once.
    what : str
        What messages call it.

    Returns
    -------
    GivenLabels

    Raises
    ------
    InputError
        It has another form, or labels of several types. It is a DataError and a ValueError.

    Examples
    --------
    >>> from xpipe.ground.given_labels import as_labels
    >>> found = as_labels([["soup", "quick"], [], ["bread"]])
    >>> found.names.tolist(), found.matrix.toarray().astype(int).tolist()
    (['bread', 'quick', 'soup'], [[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    """
    if Y is None:
        raise InputError(f"this estimator requires y to be passed, but the target y is None: {what}", fix=FORMS)
    if sp.issparse(Y):
        return GivenLabels(as_features(Y, what), None)
    if is_frame(Y):
        return GivenLabels(as_features(Y, what), names_of([str(column) for column in Y.columns]))
    if getattr(Y, "ndim", 1) == 2:
        return GivenLabels(as_features(Y, what), None)
    return label_matrix(_rows_of(Y, what), what)


def label_matrix(rows: Sequence[Iterable[Any]], what: str = "labels (Y)") -> GivenLabels:
    """The matrix of lists of labels. Raises InputError for labels that are neither all str nor all whole numbers."""
    lists = [list(dict.fromkeys(_plain(label) for label in row)) for row in rows]
    kind = next((type(label) for labels in lists for label in labels), str)
    for row, labels in enumerate(lists):
        for label in labels:
            if type(label) is not kind or kind not in (str, int):
                why = f"{label!r:.80} is {type(label).__name__}"
                raise InputError(f"{what} must be all str or all whole numbers", where=f"row {row}", why=why, fix=FORMS)
    known = sorted({label for labels in lists for label in labels})
    place_of = {label: place for place, label in enumerate(known)}
    columns = np.array([place_of[label] for labels in lists for label in labels], dtype=np.int32)
    pointers = row_pointers([len(labels) for labels in lists])
    triple = sort_rows(Triple(pointers, columns, np.ones(len(columns), dtype=np.float32)))
    return GivenLabels(to_matrix(triple, len(known)), names_of(known))


def names_of(labels: Sequence[str | int]) -> np.ndarray:
    """Names as an array: int64 where all are whole numbers, else objects: one name may be very long."""
    if labels and all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    names = np.empty(len(labels), dtype=object)
    names[:] = list(labels)
    return names


def fit_columns(given: GivenLabels, names: np.ndarray) -> sp.csr_matrix:
    """Labels with the columns of `names` first, then one column for each label that is not among them."""
    if given.names is None:
        return given.matrix
    place_of = {name: place for place, name in enumerate(names.tolist())}
    columns = np.array([place_of.setdefault(name, len(place_of)) for name in given.names.tolist()], dtype=np.int32)
    matrix = given.matrix
    moved = Triple(matrix.indptr.astype(np.int64), columns[matrix.indices], matrix.data)
    return to_matrix(sort_rows(moved), len(place_of))


def _rows_of(Y: Any, what: str) -> list[Iterable[Any]]:
    """The labels of each row as Python objects."""
    if isinstance(Y, (str, bytes)) or not hasattr(Y, "__len__"):
        raise InputError(f"{what} cannot be {type(Y).__name__}", fix=FORMS)
    for convert in ("to_pylist", "to_list", "tolist"):  # Arrow; polars and pandas; numpy
        if hasattr(Y, convert):
            Y = getattr(Y, convert)()
            break
    if not hasattr(Y, "__len__"):
        raise InputError(f"{what} must have one row per sample", fix=FORMS)
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in Y]
    listed = [isinstance(row, LISTS) for row in rows]
    if not any(listed):
        return [[row] for row in rows]
    if not all(listed):
        row = listed.index(False)
        why = f"got {rows[row]!r:.80}"
        raise InputError(f"{what} are lists in some rows, not in all", where=f"row {row}", why=why, fix=FORMS)
    return rows


def _plain(label: Any) -> Any:
    """A label as a Python object; numbers with nothing behind the point are whole."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, LISTS):
        raise InputError("a label is a list", why=f"got {label!r:.80}", fix=FORMS)
    return int(label) if isinstance(label, float) and label.is_integer() else label
