"""A text file and how to read it, and what comes of it: rows kept and rows rejected.

Holds no reading: these pass between `text`, its kernels' callers and distributed stages.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from xpipe.ground.sparse import Triple

KINDS = ("xmc", "sparse", "svmlight")  # in the order of the kernels' numbers


@dataclasses.dataclass(frozen=True)
class TextSource:
    """A text file and how to read it. For kind "sparse", n_features is the number of columns and n_labels 0."""

    path: str
    kind: str  # "xmc", "sparse" or "svmlight"
    n_rows: int | None  # None: not known before reading
    n_features: int
    n_labels: int
    index_base: int  # the number the file gives to the first feature, 0 or 1
    label_base: int
    first_byte: int  # where rows begin, in the unpacked file
    first_line: int  # the line number there, counted from 1
    size: int  # bytes of the file as it is stored
    compressed: bool
    shown_as: str | None = None  # the path errors name, where `path` is an unpacked copy of it

    @property
    def name(self) -> str:
        """The path a user knows the file by."""
        return self.shown_as or self.path


class Reject(NamedTuple):
    """A row left out: its number in the file (from 0), its line (from 1), the token, why, and the line's beginning."""

    row: int
    line: int
    token: str
    reason: str
    text: str


class Rows(NamedTuple):
    """Parsed rows; labels is None for kind "sparse"; samples int64 [n]: the file's row number of each row kept."""

    features: Triple
    labels: Triple | None
    samples: np.ndarray
    rejects: list[Reject]
