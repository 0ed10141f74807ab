"""Files of groups: one group id per line, or a membership matrix (Y1).

Holds no feature or label matrices, and makes no groups: that is the room `grouping`.
"""

from __future__ import annotations

import os
from array import array

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.lines import bad_line, lines_of, too_many_lines, whole_number
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.formats.sparse_text import read_sparse
from xpipe.grouping.groups import membership_of_ids


def read_group_ids(
    path: str, *, n_rows: int | None = None, n_groups: int | None = None, base: int = 0
) -> sp.csr_matrix:
    """Membership (Y1) from a list with one group id per line.

    Parameters
    ----------
    path : str
        A text file, plain or gzip. -1 or an empty line means: in no group.
    n_rows : int, optional
        The number of lines that the file must have.
    n_groups : int, optional
        The number of groups; by default as many as the largest id needs.
    base : int
        The number that the file gives to the first group.

    Returns
    -------
    csr_matrix
        Samples x groups, float32 ones.

    Raises
    ------
    DataError
        For ids that are out of range, a line that is not an id, and a number of lines that is not `n_rows`.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_group_ids
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train_groups.txt")
    >>> _ = path.write_text("1\\n0\\n-1\\n")
    >>> read_group_ids(str(path)).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    >>> folder.cleanup()
    """
    ids = array("q")
    for number, raw in lines_of(path):
        if n_rows is not None and number > n_rows:
            raise too_many_lines(path, f"more than {n_rows:,} group ids for {n_rows:,} samples", number)
        token = raw.strip()
        if token in (b"", b"-1"):
            ids.append(-1)
        elif token.isdigit():
            ids.append(whole_number(path, number, token) - base)
            if ids[-1] < 0 or ids[-1] >= (2**31 - 1 if n_groups is None else n_groups):
                raise DataError(
                    f"group {token.decode()} is out of range",
                    where=f"{path}:{number}",
                    why=f"groups count from {base}" + (f" to {n_groups - 1 + base}" if n_groups is not None else ""),
                    fix="correct the id, or give the number of groups it belongs to",
                )
        else:
            raise bad_line(path, number, raw, "a line must be one group id, or -1 or nothing for no group")
    if n_rows is not None and len(ids) != n_rows:
        raise DataError(
            f"{len(ids):,} group ids for {n_rows:,} samples",
            where=path,
            fix="one id per line, one line per sample; -1 for no group",
        )
    return membership_of_ids(np.array(ids, dtype=np.int64), n_groups)


def read_membership(path: str, *, samples: np.ndarray | None = None, n_rows: int | None = None) -> sp.csr_matrix:
    """Membership (Y1) from a list of group ids, or from any file of `read_sparse`, told apart by the first line.

    Parameters
    ----------
    path : str
        The file of groups.
    samples : ndarray, optional
        int64: the rows of the file that are wanted, in this order; by default all.
    n_rows : int, optional
        The number of rows that the file must have.

    Returns
    -------
    csr_matrix
        Samples x groups, float32.

    Raises
    ------
    DataError
        Where the file is not right, or has another number of rows.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import numpy as np
    >>> from xpipe.formats import read_membership
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "Y1.txt")
    >>> _ = path.write_text("3 2\\n1:1\\n0:1\\n0:1 1:1\\n")
    >>> read_membership(str(path), samples=np.array([2, 0])).toarray().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    >>> folder.cleanup()
    """
    membership = read_group_ids(path, n_rows=n_rows) if is_id_list(path) else read_sparse(path)
    if n_rows is not None and membership.shape[0] != n_rows:
        raise DataError(
            f"membership has {membership.shape[0]:,} rows for {n_rows:,} samples",
            where=path,
            fix="one row per sample of the training file",
        )
    if samples is None:
        return membership
    if len(samples) and int(samples.max()) >= membership.shape[0]:
        raise DataError(
            f"membership has {membership.shape[0]:,} rows, sample {int(samples.max())} is needed",
            where=path,
            fix="one row per sample of the training file",
        )
    return sp.csr_matrix(membership[samples])


def is_id_list(path: str) -> bool:
    """Whether the file is a list with one group id per line: text whose first line is not a header of two numbers."""
    path = os.fspath(path)
    if matrix_format_of(path) is not None:
        return False
    first = next((raw for _, raw in lines_of(path)), b"")
    return len(first.split()) <= 1 and b":" not in first
