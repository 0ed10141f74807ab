"""svmlight (LIBSVM) multi-label text: lines as in XMC text, no header, `#` comments.

Holds no parsing of tokens: that is `text` and its kernels.
"""

from __future__ import annotations

import scipy.sparse as sp

from xpipe.formats.blocks import write_stream
from xpipe.formats.source import Reject
from xpipe.formats.xmc_text import format_blocks, read_rows
from xpipe.ground.sparse import canonical, check_shapes, to_matrix, to_triple

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
    """Features and labels (value 1) of an svmlight file as float32 CSR matrices counted from 0.

    n_features and n_labels are needed: without them the error names the largest index in the file. index_base is 1 for
    files written for LIBSVM; it is never guessed. A line of comment is no sample; a blank line is one, and an error
    unless n_samples is given; ` 1:0` alone (` 0:0` for index_base 0) is one without labels and features. `qid:` is
    refused. Other arguments and errors as in read_xmc.
    """
    from xpipe.formats.text import open_text

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
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=rejects, threads=threads)
    assert rows.labels is not None
    return to_matrix(rows.features, source.n_features), to_matrix(rows.labels, source.n_labels)


def write_svmlight(path: str, X: sp.csr_matrix, Y: sp.csr_matrix, *, index_base: int = 0, label_base: int = 0) -> None:
    """Write svmlight text, gzip where the name ends in .gz; the file appears only when complete.

    A sample without labels and features is written with an explicit zero for the first feature: other readers skip
    blank lines, which would shift every sample after it. No samples are a line of comment: an empty file may be one
    that was cut short. Raises DataError as write_xmc does.
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
