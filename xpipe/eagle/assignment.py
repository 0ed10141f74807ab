"""Assignment: the sample of each group that is nearest to the embedding of each label of the group.

Holds no embedding (`embedding`) and no threads (`label_threads`).
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.embedding import CentredEmbedding, check_mean, check_options, embed
from xpipe.eagle.label_threads import assign_in_threads, embed_in_threads, join_owners, no_owners
from xpipe.eagle.options import EmbedOptions
from xpipe.eagle.problem import check_labels, prepare_problem
from xpipe.errors import DataError
from xpipe.ground.backend import Backend
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import matrix_with_ones


@overload
def assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    E: sp.csr_matrix | CentredEmbedding,
    *,
    threads: int | None = ...,
    return_scores: Literal[False] = ...,
    labels: np.ndarray | None = ...,
    backend: Backend | None = ...,
) -> sp.csr_matrix: ...


@overload
def assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    E: sp.csr_matrix | CentredEmbedding,
    *,
    threads: int | None = ...,
    return_scores: Literal[True],
    labels: np.ndarray | None = ...,
    backend: Backend | None = ...,
) -> tuple[sp.csr_matrix, sp.csr_matrix]: ...


def assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    E: sp.csr_matrix | CentredEmbedding,
    *,
    threads: int | None = None,
    return_scores: bool = False,
    labels: np.ndarray | None = None,
    backend: Backend | None = None,
) -> Any:
    """For every group and every label of it, choose the sample with the highest score <e_k, x_i>.

    The result has the same bytes for any number of threads, and any X and Y1 that keep the order of the samples.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Feature rows, used as they are.
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership: the groups of each sample.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group.
    E : scipy.sparse.csr_matrix of shape (n_labels, n_features), or CentredEmbedding
        Label embeddings from `embed`.
    threads : int, optional
        By default one per usable core.
    return_scores : bool
        Whether to return the scores as well.
    labels : numpy.ndarray of int, optional
        The labels to assign. By default all.
    backend : Backend, optional
        From `xpipe.ground.backend.choose`; by default the CPU.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_labels), float32
        1 where a sample was chosen. With `return_scores`, a pair of that and the scores, with the same pattern. Groups
        without samples choose none. A sample that several groups choose for a label is one entry. Of samples whose
        scores tie, the one with the lowest number is chosen; scores tie when embeddings in float32 cannot tell them
        apart (2e-7 of the norms of the rows). Under an empty embedding all scores are 0: each group chooses its first
        sample.

    Raises
    ------
    DataError
        Where the matrices or `labels` are wrong.
    ConfigError
        Where `threads` is below 1.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.eagle import assign
    >>> X = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [-1, 0]], dtype=np.float32))
    >>> Y1 = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    >>> Y2 = sp.csr_matrix(np.array([[1], [1]], dtype=np.float32))
    >>> E = sp.csr_matrix(np.array([[1, 0]], dtype=np.float32))
    >>> assign(X, Y1, Y2, E).toarray().ravel().tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    threads = check_threads(threads)
    problem = prepare_problem(X, Y1, Y2)
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
    offsets = centred.offset if len(centred.offset) else np.zeros(problem.n_labels)
    if backend is not None and backend.name == "gpu":
        from xpipe.eagle import _cupy

        owners = _cupy.assign_labels(backend.array_module, problem, numbers, to_triple(rows), offsets, centred.mean)
    else:
        owners = assign_in_threads(problem, numbers, to_triple(rows), offsets, centred.mean, threads)
    scores = to_matrix(join_owners(problem, owners), problem.n_labels)
    return (matrix_with_ones(scores), scores) if return_scores else matrix_with_ones(scores)


def embed_and_assign(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    steps: int = EmbedOptions.steps,
    step_size: float = EmbedOptions.step_size,
    centred: bool = False,
    mean: np.ndarray | None = None,
    threads: int | None = None,
    trace: bool = False,
    backend: Backend | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    """Embed labels and assign them in one go: `assign(..., embed(...))` with the same bytes, each row read once.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Feature rows, used as they are.
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership: the groups of each sample.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group.
    steps, step_size, centred, mean, threads, trace, backend
        As in `embed`.

    Returns
    -------
    labels : scipy.sparse.csr_matrix of shape (n_samples, n_labels), float32
        1 where a sample was chosen.
    scores : scipy.sparse.csr_matrix of shape (n_samples, n_labels), float32
        The score of each choice, with the same pattern.
    objective : numpy.ndarray of shape (steps + 1,), float64
        The objective after 0..steps steps; empty without `trace`.

    Raises
    ------
    DataError
        Where the matrices or `mean` are wrong.
    ConfigError
        Where another option is out of range.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.eagle import embed_and_assign
    >>> X = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [-1, 0]], dtype=np.float32))
    >>> Y1 = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    >>> Y2 = sp.csr_matrix(np.array([[1], [1]], dtype=np.float32))
    >>> labels, scores, objective = embed_and_assign(X, Y1, Y2, steps=2, trace=True)
    >>> labels.toarray().ravel().tolist(), len(objective)
    ([1.0, 0.0, 1.0, 0.0], 3)
    """
    if backend is not None and backend.name == "gpu":
        E, objective = embed(
            X, Y1, Y2, steps=steps, step_size=step_size, centred=centred, mean=mean, trace=True, backend=backend
        )
        return *assign(X, Y1, Y2, E, return_scores=True, backend=backend), objective
    options = EmbedOptions(steps, step_size)
    check_options(options, centred, mean)
    threads = check_threads(threads)
    problem = prepare_problem(X, Y1, Y2)
    mean = check_mean(problem, mean) if centred else np.zeros(0)
    owners = no_owners(problem)
    found = embed_in_threads(problem, np.arange(problem.n_labels), options, mean, trace, threads, owners)
    scores = to_matrix(join_owners(problem, owners), problem.n_labels)
    return matrix_with_ones(scores), scores, found.objective
