"""What a worker keeps in memory while it reads: matrices without byte ranges, whole text files, chosen rows, offsets.

Every function takes `state`, which says in what state the input files are: workers may outlive a run, and files change
under their names. It tells what was loaded before from what is there now.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.source import Rows, TextSource
from xpipe.stages.arrays import read_array


@lru_cache(maxsize=2)  # features and labels
def load_matrix(path: str, state: str) -> sp.csr_matrix:
    """The matrix of an npz or Parquet file."""
    from xpipe.formats import read_sparse

    return read_sparse(path)


@lru_cache(maxsize=1)
def load_emitted(folder: str, split: str, state: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Features and labels of a split of an emitted dataset."""
    from xpipe.formats.parquet import read_split

    return read_split(folder, split)


@lru_cache(maxsize=1)
def load_group_ids(path: str, state: str) -> sp.csr_matrix:
    """The membership matrix of a file with one group id per line."""
    from xpipe.formats import read_group_ids

    return read_group_ids(path)


@lru_cache(maxsize=1)
def parse_whole_text(source: TextSource, on_bad_row: str, state: str) -> Rows:
    """All rows of a text file."""
    from xpipe.formats.text import parse_range

    return parse_range(source, on_bad_row=on_bad_row)


@lru_cache(maxsize=2)
def load_chosen_rows(path: str, base: int | None, n_rows: int, state: str) -> np.ndarray:
    """The row numbers in an index split file, which counts from `base`, for a data file of `n_rows` rows."""
    from xpipe.formats import read_index_split

    if base is None:
        raise DataError(
            "data.split_base must be given",
            where=path,
            why="whether it counts from 0 or 1 is never guessed",
            fix="1 for XMC repository files",
        )
    return read_index_split(path, base=base, n_rows=n_rows)


@lru_cache(maxsize=8)
def load_offsets(folder: str, path: str, state: str) -> np.ndarray:
    """The byte offsets that `scanning` wrote below the stage's folder."""
    return read_array(folder, path)
