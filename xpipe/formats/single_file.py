"""One file of samples, or one file of labels, in any format: the format is told by the name and by the first line.

Holds no format of its own, and no folders: those are `dataset`.
"""

from __future__ import annotations

import os

import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import is_compressed, open_stream
from xpipe.formats.file_names import SVMLIGHT_ENDINGS
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.formats.sparse_text import read_sparse
from xpipe.formats.svmlight import read_svmlight
from xpipe.formats.xmc_text import read_xmc
from xpipe.ground import files


def read_labels(
    path: str,
    *,
    index_base: int = 0,
    label_base: int = 0,
    n_features: int | None = None,
    n_labels: int | None = None,
) -> sp.csr_matrix:
    """The label matrix of one file in any format: XMC text, a split file, svmlight, npz or Parquet.

    Parameters
    ----------
    path : str
        `.npz` and `.parquet` hold the label matrix alone. `.svm`, `.svmlight` and `.libsvm` are svmlight. Other names
        are text, plain or gzip: a split file where its first line has two numbers, else XMC text.
    index_base, label_base : {0, 1}
        The number that text gives to the first feature and to the first label.
    n_features, n_labels : int, optional
        Sizes of text without a header. Where a file says its number of labels, it must be `n_labels`.

    Returns
    -------
    csr_matrix
        Labels, samples x labels, float32.

    Raises
    ------
    DataError
        Where the file is missing, cannot be read, or is one of the parts of an emitted dataset. The message names file,
        line and token.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_labels
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "test.txt")
    >>> _ = path.write_text("2 3 4\\n0,3 0:0.5\\n1 2:1\\n")
    >>> read_labels(str(path)).toarray().astype(int).tolist()
    [[1, 0, 0, 1], [0, 1, 0, 0]]
    >>> folder.cleanup()
    """
    path = files.local(os.fspath(path))
    if not files.exists(path):
        raise DataError("there is no such file", where=path, fix="check the path; relative paths start where you are")
    if matrix_format_of(path) is not None:
        _refuse_emitted_part(path)
        return read_sparse(path, n_columns=n_labels)
    if _is_split_file(path):
        return read_sparse(path, n_columns=n_labels, index_base=label_base)
    _, Y = read_samples(path, index_base=index_base, label_base=label_base, n_features=n_features, n_labels=n_labels)
    return Y


def read_samples(
    path: str,
    *,
    header: bool = True,
    index_base: int = 0,
    label_base: int = 0,
    n_features: int | None = None,
    n_labels: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of one file: svmlight by its ending, else XMC text. Given sizes mean: no header."""
    if path.removesuffix(".gz").endswith(SVMLIGHT_ENDINGS):
        return read_svmlight(
            path, n_features=n_features, n_labels=n_labels, index_base=index_base, label_base=label_base
        )
    return read_xmc(
        path,
        header=header and not (n_features and n_labels),
        n_features=n_features,
        n_labels=n_labels,
        index_base=index_base,
        label_base=label_base,
    )


def _refuse_emitted_part(path: str) -> None:
    """Raise DataError for a part of an emitted dataset, whose `indices` are features instead of labels."""
    if not path.endswith(".parquet"):
        return
    from xpipe.formats.parquet_files import open_parquet

    with open_parquet(path, []) as parquet:
        if "labels" in parquet.schema_arrow.names:
            raise DataError(
                "this is one part of an emitted dataset",
                where=path,
                fix="give the dataset's folder, which knows its parts",
            )


def _is_split_file(path: str) -> bool:
    """Whether text is a split file of labels: by its usual name, or by a header of two numbers."""
    if os.path.basename(path.removesuffix(".gz")).endswith("X_Y.txt"):
        return True
    with open_stream(path, compressed=is_compressed(path)) as stream:
        numbers = stream.read(64).split(b"\n", 1)[0].split()
    return len(numbers) == 2 and all(number.isdigit() for number in numbers)
