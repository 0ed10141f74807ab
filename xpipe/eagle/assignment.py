"""Assignment: the sample of each group that is nearest to the embedding of each label of the group.

Holds no embedding: that is `embedding`.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.embedding import CentredEmbedding, check_mean, check_options, embed, embed_in_threads
from xpipe.eagle.problem import Problem, check_labels, run_chunks, square_length, state_problem
from xpipe.errors import DataError
from xpipe.ground.machine import check_threads, lent
from xpipe.ground.sparse import Triple, canonical, read_only, to_matrix, to_triple

LARGEST_SCORE = float(np.finfo(np.float32).max)


def assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    E: sp.csr_matrix | CentredEmbedding,
    *,
    threads: int | None = None,
    return_scores: bool = False,
    labels: np.ndarray | None = None,
    backend: Any = None,
) -> Any:
    """For every group and every label of it, the sample with the highest score <e_k, x_i>.

    X: samples x features; Y1: samples x groups; Y2: groups x labels; E: labels x features, of `embed`.
    labels: numbers of the labels to assign (all). threads: default one a usable core. backend: of
    `xpipe.ground.backend.choose`; default the CPU.

    Returns samples x labels, a float32 CSR of ones; with `return_scores`, a pair of that and the scores with the same
    pattern. Groups without samples give nothing; a sample chosen for a label by several groups is one entry. Of samples
    whose scores tie, the one with the lowest number is taken: scores tie when float32 embeddings cannot tell them apart
    (2e-7 of the rows' norms). A label with an empty embedding gives all samples the score 0, and so takes the first
    of each group. The same bytes for any number of threads, and any X and Y1 that keep the samples' order.
    Raises DataError where the matrices or `labels` are wrong, ConfigError for fewer than one thread.
    """
    threads = check_threads(threads)
    problem = state_problem(X, Y1, Y2)
    numbers = check_labels(labels, problem.n_labels)
    centred = E if isinstance(E, CentredEmbedding) else CentredEmbedding(E, np.zeros(0), np.zeros(0))
    rows = canonical(centred.sparse, "label embedding (E)")
    if rows.shape != (problem.n_labels, problem.n_features):
        raise DataError(
            "the label embedding (E) does not fit the other matrices",
            why=f"it is {rows.shape[0]:,} x {rows.shape[1]:,}, but there are {problem.n_labels:,} labels and "
            f"{problem.n_features:,} features",
            fix="embed with the same X, Y1 and Y2",
        )
    embedding = to_triple(rows)
    offsets = centred.offset if len(centred.offset) else np.zeros(problem.n_labels)
    if backend is not None and backend.name == "gpu":
        from xpipe.eagle import _cupy

        owners, scores = _cupy.assign_labels(backend.array_module, problem, numbers, embedding, offsets, centred.mean)
    else:
        owners, scores = _assign_in_threads(problem, numbers, embedding, offsets, centred.mean, threads)
    chosen = _join_owners(problem, owners, scores)
    ones = to_matrix(chosen._replace(values=np.ones(len(chosen.values), dtype=np.float32)), problem.n_labels)
    return (ones, to_matrix(chosen, problem.n_labels)) if return_scores else ones


def embed_and_assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    steps: int = 20,
    step_size: float = 1.0,
    centred: bool = False,
    mean: np.ndarray | None = None,
    threads: int | None = None,
    trace: bool = False,
    backend: Any = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    """(labels, scores, objective): `assign(..., embed(...))` in one go, the same bytes, each label's rows read once.

    The objective is empty without `trace`.
    """
    if backend is not None and backend.name == "gpu":
        E, objective = embed(
            X, Y1, Y2, steps=steps, step_size=step_size, centred=centred, mean=mean, trace=True, backend=backend
        )
        return *assign(X, Y1, Y2, E, return_scores=True, backend=backend), objective
    check_options(steps, step_size, 0.0, centred, mean)
    threads = check_threads(threads)
    problem = state_problem(X, Y1, Y2)
    mean = check_mean(problem, mean) if centred else np.zeros(0)
    owners, scores = np.full(len(problem.label_groups), -1, dtype=np.int32), np.zeros(len(problem.label_groups))
    _, _, objective = embed_in_threads(
        problem, np.arange(problem.n_labels), steps, step_size, 0.0, mean, trace, threads, owners, scores
    )
    chosen = _join_owners(problem, owners, scores)
    ones = to_matrix(chosen._replace(values=np.ones(len(chosen.values), dtype=np.float32)), problem.n_labels)
    return ones, to_matrix(chosen, problem.n_labels), objective


def _assign_in_threads(
    problem: Problem, labels: np.ndarray, embedding: Triple, offsets: np.ndarray, mean: np.ndarray, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """(owner, its score) for each group of each label, as `label_groups` lists them; -1: none."""
    from xpipe.eagle import _numba, _rows_numba

    X = (problem.indptr, problem.columns, problem.values)
    norms, mean_scores = np.zeros(problem.n_samples), np.zeros(problem.n_samples)
    _rows_numba.measure_rows(*X, read_only(mean), norms, mean_scores, np.zeros(problem.n_samples, dtype=np.uint8))
    largest = int(np.diff(problem.group_ptr).max(initial=0))
    owners = np.full(len(problem.label_groups), -1, dtype=np.int32)
    scores = np.zeros(len(problem.label_groups))
    spaces: SimpleQueue[Any] = SimpleQueue()
    for _ in range(threads):
        spaces.put((np.zeros(problem.n_features, dtype=np.float32), np.zeros(largest)))
    rows = tuple(map(read_only, embedding))
    kernel: Any = _numba.assign_labels
    mean_norm = float(np.sqrt(square_length(mean)))

    def work(chunk: np.ndarray) -> None:
        with lent(spaces) as space:
            kernel(
                chunk, problem.label_ptr, problem.label_groups, problem.group_ptr, problem.group_samples, *X, norms,
                mean_scores, mean_norm, *rows, read_only(offsets), *space, owners, scores,
            )  # fmt: skip

    run_chunks(work, labels, problem.label_costs(), threads)
    return owners, scores


def _join_owners(problem: Problem, owners: np.ndarray, scores: np.ndarray) -> Triple:
    """samples x labels with the score of each choice."""
    from xpipe.eagle import _numba

    scores = np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)  # a row of the largest floats is longer than they are
    indptr = np.zeros(problem.n_samples + 1, dtype=np.int64)
    last_label = np.full(problem.n_samples, -1, dtype=np.int64)
    _numba.count_owners(problem.label_ptr, owners, last_label, indptr)
    labels, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
    last_label[:] = -1
    filled = np.zeros(problem.n_samples, dtype=np.int64)
    _numba.write_owners(problem.label_ptr, owners, scores, last_label, indptr, filled, labels, values)
    return Triple(indptr, labels, values)
