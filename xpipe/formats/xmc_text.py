"""XMC-repository text: header `n_samples n_features n_labels`, then `label,label feature:value ...` per sample.

Holds no parsing of tokens: that is `text` and its kernels.
"""

from __future__ import annotations

import scipy.sparse as sp

from xpipe.formats.blocks import write_stream
from xpipe.formats.row_text import format_blocks
from xpipe.formats.source import Reject
from xpipe.formats.text import open_text, read_matrices
from xpipe.ground.sparse import canonical, check_shapes, to_triple


def read_xmc(
    path: str,
    *,
    header: bool = True,
    n_samples: int | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    index_base: int = 0,
    label_base: int = 0,
    on_bad_row: str = "error",
    rejects: list[Reject] | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of an XMC text file, plain or gzip.

    Parameters
    ----------
    path : str
        A local path or an fsspec URL.
    header : bool
        Whether the first line is `n_samples n_features n_labels`. Without it, `n_features` and `n_labels` are needed,
        and `n_samples` too where the file has blank lines.
    n_samples, n_features, n_labels : int, optional
        Sizes of a file without a header; those of a header must agree with them.
    index_base, label_base : {0, 1}
        The number that the file gives to the first feature and to the first label.
    on_bad_row : {"error", "drop"}
        Whether a row that cannot be read is an error, or is left out and added to `rejects`.
    rejects : list of Reject, optional
        Gets the rows that are dropped; needed with on_bad_row="drop".
    threads : int, optional
        Threads that parse; every core by default. Their number changes no result.

    Returns
    -------
    X, Y : csr_matrix
        Samples x features and samples x labels, float32, counted from 0; labels have the value 1.

    Raises
    ------
    DataError
        Where the file is not right. The message names file, line and token.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_xmc
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.txt")
    >>> _ = path.write_text("2 3 2\\n0,1 0:0.5 2:1\\n1 1:2\\n")
    >>> X, Y = read_xmc(str(path))
    >>> X.toarray().tolist(), Y.toarray().tolist()
    ([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]])
    >>> folder.cleanup()
    """
    source = open_text(
        path,
        "xmc",
        n_rows=n_samples,
        n_features=n_features,
        n_labels=n_labels,
        header=header,
        index_base=index_base,
        label_base=label_base,
    )
    return read_matrices(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)


def write_xmc(path: str, X: sp.csr_matrix, Y: sp.csr_matrix, *, index_base: int = 0, label_base: int = 0) -> None:
    """Write features and labels as XMC text with its header.

    Parameters
    ----------
    path : str
        The file appears there only when it is complete; a name that ends in .gz gives gzip.
    X, Y : csr_matrix
        Samples x features and samples x labels.
    index_base, label_base : {0, 1}
        The number that the file gives to the first feature and to the first label.

    Raises
    ------
    DataError
        For shapes that do not fit, values that are not finite, and label weights other than 1.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from xpipe.formats import write_xmc
    >>> folder = tempfile.TemporaryDirectory()
    >>> X, Y = sp.csr_matrix([[0.0, 2.5]]), sp.csr_matrix([[1.0, 1.0]])
    >>> write_xmc(f"{folder.name}/train.txt", X, Y)
    >>> pathlib.Path(folder.name, "train.txt").read_text()
    '1 2 2\\n0,1 1:2.5\\n'
    >>> folder.cleanup()
    """
    X, Y = canonical(X, "features"), canonical(Y, "labels")
    check_shapes(X, Y=Y)
    with write_stream(path) as stream:
        stream.write(b"%d %d %d\n" % (X.shape[0], X.shape[1], Y.shape[1]))
        for block in format_blocks(to_triple(X), to_triple(Y), index_base=index_base, label_base=label_base):
            stream.write(block)
