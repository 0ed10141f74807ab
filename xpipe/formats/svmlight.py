"""svmlight (LIBSVM) multi-label text: lines as in XMC text, no header, `#` comments.

Holds no parsing of tokens: that is `text` and its kernels.
"""

from __future__ import annotations

import scipy.sparse as sp

from xpipe.formats.blocks import write_stream
from xpipe.formats.row_text import format_blocks
from xpipe.formats.source import Reject
from xpipe.formats.text import open_text, read_matrices
from xpipe.ground.sparse import canonical, check_shapes, to_triple

NO_ROWS = b"# 0 samples\n"


def empty_row(index_base: int) -> bytes:
    """The line of a sample without labels and features."""
    return b" %d:0" % index_base


def read_svmlight(
    path: str,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_samples: int | None = None,
    index_base: int = 0,
    label_base: int = 0,
    on_bad_row: str = "error",
    rejects: list[Reject] | None = None,
    threads: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of an svmlight (LIBSVM) file, plain or gzip.

    A line of comment is not a sample. A blank line is a sample without labels and features, and an error unless
    `n_samples` is given. ` 1:0` alone (` 0:0` where features count from 0) is such a sample, too. `qid:` is refused.

    Parameters
    ----------
    path : str
        A local path or an fsspec URL.
    n_features, n_labels : int
        The widths, which the file does not say. Without them the error names the largest index in the file.
    n_samples : int, optional
        The number of samples that the file must have.
    index_base, label_base : {0, 1}
        The number that the file gives to the first feature (1 in files written for LIBSVM) and to the first label.
        Never guessed.
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
    >>> from xpipe.formats import read_svmlight
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.svm")
    >>> _ = path.write_text("# two samples\\n0,1 1:0.5 3:1\\n1 2:2\\n")
    >>> X, Y = read_svmlight(str(path), n_features=3, n_labels=2, index_base=1)
    >>> X.toarray().tolist()
    [[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]]
    >>> folder.cleanup()
    """
    source = open_text(
        path,
        "svmlight",
        n_rows=n_samples,
        n_features=n_features,
        n_labels=n_labels,
        header=False,
        index_base=index_base,
        label_base=label_base,
    )
    return read_matrices(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)


def write_svmlight(path: str, X: sp.csr_matrix, Y: sp.csr_matrix, *, index_base: int = 0, label_base: int = 0) -> None:
    """Write features and labels as svmlight (LIBSVM) text.

    A sample without labels and features is written with an explicit zero for the first feature: other readers skip
    blank lines, which would shift every sample after it. Where there are no samples, the file has a line of comment: an
    empty file could be one that was cut short.

    Parameters
    ----------
    path : str
        The file appears there only when it is complete; a name that ends in .gz gives gzip.
    X, Y : csr_matrix
        Samples x features and samples x labels.
    index_base, label_base : {0, 1}
        The number that the file gives to the first feature (1 for LIBSVM's own tools) and to the first label.

    Raises
    ------
    DataError
        For shapes that do not fit, values that are not finite, and label weights other than 1.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from xpipe.formats import write_svmlight
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_svmlight(f"{folder.name}/train.svm", sp.csr_matrix([[0.0, 2.5]]), sp.csr_matrix([[1.0]]), index_base=1)
    >>> pathlib.Path(folder.name, "train.svm").read_text()
    '0 2:2.5\\n'
    >>> folder.cleanup()
    """
    X, Y = canonical(X, "features"), canonical(Y, "labels")
    check_shapes(X, Y=Y)
    with write_stream(path) as stream:
        if not X.shape[0]:
            stream.write(NO_ROWS)
        for block in format_blocks(
            to_triple(X), to_triple(Y), index_base=index_base, label_base=label_base, empty_row=empty_row(index_base)
        ):
            stream.write(block)
