"""The registry of formats with one sparse matrix per file, told apart by the ending of the file name.

Holds no reading and no writing: each format has a module of its own, which is imported when a file asks for it.
A new format is one more line in MATRIX_FORMATS, and a module with `read_matrix` and `write_matrix`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True)
class MatrixFormat:
    """A format with one matrix per file.

    name: what `format=` calls a folder of such files. title: the same for people. ending: of the file names.
    module: has `read_matrix(path)`, which gives a canonical CSR matrix, and `write_matrix(path, matrix)`.
    """

    name: str
    title: str
    ending: str
    module: str

    def read(self, path: str) -> sp.csr_matrix:
        """The matrix of a file, checked; raises DataError where it is not right."""
        return cast("sp.csr_matrix", importlib.import_module(self.module).read_matrix(path))

    def write(self, path: str, matrix: sp.csr_matrix) -> None:
        """Write a canonical matrix; the file appears only when it is complete."""
        importlib.import_module(self.module).write_matrix(path, matrix)


MATRIX_FORMATS = [
    MatrixFormat("npz", "npz matrices", ".npz", "xpipe.formats.npz"),
    MatrixFormat("parquet-matrices", "Parquet matrices", ".parquet", "xpipe.formats.parquet_matrix"),
]


def matrix_format_of(path: str) -> MatrixFormat | None:
    """The format of a file by its ending; None for text."""
    return next((each for each in MATRIX_FORMATS if path.endswith(each.ending)), None)
