"""Label embeddings from labels on groups: EAGLE-0, EAGLE (GRLR, Algorithm 1), and both with the mean row taken off.

Holds no choice of samples for the answer: that is `assignment`.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.problem import Problem, Written, check_labels, run_chunks, square_length, state_problem
from xpipe.errors import ConfigError, DataError
from xpipe.ground.machine import check_threads, lent
from xpipe.ground.sparse import Triple, read_only, to_matrix

NARROW = 1 << 16  # features that fit uint16: with more of them, those of a label are renumbered
BLOCK = 1 << 22  # most entries of a label's rows that are copied into one block


@dataclass(frozen=True)
class CentredEmbedding:
    """Unit vectors e_k = sparse_k - offset_k * mean, without ever writing the mean into them."""

    sparse: sp.csr_matrix  # n_labels x n_features
    offset: np.ndarray  # float64, one a label
    mean: np.ndarray  # float64, one a feature

    @property
    def shape(self) -> tuple[int, int]:
        return self.sparse.shape


def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    steps: int = 20,
    step_size: float = 1.0,
    centred: bool = False,
    trace: bool = False,
    threads: int | None = None,
    mean: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    smallest: float = 0.0,
    backend: Any = None,
) -> Any:
    """One unit vector a label, near at least one sample of each of the label's groups.

    X: samples x features, rows used as they are; Y1: samples x groups; Y2: groups x labels.
    steps: 0 is EAGLE-0, the direction of the sum of all rows in the label's groups. Each further step chooses the best
        rows of each group (all that tie), and moves the embedding by `step_size` towards the direction of their sum.
    centred: rows count as x_i - mean in the sums. `mean`: that of all samples, where X holds only some of them.
    labels: numbers of the labels to work on (all); the rows of others stay empty.
    smallest: entries not larger than this are left out of the rows.
    threads: default one a usable core. backend: of `xpipe.ground.backend.choose`; default the CPU.

    Returns a float32 CSR matrix (labels x features), or a CentredEmbedding; with `trace`, a pair of that and the
    objective, the sum over labels and groups of the best score, after 0..steps steps (float64). The row of a label is
    empty where it has no groups, no group has samples, or no row a direction. Where the sum of all rows is zero, as in
    groups {x, -x}, EAGLE-0 has no answer, and the first step goes towards the first row that has a direction.

    Scores tie when they differ by less than 1e-9 of their rows' norms. The same bytes for any number of threads, any
    choice of `labels`, and any X and Y1 that keep the rows of the labels' groups in their order.
    Raises DataError where the matrices, `mean` or `labels` are wrong, ConfigError where another option is.
    """
    check_options(steps, step_size, smallest, centred, mean)
    threads = check_threads(threads)
    problem = state_problem(X, Y1, Y2)
    numbers = check_labels(labels, problem.n_labels)
    mean = check_mean(problem, mean) if centred else np.zeros(0)
    if backend is not None and backend.name == "gpu":
        from xpipe.eagle import _cupy

        written, offsets, objective = _cupy.embed_labels(
            backend.array_module, problem, numbers, steps, step_size, smallest, mean
        )
    else:
        written, offsets, objective = embed_in_threads(
            problem, numbers, steps, step_size, smallest, mean, trace, threads
        )
    rows = to_matrix(join_rows(written, problem.n_labels, threads), problem.n_features)
    embedding = CentredEmbedding(rows, offsets, mean) if centred else rows
    return (embedding, objective) if trace else embedding


def embed_in_threads(
    problem: Problem,
    labels: np.ndarray,
    steps: int,
    step_size: float,
    smallest: float,
    mean: np.ndarray,
    trace: bool,
    threads: int,
    owners: np.ndarray | None = None,
    owner_scores: np.ndarray | None = None,
) -> tuple[list[Written], np.ndarray, np.ndarray]:
    """(rows, offset a label, objective): chunks of labels in plain threads, each with work space of its own.

    owners, owner_scores: filled, where given, with the choice of each group of each label, as `label_groups` has them;
    then no rows are kept.
    """
    from xpipe.eagle import _numba, _rows_numba

    n_samples, n_features = problem.n_samples, problem.n_features
    X = (problem.indptr, problem.columns, problem.values)
    norms, mean_scores, negative = np.zeros(n_samples), np.zeros(n_samples), np.zeros(n_samples, dtype=np.uint8)
    _rows_numba.measure_rows(*X, read_only(mean), norms, mean_scores, negative)
    mean_square = square_length(mean)
    costs = problem.label_costs()
    block = int(min(BLOCK, costs[labels].max(initial=0)))
    wide = n_features > NARROW
    offsets = np.zeros(problem.n_labels)
    traces = np.zeros((problem.n_labels, steps + 1 if trace else 0))
    written: list[Written] = []

    def new_space() -> Any:
        return (
            np.full(n_samples, -1, dtype=np.int32),
            np.empty(block, dtype=np.uint32 if wide else np.uint16),
            np.empty(block, dtype=np.float32),
            np.zeros((n_features // 64 + 1) * wide, dtype=np.uint64),
            np.empty(n_features * wide, dtype=np.int32),
            np.empty(n_features * wide, dtype=np.int32),
            np.empty(n_features),
            np.empty(n_features),
        )

    spaces: SimpleQueue[Any] = SimpleQueue()
    for _ in range(threads):
        spaces.put(new_space())

    kernel: Any = _numba.embed_labels
    if owners is None or owner_scores is None:
        owners, owner_scores = np.empty(0, dtype=np.int32), np.empty(0)

    def work(chunk: np.ndarray) -> None:
        room = int(np.minimum(costs[chunk], n_features).sum()) + n_features  # rows are written in full, then cut
        if len(owners):
            room = 0
        lengths, indices = np.zeros(len(chunk), dtype=np.int64), np.empty(room, dtype=np.int32)
        weights, chunk_offsets = np.empty(room, dtype=np.float32), np.zeros(len(chunk))
        chunk_traces = np.zeros((len(chunk), traces.shape[1]))
        with lent(spaces) as space:
            used = kernel(
                chunk, problem.label_ptr, problem.label_groups, problem.group_ptr, problem.group_samples, *X, norms,
                mean_scores, negative, mean_square, steps, float(step_size), np.float32(smallest), *space,
                lengths, indices, weights, chunk_offsets, chunk_traces, owners, owner_scores,
            )  # fmt: skip
        offsets[chunk], traces[chunk] = chunk_offsets, chunk_traces
        written.append(Written(chunk, lengths, _trimmed(indices, used), _trimmed(weights, used)))

    run_chunks(work, labels, costs, threads)
    return written, offsets, traces.sum(axis=0)


def _trimmed(array: np.ndarray, used: int) -> np.ndarray:
    """The part that is used; copied only where that frees as much as it takes."""
    return array[:used] if 2 * used > len(array) else array[:used].copy()


def join_rows(written: list[Written], n_labels: int, threads: int) -> Triple:
    """The rows in the order of the labels; each piece is let go as soon as it is copied."""
    from xpipe.eagle import _numba

    lengths = np.zeros(n_labels, dtype=np.int64)
    for piece in written:
        lengths[piece.labels] = piece.lengths
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices, weights = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)

    def place(_: int) -> None:
        _numba.place_rows(*written.pop(), indptr, indices, weights)

    with ThreadPoolExecutor(threads, thread_name_prefix="xpipe-eagle") as pool:
        list(pool.map(place, range(len(written))))
    return Triple(indptr, indices, weights)


def mean_row(problem: Problem) -> np.ndarray:
    """The mean of the rows, float64."""
    from xpipe.eagle import _rows_numba

    mean = np.zeros(problem.n_features)
    if problem.n_samples:
        _rows_numba.mean_row(problem.indptr, problem.columns, problem.values, mean)
    return mean


def check_options(steps: int, step_size: float, smallest: float, centred: bool, mean: np.ndarray | None) -> None:
    if steps < 0:
        raise ConfigError(f"`steps` must be at least 0, got {steps}", fix="0 is EAGLE-0, the paper takes 20")
    if not (math.isfinite(step_size) and step_size > 0):
        raise ConfigError(f"`step_size` must be above 0, got {step_size}", fix="the paper takes 1")
    if not 0 <= smallest < 1:
        raise ConfigError(f"`smallest` must be from 0 to below 1, got {smallest}", why="rows have length 1")
    if mean is not None and not centred:
        raise ConfigError("`mean` is given, but `centred` is not set", fix="centred=True")


def check_mean(problem: Problem, mean: np.ndarray | None) -> np.ndarray:
    if mean is None:
        return mean_row(problem)
    mean = np.asarray(mean, dtype=np.float64).ravel()
    if len(mean) != problem.n_features or not np.isfinite(mean).all():
        raise DataError(
            "`mean` does not fit the features",
            why=f"it has {len(mean):,} numbers, the features (X) {problem.n_features:,} columns",
            fix="give the mean row of all samples: finite, one number a feature",
        )
    return mean
