"""Labels of texts by line: the rows of a matrix file beside the texts. Holds no texts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.ground import files
from xpipe.ground.sparse import Triple, to_triple
from xpipe.ground.sparse_rows import take_rows
from xpipe.stages.read.tables.sources import Sources


@lru_cache(maxsize=2)
def _load(path: str, stamp: tuple[int, ...]) -> sp.csr_matrix:
    """The matrix of a file. stamp: differs where the file has changed."""
    form = matrix_format_of(path)
    assert form is not None, "only matrix files are beside texts by line"
    return form.read(path)


def labels_at(path: str, rows: np.ndarray) -> Triple:
    """The labels of some rows."""
    return take_rows(to_triple(_load(path, files.stamp(path))), rows)


def count_labels(sources: Sources, rows: dict[str, int]) -> int:
    """The number of labels. Raises DataError where a matrix has other rows than its texts, or another width."""
    widths = {}
    for source in sources.splits:
        assert source.matrix is not None
        shape = _load(source.matrix, files.stamp(source.matrix)).shape
        if shape[0] != rows[source.split]:
            raise DataError(
                f"{shape[0]:,} rows of labels for {rows[source.split]:,} texts", where=source.matrix,
                why=f"{source.files[0].path} has one text per line", fix="check that both files are of the same data",
            )  # fmt: skip
        widths[source.matrix] = shape[1]
    if len(set(widths.values())) > 1:
        told = ", ".join(f"{files.basename(path)} has {width:,}" for path, width in widths.items())
        raise DataError("splits with different numbers of labels", where=sources.splits[0].matrix, why=told)
    return int(next(iter(widths.values())))
