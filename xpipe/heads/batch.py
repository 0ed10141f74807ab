"""Some sparse rows as tensors, and batches of the rows of a matrix.

Holds no reading of files (`batches`) and no model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from xpipe.ground.sparse import canonical, to_triple
from xpipe.ground.sparse_rows import slice_rows
from xpipe.heads.targets import Targets


class Batch(NamedTuple):
    """Some sparse rows with their labels.

    Attributes
    ----------
    samples : tensor of int64, shape (rows,)
        Sample numbers.
    offsets : tensor of int64, shape (rows + 1,)
        Where the features of each row begin.
    indices, values : tensors of int64 and float32, shape (entries,)
        Features of the rows, and their values.
    targets : Targets
        Label sets of the rows, with chances where labels were assigned with them.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.heads import matrix_batches
    >>> (batch,) = matrix_batches(sp.csr_matrix([[0.5, 0.0], [1.0, 2.0]]))
    >>> batch.n_rows, batch.offsets.tolist(), batch.indices.tolist()
    (2, [0, 1, 3], [0, 0, 1])
    """

    samples: torch.Tensor
    offsets: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor
    targets: Targets

    @property
    def n_rows(self) -> int:
        return self.samples.shape[0]

    def to(self, device: Any) -> Batch:
        """The same rows on a device; `self` if they are there already."""
        if self.offsets.device == torch.device(device):
            return self
        samples, offsets, indices, values = (part.to(device, non_blocking=True) for part in self[:4])
        return Batch(samples, offsets, indices, values, self.targets.to(device))

    def pinned(self) -> Batch:
        """The same rows in memory that CUDA devices read by themselves; tensors that are there stay as they are."""
        samples, offsets, indices, values = (part.pin_memory() for part in self[:4])
        return Batch(samples, offsets, indices, values, self.targets.pinned())


def matrix_batches(X: sp.csr_matrix, batch_size: int = 256) -> Iterator[Batch]:
    """Cut the rows of a matrix into batches without labels, for prediction.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix, shape (n_rows, n_features)
        The rows.
    batch_size : int, default 256
        Rows per batch, at most.

    Yields
    ------
    Batch
        In the order of the rows; `samples` are row numbers.

    Raises
    ------
    DataError
        If X is not a sparse matrix of finite numbers.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.heads import matrix_batches
    >>> [batch.samples.tolist() for batch in matrix_batches(sp.eye(3, 5, format="csr"), batch_size=2)]
    [[0, 1], [2]]
    """
    rows = to_triple(canonical(X, "features (X)"))
    for start in range(0, rows.n_rows, batch_size):
        part = slice_rows(rows, start, min(start + batch_size, rows.n_rows))
        offsets = as_tensor(part.indptr, np.int64)
        none = Targets(torch.zeros_like(offsets), torch.zeros(0, dtype=torch.int64))
        samples = torch.arange(start, start + part.n_rows)
        yield Batch(samples, offsets, as_tensor(part.indices, np.int64), as_tensor(part.values, np.float32), none)


def as_tensor(array: np.ndarray, dtype: Any) -> torch.Tensor:
    """A tensor over the array's memory; a copy only if the array has another type or is read-only."""
    return torch.from_numpy(array.astype(dtype, copy=not array.flags.writeable))
