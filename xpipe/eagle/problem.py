"""What embedding and assignment start from: checked matrices as raw arrays, and chunks of labels of about equal cost.

Holds no algorithm. Y1 = membership (samples x groups), Y2 = group_labels (groups x labels); both are stored by columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.eagle._rows_numba import Lists
from xpipe.errors import DataError
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import Triple, canonical, check_shapes, read_only, to_triple
from xpipe.ground.sparse_rows import binarised, row_pointers

CHUNKS_PER_THREAD = 16
LARGEST_CHUNK = 1 << 24  # row entries that a chunk of labels reads: bounds what it writes; one label may need more


@dataclass(frozen=True)
class Problem:
    """Features by rows, the samples of each group, the groups of each label. All arrays are read-only."""

    features: Triple
    members: Lists  # samples of each group
    label_groups: Lists  # groups of each label
    n_features: int

    @property
    def n_samples(self) -> int:
        return self.features.n_rows

    @property
    def n_labels(self) -> int:
        return len(self.label_groups.starts) - 1

    @property
    def rows(self) -> Triple:
        """The features with column indices as uint32."""
        return with_unsigned_columns(self.features)

    def label_costs(self) -> np.ndarray:
        """Cost per label: the entries of the rows in its groups, plus one per sample."""
        row_costs = np.diff(self.features.indptr)[self.members.items] + 1
        group_costs = np.diff(row_pointers(row_costs)[self.members.starts])[self.label_groups.items]
        return np.diff(row_pointers(group_costs)[self.label_groups.starts])


def prepare_problem(X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> Problem:
    """Check the matrices and lay them out for the kernels. Raises DataError where they are wrong or do not fit."""
    features = X if _is_canonical(X) else canonical(X, "features (X)")
    membership = as_ones(Y1, "membership (Y1)")
    group_labels = as_ones(Y2, "group_labels (Y2)")
    check_shapes(features, Y1=membership, Y2=group_labels)
    return Problem(
        Triple(*map(read_only, to_triple(features))),
        columns_of(membership),
        columns_of(group_labels),
        features.shape[1],
    )


def with_unsigned_columns(rows: Triple) -> Triple:
    """The same rows with column indices as uint32: numba then omits the test for negative indices."""
    return rows._replace(indices=rows.indices.view(np.uint32))


def columns_of(matrix: sp.csr_matrix) -> Lists:
    """The row numbers of each column, read-only."""
    by_column = matrix.tocsc()
    starts, items = by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32, copy=False)
    return Lists(read_only(starts), read_only(items))


def _is_canonical(X: sp.csr_matrix) -> bool:
    """Whether the rows can be used without a copy. The test itself copies nothing: rows take most of the memory."""
    if not (sp.issparse(X) and X.format == "csr" and X.data.dtype == np.float32 and X.has_canonical_format):
        return False
    inside = X.nnz == 0 or (X.indices.min() >= 0 and X.indices.max() < X.shape[1])
    return bool(inside and np.isfinite(X.data.sum(dtype=np.float64)))


def as_ones(matrix: sp.csr_matrix, what: str) -> sp.csr_matrix:
    """The non-zero entries of a matrix as ones, canonical; stored zeros are removed."""
    checked = canonical(matrix, what)
    return checked if (checked.data == 1).all() else binarised(checked)


def check_labels(labels: np.ndarray | None, n_labels: int) -> np.ndarray:
    """The label numbers to work on, all by default. Raises DataError unless they are distinct and in range."""
    if labels is None:
        return np.arange(n_labels)
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise DataError(
            f"`labels` must be label numbers, not an array of {numbers.dtype} with shape {numbers.shape}",
            fix="np.flatnonzero(mask), where you have a mask",
        )
    numbers = numbers.astype(np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= n_labels):
        raise DataError(f"`labels` has a number outside 0..{n_labels - 1}", why="group_labels (Y2) has no such column")
    if len(np.unique(numbers)) < len(numbers):
        raise DataError("`labels` has a number twice", fix="np.unique(labels)")
    return numbers


def cut_labels(labels: np.ndarray, costs: np.ndarray, most: int) -> list[np.ndarray]:
    """Chunks of about equal cost, the heaviest labels first. Only a single label may cost more than `most`."""
    order = np.argsort(-costs[labels], kind="stable")
    before = np.cumsum(costs[labels][order]) - costs[labels][order]
    cuts = np.flatnonzero(np.diff(before // max(most, 1))) + 1
    return [chunk for chunk in np.split(labels[order], cuts) if len(chunk)]


def run_chunks(work: Callable[[np.ndarray], None], labels: np.ndarray, costs: np.ndarray, threads: int) -> None:
    """Call `work` for every chunk of labels, in threads. Which thread takes which chunk must not matter."""
    most = int(min(costs[labels].sum() // (threads * CHUNKS_PER_THREAD) + 1, LARGEST_CHUNK))
    chunks: Sequence[np.ndarray] = cut_labels(labels, costs, most)
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-eagle") as pool:
        for done in [pool.submit(work, chunk) for chunk in chunks]:
            done.result()


def square_length(mean: np.ndarray) -> float:
    """<mean, mean>, computed on one BLAS thread: several threads would add in another order."""
    with one_thread_each() if len(mean) else contextlib.nullcontext():
        return float(mean @ mean)
