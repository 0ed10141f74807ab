"""Label sets from files: XMC text, the label file of a split dataset, npz, Parquet. Nothing about weights."""

from __future__ import annotations

import os

import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground import files


def read_label_sets(
    path: str,
    *,
    index_base: int = 0,
    label_base: int = 0,
    n_features: int | None = None,
    n_labels: int | None = None,
) -> sp.csr_matrix:
    """Label sets, a row each (float32 CSR), from a file as the readers of `formats` take it.

    `.npz` and `.parquet` hold the label matrix alone; text is XMC text, or a split label file where its header has two
    numbers. n_features and n_labels: of XMC text without a header. Raises DataError with file, line and token.
    """
    from xpipe.formats import read_sparse, read_xmc

    path = os.fspath(path)
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    if path.endswith((".npz", ".parquet")):
        return read_sparse(path)
    if _has_two_numbers(path):
        return read_sparse(path, index_base=label_base)
    _, Y = read_xmc(
        path,
        header=not (n_features and n_labels),
        n_features=n_features,
        n_labels=n_labels,
        index_base=index_base,
        label_base=label_base,
    )
    return Y


def _has_two_numbers(path: str) -> bool:
    """Whether the first line is the header of a split file."""
    from xpipe.formats.blocks import is_compressed, open_stream

    with open_stream(path, compressed=is_compressed(path)) as stream:
        numbers = stream.read(64).split(b"\n", 1)[0].split()
    return len(numbers) == 2 and all(number.isdigit() for number in numbers)
