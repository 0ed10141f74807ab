"""What a worker keeps in memory between parts: matrices without byte ranges, whole text files, chosen rows, offsets.

Holds no rules of reading: those are `formats.reading`. Every function takes `state`, which differs whenever an input
file has changed: workers may outlive a run, and must not use what they loaded before the change.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.formats import reading
from xpipe.formats.options import ReadOptions
from xpipe.formats.reading import Access, InputFile
from xpipe.formats.source import Rows, TextSource
from xpipe.formats.text import parse_range
from xpipe.stages.arrays import read_array


@lru_cache(maxsize=3)  # features, labels and membership of one split
def load_matrices(file: InputFile, access: Access, state: str) -> dict[str, sp.csr_matrix]:
    """The matrices, by name, of a file without byte ranges."""
    return reading.load_matrices(file, access)


@lru_cache(maxsize=1)
def parse_whole_text(source: TextSource, on_bad_row: str, state: str) -> Rows:
    """All rows of a text file."""
    return parse_range(source, on_bad_row=on_bad_row)


@lru_cache(maxsize=2)
def load_chosen_rows(file: InputFile, options: ReadOptions, n_rows: int, state: str) -> np.ndarray:
    """The rows of a file of `n_rows` rows that belong to its split."""
    return reading.read_chosen_rows(file, options, n_rows)


@lru_cache(maxsize=8)
def load_offsets(folder: str, path: str, state: str) -> np.ndarray:
    """The byte offsets that `scanning` wrote below the stage's folder."""
    return read_array(folder, path)
