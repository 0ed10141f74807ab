"""What embedding and assignment start from: checked matrices as raw arrays, and labels cut into chunks of equal cost.

Holds no algorithm. Y1 = membership (samples x groups), Y2 = group_labels (groups x labels); both are read by columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import canonical, check_shapes, read_only, to_triple
from xpipe.grouping.groups import binarised

CHUNKS_A_THREAD = 16
LARGEST_CHUNK = 1 << 24  # entries of rows a chunk of labels reads, and thus bounds what it writes; a label may be more


@dataclass(frozen=True)
class Problem:
    """Features by rows, samples of each group, groups of each label; all arrays read-only."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    group_ptr: np.ndarray
    group_samples: np.ndarray
    label_ptr: np.ndarray
    label_groups: np.ndarray
    n_features: int

    @property
    def n_samples(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_labels(self) -> int:
        return len(self.label_ptr) - 1

    @property
    def columns(self) -> np.ndarray:
        """Column indices as uint32: numba then spares the test for a negative one."""
        return self.indices.view(np.uint32)

    def label_costs(self) -> np.ndarray:
        """Entries of the rows in each label's groups, and one for each sample."""
        rows = np.diff(self.indptr)[self.group_samples] + 1
        groups = np.diff(np.concatenate([[0], np.cumsum(rows)])[self.group_ptr])[self.label_groups]
        return np.diff(np.concatenate([[0], np.cumsum(groups)])[self.label_ptr])


def state_problem(X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> Problem:
    """Check the matrices and lay them out for the kernels. Raises DataError where they are wrong or do not fit."""
    features = X if _is_canonical(X) else canonical(X, "features (X)")
    membership = as_ones(Y1, "membership (Y1)")
    group_labels = as_ones(Y2, "group_labels (Y2)")
    check_shapes(features, Y1=membership, Y2=group_labels)
    rows = to_triple(features)
    groups, labels = membership.tocsc(), group_labels.tocsc()
    return Problem(
        read_only(rows.indptr),
        read_only(rows.indices),
        read_only(rows.values),
        read_only(groups.indptr.astype(np.int64)),
        read_only(groups.indices.astype(np.int32, copy=False)),
        read_only(labels.indptr.astype(np.int64)),
        read_only(labels.indices.astype(np.int32, copy=False)),
        features.shape[1],
    )


def _is_canonical(X: sp.csr_matrix) -> bool:
    """Whether the rows can be used as they are, found without copies: they are most of the memory."""
    if not (sp.issparse(X) and X.format == "csr" and X.data.dtype == np.float32 and X.has_canonical_format):
        return False
    inside = X.nnz == 0 or (X.indices.min() >= 0 and X.indices.max() < X.shape[1])
    return bool(inside and np.isfinite(X.data.sum(dtype=np.float64)))


def as_ones(matrix: sp.csr_matrix, what: str) -> sp.csr_matrix:
    """The pattern of a matrix as canonical ones; entries that are zero are none."""
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
    """Chunks of about equal cost, at most `most` unless one label is more; the heaviest labels come first."""
    order = np.argsort(-costs[labels], kind="stable")
    before = np.cumsum(costs[labels][order]) - costs[labels][order]
    cuts = np.flatnonzero(np.diff(before // max(most, 1))) + 1
    return [chunk for chunk in np.split(labels[order], cuts) if len(chunk)]


def run_chunks(work: Callable[[np.ndarray], None], labels: np.ndarray, costs: np.ndarray, threads: int) -> None:
    """Do the work of all chunks side by side; which thread takes which must not matter to it."""
    most = int(min(costs[labels].sum() // (threads * CHUNKS_A_THREAD) + 1, LARGEST_CHUNK))
    chunks: Sequence[np.ndarray] = cut_labels(labels, costs, most)
    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-eagle") as pool:
        for done in [pool.submit(work, chunk) for chunk in chunks]:
            done.result()


class Written(NamedTuple):
    """Rows of some labels, back to back."""

    labels: np.ndarray
    lengths: np.ndarray
    indices: np.ndarray
    weights: np.ndarray


def square_length(mean: np.ndarray) -> float:
    """<mean, mean>, on one BLAS thread: more would add up in another order."""
    with one_thread_each() if len(mean) else contextlib.nullcontext():
        return float(mean @ mean)
