"""Files with one sparse matrix: split-file text (`trn_X_Xf.txt`), npz or Parquet, told apart by the name.

Holds only the format of split files: header `n_rows n_columns`, then one line `column:value ...` per row. The other
formats are listed in `matrix_formats`.
"""

from __future__ import annotations

import os

import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import write_stream
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.formats.row_text import format_blocks
from xpipe.formats.source import Reject
from xpipe.formats.text import open_text, read_rows
from xpipe.ground.sparse import canonical, to_matrix, to_triple


def read_sparse(
    path: str,
    *,
    header: bool = True,
    n_rows: int | None = None,
    n_columns: int | None = None,
    index_base: int = 0,
    on_bad_row: str = "error",
    rejects: list[Reject] | None = None,
    threads: int | None = None,
) -> sp.csr_matrix:
    """The sparse matrix of one file: `.npz`, `.parquet`, or any other name for split-file text, plain or gzip.

    Values are kept as they are, so label weights survive.

    Parameters
    ----------
    path : str
        A local path or an fsspec URL.
    header : bool
        Whether text begins with the line `n_rows n_columns`. Without it, `n_columns` is needed.
    n_rows, n_columns : int, optional
        The shape of text without a header. A shape that the file declares must agree with them.
    index_base : {0, 1}
        The number that text gives to the first column.
    on_bad_row : {"error", "drop"}
        Whether a row of text that cannot be read is an error, or is left out and added to `rejects`.
    rejects : list of Reject, optional
        Gets the rows that are dropped; needed with on_bad_row="drop".
    threads : int, optional
        Threads that parse text; every core by default. Their number changes no result.

    Returns
    -------
    csr_matrix
        float32, counted from 0, with sorted indices.

    Raises
    ------
    DataError
        Where the file is not right. The message names file, line and token.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_sparse
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "trn_X_Y.txt")
    >>> _ = path.write_text("2 3\\n0:1 2:0.5\\n1:1\\n")
    >>> read_sparse(str(path)).toarray().tolist()
    [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]
    >>> folder.cleanup()
    """
    path = os.fspath(path)
    form = matrix_format_of(path)
    if form is not None:
        _refuse_index_base(path, index_base)
        matrix = form.read(path)
        for name, asked, found in zip(("n_rows", "n_columns"), (n_rows, n_columns), matrix.shape, strict=True):
            if asked is not None and asked != found:
                raise DataError(
                    f"{name} is {found:,}, you say {asked:,}", where=path, fix="leave the argument out, or correct it"
                )
        return matrix
    source = open_text(path, "sparse", n_rows=n_rows, n_features=n_columns, header=header, index_base=index_base)
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)
    return to_matrix(rows.features, source.n_features)


def write_sparse(path: str, matrix: sp.csr_matrix, *, index_base: int = 0) -> None:
    """Write a sparse matrix: `.npz`, `.parquet`, or any other name for split-file text.

    Parameters
    ----------
    path : str
        The file appears there only when it is complete; text whose name ends in .gz is gzip.
    matrix : csr_matrix
        Any scipy sparse matrix with finite values.
    index_base : {0, 1}
        The number that text gives to the first column.

    Raises
    ------
    DataError
        For values that are not finite as float32, and for entries that are there twice.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from xpipe.formats import write_sparse
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_sparse(f"{folder.name}/Y.txt", sp.csr_matrix([[0.0, 0.5], [1.0, 0.0]]))
    >>> pathlib.Path(folder.name, "Y.txt").read_text()
    '2 2\\n1:0.5\\n0:1\\n'
    >>> folder.cleanup()
    """
    path = os.fspath(path)
    matrix = canonical(matrix)
    form = matrix_format_of(path)
    if form is not None:
        _refuse_index_base(path, index_base)
        form.write(path, matrix)
        return
    with write_stream(path) as stream:
        stream.write(b"%d %d\n" % matrix.shape)
        for block in format_blocks(to_triple(matrix), None, index_base=index_base):
            stream.write(block)


def _refuse_index_base(path: str, index_base: int) -> None:
    """Raise DataError for an index base that only text can have."""
    if index_base:
        raise DataError(f"index_base={index_base} is for text", where=path, why="npz and Parquet count from 0")
