"""Label sets of a batch as lists of label numbers.

Holds no dense matrix of samples x labels, and makes none. Layout as in CSR: the labels of row i are
`labels[offsets[i]:offsets[i + 1]]`, ascending.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from xpipe.errors import DataError


class Targets(NamedTuple):
    """The label sets of the rows of a batch. `len` gives the number of rows.

    Attributes
    ----------
    offsets : tensor of int64, shape (rows + 1,)
        Where the labels of each row begin.
    labels : tensor of int64, shape (entries,)
        Label numbers from 0, ascending within a row.
    chances : tensor of float32, shape (entries,), optional
        The chance that the row has the label. Losses are those to expect then. By default every label is certain.

    Examples
    --------
    >>> from xpipe.heads import Targets
    >>> targets = Targets.of([[17, 3], []])
    >>> targets.labels.tolist(), targets.counts().tolist(), len(targets)
    ([3, 17], [2, 0], 2)
    """

    offsets: torch.Tensor
    labels: torch.Tensor
    chances: torch.Tensor | None = None

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]]) -> Targets:
        """Targets of one list of labels per row, in any order. Raises DataError for negative and repeated labels."""
        offsets, labels = [0], []
        for number, row in enumerate(sets):
            ascending = sorted(int(label) for label in row)
            if ascending and ascending[0] < 0:
                raise DataError(f"label {ascending[0]} is negative", where=f"row {number}", fix="count labels from 0")
            for label, following in itertools.pairwise(ascending):
                if label == following:
                    raise DataError(f"label {label} is there twice", where=f"row {number}", fix="name each label once")
            labels += ascending
            offsets.append(len(labels))
        return cls(torch.tensor(offsets, dtype=torch.int64), torch.tensor(labels, dtype=torch.int64))

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def to(self, device: torch.device | str) -> Targets:
        """The same targets on a device. From pinned memory, nobody waits for the copy."""
        return self._each(lambda part: part.to(device, non_blocking=True))

    def pinned(self) -> Targets:
        """The same targets in memory that CUDA devices read by themselves; tensors that are there stay as they are."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, move: Callable[[torch.Tensor], torch.Tensor]) -> Targets:
        """The targets with each tensor moved."""
        return Targets(move(self.offsets), move(self.labels), None if self.chances is None else move(self.chances))

    def n_expected(self) -> float:
        """The number of labels of all rows, or the sum of their chances."""
        return float(self.labels.shape[0]) if self.chances is None else float(self.chances.sum(dtype=torch.float64))

    def counts(self) -> torch.Tensor:
        """The number of labels of each row, int64 [rows]."""
        return self.offsets.diff()

    def rows(self) -> torch.Tensor:
        """The row of each entry, int64 [entries]."""
        counts = self.counts()
        rows = torch.arange(len(self), device=counts.device)
        return torch.repeat_interleave(rows, counts, output_size=self.labels.shape[0])

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """Sums over each row of values [entries], one per entry; [rows]."""
        return values.new_zeros(len(self)).index_add_(0, self.rows(), values)
