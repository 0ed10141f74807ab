"""A text file and how to read it, and its rows: those kept and those rejected.

Holds no reading: these types pass between `text`, the callers of its kernels, and stages.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from xpipe.ground.sparse import Triple

KINDS = ("xmc", "sparse", "svmlight")  # in the order of the kernels' numbers


@dataclasses.dataclass(frozen=True)
class TextSource:
    """A text file and how to read it.

    Attributes
    ----------
    path : str
        Where it lies.
    kind : str
        "xmc", "sparse" (a split file) or "svmlight".
    n_rows : int, optional
        The number of rows; None where it is not known before reading.
    n_features, n_labels : int
        The widths. Of kind "sparse", `n_features` is the number of columns and `n_labels` is 0.
    index_base, label_base : int
        The number that the file gives to the first feature and to the first label, 0 or 1.
    first_byte, first_line : int
        Where the rows begin in the unpacked file; lines count from 1.
    size : int
        Bytes of the file as it is stored.
    compressed : bool
        Whether it is gzip.
    shown_as : str, optional
        The path that messages name, where `path` is an unpacked copy.
    """

    path: str
    kind: str
    n_rows: int | None
    n_features: int
    n_labels: int
    index_base: int
    label_base: int
    first_byte: int
    first_line: int
    size: int
    compressed: bool
    shown_as: str | None = None

    @property
    def name(self) -> str:
        """The path by which a user knows the file."""
        return self.shown_as or self.path


class Reject(NamedTuple):
    """A row that was left out.

    Attributes
    ----------
    row : int
        Its number in the file, from 0.
    line : int
        Its line, from 1.
    token, reason, text : str
        The token that cannot be read, why, and the beginning of the line.
    """

    row: int
    line: int
    token: str
    reason: str
    text: str


class Rows(NamedTuple):
    """Parsed rows of a text file.

    Attributes
    ----------
    features : Triple
        CSR arrays of the features, or of the only matrix of a split file.
    labels : Triple, optional
        CSR arrays of the labels; None for kind "sparse".
    samples : ndarray
        int64: the row number in the file of each row kept.
    rejects : list of Reject
        The rows that were left out.
    """

    features: Triple
    labels: Triple | None
    samples: np.ndarray
    rejects: list[Reject]
