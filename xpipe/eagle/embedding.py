"""Label embeddings from labels of groups: EAGLE-0, EAGLE (GRLR, Algorithm 1), and both with the mean row subtracted.

Holds no choice of samples (`assignment`) and no threads (`label_threads`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _rows_numba
from xpipe.eagle.label_threads import embed_in_threads
from xpipe.eagle.options import EmbedOptions
from xpipe.eagle.problem import Problem, check_labels, prepare_problem
from xpipe.errors import ConfigError, DataError
from xpipe.ground.backend import Backend
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import Triple, to_matrix


@dataclass(frozen=True)
class CentredEmbedding:
    """Unit vectors e_k = sparse_k - offset_k * mean. The mean is never written into the sparse rows.

    Attributes
    ----------
    sparse : scipy.sparse.csr_matrix of shape (n_labels, n_features), float32
    offset : numpy.ndarray of shape (n_labels,), float64
    mean : numpy.ndarray of shape (n_features,), float64
        The mean row of all samples.
    """

    sparse: sp.csr_matrix
    offset: np.ndarray
    mean: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """(n_labels, n_features)."""
        n_labels, n_features = self.sparse.shape
        return n_labels, n_features


class EmbedKeywords(TypedDict, total=False):
    """The keywords of `embed` that do not decide what it returns."""

    steps: int
    step_size: float
    threads: int | None
    mean: np.ndarray | None
    labels: np.ndarray | None
    smallest: float
    backend: Backend | None


@overload
def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    centred: Literal[False] = ...,
    trace: Literal[False] = ...,
    **keywords: Unpack[EmbedKeywords],
) -> sp.csr_matrix: ...


@overload
def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    centred: Literal[True],
    trace: Literal[False] = ...,
    **keywords: Unpack[EmbedKeywords],
) -> CentredEmbedding: ...


@overload
def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    centred: Literal[False] = ...,
    trace: Literal[True],
    **keywords: Unpack[EmbedKeywords],
) -> tuple[sp.csr_matrix, np.ndarray]: ...


@overload
def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    centred: Literal[True],
    trace: Literal[True],
    **keywords: Unpack[EmbedKeywords],
) -> tuple[CentredEmbedding, np.ndarray]: ...


@overload
def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    centred: bool = ...,
    trace: Literal[True],
    **keywords: Unpack[EmbedKeywords],
) -> tuple[sp.csr_matrix | CentredEmbedding, np.ndarray]: ...


def embed(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    steps: int = EmbedOptions.steps,
    step_size: float = EmbedOptions.step_size,
    centred: bool = False,
    trace: bool = False,
    threads: int | None = None,
    mean: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    smallest: float = EmbedOptions.smallest,
    backend: Backend | None = None,
) -> Any:
    """Embed labels: one unit vector per label, near at least one sample of each group that has the label.

    The result has the same bytes for any number of threads, any choice of `labels`, and any X and Y1 that keep the
    rows of the labels' groups in their order.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Feature rows, used as they are.
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership: the groups of each sample.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group.
    steps : int
        0 is EAGLE-0: the direction of the sum of all rows in the groups of the label. Each further step chooses the
        best rows of each group (all that tie), and moves the embedding towards the direction of their sum.
    step_size : float
        How far a step moves the embedding.
    centred : bool
        Whether rows count as x_i - mean in the sums.
    trace : bool
        Whether to return the objective as well.
    threads : int, optional
        By default one per usable core.
    mean : numpy.ndarray of shape (n_features,), optional
        The mean row of all samples, where X holds only some of them. Only with `centred`.
    labels : numpy.ndarray of int, optional
        The labels to embed; the rows of others stay empty. By default all.
    smallest : float
        Entries that are not larger than this are left out.
    backend : Backend, optional
        From `xpipe.ground.backend.choose`; by default the CPU.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_labels, n_features), float32
        With `centred`, a `CentredEmbedding` instead. With `trace`, a pair of the embedding and the objective: the sum
        over labels and groups of the best score, after 0..steps steps (float64). A row is empty where the label has no
        groups, none of its groups has samples, or no row has a direction. Where the sum of all rows is zero, as in
        groups {x, -x}, EAGLE-0 has no answer, and the first step goes towards the first row that has a direction.
        Scores tie when they differ by less than 1e-9 of the norms of their rows.

    Raises
    ------
    DataError
        Where the matrices, `mean` or `labels` are wrong.
    ConfigError
        Where another option is out of range.

    Examples
    --------
    Two groups of two samples share a label. The direction that both groups have is its embedding:

    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.eagle import embed
    >>> X = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [-1, 0]], dtype=np.float32))
    >>> Y1 = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    >>> Y2 = sp.csr_matrix(np.array([[1], [1]], dtype=np.float32))
    >>> embed(X, Y1, Y2).toarray().round(3).tolist()
    [[1.0, 0.0]]
    """
    options = EmbedOptions(steps, step_size, smallest)
    check_options(options, centred, mean)
    threads = check_threads(threads)
    problem = prepare_problem(X, Y1, Y2)
    numbers = check_labels(labels, problem.n_labels)
    mean = check_mean(problem, mean) if centred else np.zeros(0)
    if backend is not None and backend.name == "gpu":
        from xpipe.eagle import _cupy

        found = _cupy.embed_labels(backend.array_module, problem, numbers, options, mean)
    else:
        found = embed_in_threads(problem, numbers, options, mean, trace, threads)
    rows = to_matrix(found.joined_rows(problem.n_labels, threads), problem.n_features)
    embedding = CentredEmbedding(rows, found.offsets, mean) if centred else rows
    return (embedding, found.objective) if trace else embedding


def mean_row(rows: Triple, n_features: int) -> np.ndarray:
    """The mean of the rows, float64. rows: column indices uint32, see `Problem.rows`."""
    mean = np.zeros(n_features)
    if rows.n_rows:
        _rows_numba.mean_row(rows, mean)
    return mean


def check_options(options: EmbedOptions, centred: bool, mean: np.ndarray | None) -> None:
    """Raise ConfigError where an option is out of range, or `mean` is given without `centred`."""
    options.check()
    if mean is not None and not centred:
        raise ConfigError("`mean` is given, but `centred` is not set", fix="centred=True")


def check_mean(problem: Problem, mean: np.ndarray | None) -> np.ndarray:
    """The mean row: as given, or that of the problem. Raises DataError where it does not fit the features."""
    if mean is None:
        return mean_row(problem.rows, problem.n_features)
    mean = np.asarray(mean, dtype=np.float64).ravel()
    if len(mean) != problem.n_features or not np.isfinite(mean).all():
        raise DataError(
            "`mean` does not fit the features",
            why=f"it has {len(mean):,} numbers, the features (X) {problem.n_features:,} columns",
            fix="give the mean row of all samples: finite, one number per feature",
        )
    return mean
