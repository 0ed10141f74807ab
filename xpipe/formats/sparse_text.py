"""One sparse matrix a file: text of a split dataset (`trn_X_Xf.txt`), npz or Parquet, told apart by the name.

Holds no format of its own but the split file: header `n_rows n_columns`, then one line of `column:value` a row.
"""

from __future__ import annotations

import os

import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import write_stream
from xpipe.formats.source import Reject
from xpipe.formats.xmc_text import format_blocks, read_rows
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
    """A float32 CSR matrix from `.npz`, `.parquet` or (any other name, also gzip) the text of a split file.

    Values are kept as they are, so label weights survive. header, n_rows, n_columns and what follows them are for text,
    as in read_xmc; sizes given for the other formats are checked. Raises DataError for anything that is not right.
    """
    path = os.fspath(path)
    if path.endswith((".npz", ".parquet")):
        if index_base:
            raise DataError(f"index_base={index_base} is for text", where=path, why="npz and Parquet count from 0")
        matrix = _read_binary(path)
        for name, asked, found in zip(("n_rows", "n_columns"), (n_rows, n_columns), matrix.shape, strict=True):
            if asked is not None and asked != found:
                raise DataError(
                    f"{name} is {found:,}, you say {asked:,}", where=path, fix="leave the argument out, or correct it"
                )
        return matrix
    from xpipe.formats.text import open_text

    source = open_text(path, "sparse", n_rows=n_rows, n_features=n_columns, header=header, index_base=index_base)
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)
    return to_matrix(rows.features, source.n_features)


def write_sparse(path: str, matrix: sp.csr_matrix, *, index_base: int = 0) -> None:
    """Write `.npz`, `.parquet` or, by any other name, split-file text (gzip for .gz), complete or not at all."""
    path = os.fspath(path)
    matrix = canonical(matrix)
    if path.endswith((".npz", ".parquet")):
        if index_base:
            raise DataError(f"index_base={index_base} is for text", where=path, why="npz and Parquet count from 0")
        _write_binary(path, matrix)
        return
    with write_stream(path) as stream:
        stream.write(b"%d %d\n" % matrix.shape)
        for block in format_blocks(to_triple(matrix), None, index_base=index_base):
            stream.write(block)


def _read_binary(path: str) -> sp.csr_matrix:
    if path.endswith(".npz"):
        from xpipe.formats.npz import read_npz

        return read_npz(path)
    from xpipe.formats.parquet import read_matrix

    return read_matrix(path)


def _write_binary(path: str, matrix: sp.csr_matrix) -> None:
    if path.endswith(".npz"):
        from xpipe.formats.npz import write_npz

        write_npz(path, matrix.shape, lambda: [to_triple(matrix)])
    else:
        from xpipe.formats.parquet import write_matrix

        write_matrix(path, matrix)
