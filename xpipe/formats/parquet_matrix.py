"""One sparse matrix as one Parquet file: columns sample, indices, values; the number of columns is in the schema.

Holds no datasets of several files: those are `parquet`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.formats.parquet_files import (
    checked_matrix,
    declared_width,
    lists_to_rows,
    open_parquet,
    row_order,
    sample_numbers,
)
from xpipe.formats.parquet_writing import MATRIX_COLUMNS, lists_of_rows, write_table
from xpipe.ground.sparse import canonical, to_triple


def write_matrix(path: str, matrix: sp.csr_matrix) -> None:
    """Write any sparse matrix. The file appears only when it is complete."""
    triple = to_triple(canonical(matrix, path))
    columns = [pa.array(np.arange(triple.n_rows), pa.int64()), *lists_of_rows(triple)]
    write_table(path, MATRIX_COLUMNS, columns, {"n_columns": str(matrix.shape[1])}, 1 << 16)


def read_matrix(path: str) -> sp.csr_matrix:
    """The matrix of a file of `write_matrix`, or the features of one file of an emitted dataset.

    The column `sample` numbers the rows of a matrix from 0 on and puts them in order. A file of a dataset numbers the
    samples of its input: its rows stay where they are, and their numbers must follow each other.
    """
    with open_parquet(path, MATRIX_COLUMNS) as parquet:
        schema = parquet.schema_arrow
        width = declared_width(schema, path, "n_columns", "n_features")
        table = parquet.read(columns=[name for name, _ in MATRIX_COLUMNS])
        rows = lists_to_rows(table, "indices", "values", path)
        samples = sample_numbers(table, path)
    first = int(samples[0]) if len(samples) else 0
    part_of_many = b"n_columns" not in (schema.metadata or {})
    if part_of_many and np.array_equal(samples, np.arange(first, first + len(samples))):
        return checked_matrix(rows, width, path)
    order = row_order(samples, path)
    matrix = checked_matrix(rows, width, path)
    return matrix if order is None else canonical(matrix[order], path)
