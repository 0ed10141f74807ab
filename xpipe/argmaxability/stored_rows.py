"""Rows of weights as they are stored: float16, bfloat16, float32 or float64, in memory or mapped from a file.

Holds no reading of headers (`weights`) and no search. Every number is taken as float64 exactly, a few rows at a time:
no copy of all rows is made. Where products are cut into blocks, the blocks depend on the sizes alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpipe.argmaxability.output_layer import FEW, LARGEST, SMALLEST, check_weights, row_norms
from xpipe.errors import DataError

BLOCK = 1 << 22  # numbers in a block of rows: 32 MB in float64
BFLOAT = "bfloat16"


@dataclasses.dataclass(frozen=True)
class StoredRows:
    """A matrix of weights that is read block by block.

    Attributes
    ----------
    stored : ndarray, shape (n, d)
        The numbers as they are; uint16 where they are bfloat16. May be a memory map.
    bfloat : bool
        Whether the numbers are the upper halves of float32.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.argmaxability import StoredRows
    >>> rows = StoredRows(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float16))
    >>> rows.dtype, rows.take([1]).tolist()
    ('float16', [[3.0, 4.0]])
    """

    stored: np.ndarray
    bfloat: bool = False

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def d(self) -> int:
        """The number of inputs."""
        return int(self.stored.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, inputs)."""
        return len(self), self.d

    @property
    def dtype(self) -> str:
        """The type of the stored numbers, by name."""
        return BFLOAT if self.bfloat else str(self.stored.dtype)

    @property
    def narrow(self) -> bool:
        """Whether float32 holds every number exactly."""
        return self.bfloat or (self.stored.dtype.kind == "f" and self.stored.dtype.itemsize <= 4)

    @property
    def rows_per_block(self) -> int:
        """Rows in one block."""
        return max(1, BLOCK // max(self.d, 1))

    def take(self, rows: Any, dtype: Any = np.float64) -> np.ndarray:
        """Some rows (numbers, or a slice). dtype: float64, or float32 where the rows are `narrow`."""
        part = self.stored[rows]
        if self.bfloat:
            part = (part.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(part, dtype=dtype)

    def blocks(self, dtype: Any = np.float64) -> Iterator[tuple[int, np.ndarray]]:
        """(number of the first row, rows) of all blocks."""
        for first in range(0, len(self), self.rows_per_block):
            yield first, self.take(slice(first, first + self.rows_per_block), dtype)

    def norms(self) -> np.ndarray:
        """L2 norms of all rows."""
        return np.concatenate([row_norms(block) for _, block in self.blocks()])

    def mean(self) -> np.ndarray:
        """The mean row."""
        total = np.zeros(self.d)
        for _, block in self.blocks():
            total += block.sum(axis=0)
        return np.asarray(total / len(self))


def stored_rows(W: Any) -> StoredRows:
    """Weights as `StoredRows`, checked. Raises DataError unless they are finite real numbers within range."""
    if isinstance(W, StoredRows):
        rows = W
    else:
        given = np.asarray(W)
        if given.ndim != 2 or given.dtype.kind not in "fiu" or not given.size:
            check_weights(given)  # raises
        rows = StoredRows(given if given.dtype.kind == "f" and given.dtype.itemsize <= 8 else given.astype(np.float64))
    for first, block in rows.blocks():
        largest = np.abs(block).max(axis=1)
        _refuse(first + np.flatnonzero(~np.isfinite(largest)), "weights that are not finite")
        outside = (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST))
        _refuse(first + np.flatnonzero(outside), f"largest weights outside {SMALLEST:g}..{LARGEST:g}")
    return rows


def check_bias(bias: Any, n_labels: int) -> np.ndarray | None:
    """The bias in float64, for scores that are compared with each other. Raises DataError."""
    if bias is None:
        return None
    given = np.asarray(bias)
    if given.shape != (n_labels,) or given.dtype.kind not in "fiu":
        raise DataError(
            f"the bias must be {n_labels:,} real numbers, one per label, not {given.dtype} with shape {given.shape}"
        )
    checked: np.ndarray = given.astype(np.float64)
    _refuse(np.flatnonzero(~(np.abs(checked) <= LARGEST)), f"a bias that is not finite, or above {LARGEST:g}")
    return checked


def _refuse(rows: np.ndarray, what: str) -> None:
    """Raise DataError that names the first of these rows, if there are any."""
    if len(rows):
        named = ", ".join(map(str, rows[:FEW])) + (", ..." if len(rows) > FEW else "")
        raise DataError(
            f"some labels have {what}", where=f"weights, rows {named}", fix="did the training diverge? leave them out"
        )
