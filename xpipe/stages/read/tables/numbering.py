"""Names of labels and groups become numbers: lists of names become rows of a matrix. Holds no files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xpipe.errors import StageError
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import row_pointers


def number_names(names: Sequence[str]) -> pa.Array:
    """The names, in the order of their numbers: what `to_rows` looks names up in."""
    return pa.array(names, pa.string())


def to_rows(lists: pa.ChunkedArray, names: pa.Array, *, unknown: str = "error") -> Triple:
    """One row per list with a one for each of its names. The names of a list are sorted, as those of `names` are.

    unknown: "skip" leaves out names that have no number; otherwise they are a StageError.
    """
    lists = lists.combine_chunks()
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    found = pc.index_in(lists.flatten(), value_set=names)
    if found.null_count:
        if unknown != "skip":
            raise StageError("a name without a number", where=str(lists.flatten().filter(found.is_null())[0]))
        known = found.is_valid().to_numpy(zero_copy_only=False)
        row = np.repeat(np.arange(len(lengths)), lengths)[known]
        lengths = np.bincount(row, minlength=len(lengths))
        found = found.drop_null()
    indices = found.to_numpy(zero_copy_only=False).astype(np.int32)
    return Triple(row_pointers(lengths), indices, np.ones(len(indices), np.float32))
