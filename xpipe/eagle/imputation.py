"""Any method in one call: labels of groups in, labels of single samples out, with a score for each.

Holds no arithmetic and no order of steps: it carries out a `plan` in this process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import plan
from xpipe.eagle.embedding import mean_row
from xpipe.eagle.options import ImputeOptions, Method, Owners
from xpipe.eagle.problem import as_ones, with_unsigned_columns
from xpipe.eagle.spectrum import scaled_rows
from xpipe.eagle.trust import Expected, expectation
from xpipe.ground.backend import Backend
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, check_shapes, to_triple
from xpipe.ground.sparse_rows import matrix_with_ones

SMALLEST_CHANCE = np.float32(1e-6)  # of an owner in `soft_labels`: an entry of 0 would be none


@dataclass
class Imputed:
    """Labels of single samples, as `impute` found them.

    Attributes
    ----------
    labels : scipy.sparse.csr_matrix of shape (n_samples, n_labels), float32
        1 where a sample owns a label.
    scores : scipy.sparse.csr_matrix of shape (n_samples, n_labels), float32
        The score of each owner, with the same pattern: a posterior for the method `discriminative`, 1 for `baseline`,
        else a product with the label embedding.
    trace : dict
        The method that was used (`method`), the objective after each step (`objective`), and what was tried and chosen
        (`choice`), where the method has these.
    trust : Expected, optional
        Precision, recall and F1 to expect of the labels, with intervals; found without a true label of a sample. None
        where no chances are known.
    candidates : scipy.sparse.csr_matrix of shape (n_samples, n_labels), optional
        The chances of the most likely pairs that are no owners, by the method `discriminative`. More of them are wrong
        than right, but a trainer that counts each label with its chance learns from them.
    """

    labels: sp.csr_matrix
    scores: sp.csr_matrix
    trace: dict[str, Any] = field(default_factory=dict)
    trust: Expected | None = None
    candidates: sp.csr_matrix | None = None

    @property
    def soft_labels(self) -> sp.csr_matrix:
        """The scores of owners and candidates: labels for trainers that count each with its chance.

        With it, `LabelTree().fit(X, found.soft_labels, label_scores=found.soft_labels)` trains on both.
        """
        if self.candidates is None:
            return self.scores
        owners = self.scores.copy()
        owners.data = np.maximum(owners.data, SMALLEST_CHANCE)
        return canonical(sp.csr_matrix(owners + self.candidates), "labels")


class MatrixRows:
    """The rows of a matrix in memory, as a plan takes them."""

    def __init__(self, X: sp.csr_matrix):
        self.X = X

    @cached_property
    def scaled(self) -> sp.csr_matrix:
        return scaled_rows(self.X)

    def take(self, samples: np.ndarray | None, *, scaled: bool) -> sp.csr_matrix:
        X = self.scaled if scaled else self.X
        return X if samples is None else X[samples]

    def mean(self, *, scaled: bool) -> np.ndarray:
        X = self.scaled if scaled else self.X
        return mean_row(with_unsigned_columns(to_triple(X)), X.shape[1])

    def kinship(self, groups: np.ndarray | None) -> None:
        return None

    def coordinates(self, samples: np.ndarray | None) -> None:
        """One chunk has all labels: nothing would be read twice."""

    def shared(self) -> None:
        """Nor would anything be uploaded twice."""


def impute(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    method: Method = ImputeOptions.method,
    *,
    seed: int = ImputeOptions.seed,
    steps: int = ImputeOptions.steps,
    step_size: float = ImputeOptions.step_size,
    owners: Owners = ImputeOptions.owners,
    ridge: float | None = ImputeOptions.ridge,
    threshold: float | None = ImputeOptions.threshold,
    rounds: int = ImputeOptions.rounds,
    rank: int | None = ImputeOptions.rank,
    threads: int | None = None,
    backend: Backend | None = None,
) -> Imputed:
    """Find the labels of single samples from the labels of groups of samples.

    Every label of a group that has samples is owned by at least one of them, and only by them, whatever the data and
    the options. The scale of the features, the numbers of groups and labels, and empty groups do not change the choice
    of `auto` or the owners of `discriminative` (the numbers of labels can, where two groups have the same samples and
    different labels). Of samples that nothing distinguishes, the one with the lowest number is the best.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_samples, n_features)
        Feature rows; rows of length 1 are expected.
    Y1 : scipy.sparse.csr_matrix of shape (n_samples, n_groups)
        Membership: the groups of each sample.
    Y2 : scipy.sparse.csr_matrix of shape (n_groups, n_labels)
        The labels of each group.
    method : {"auto", "baseline", "eagle0", "eagle", "centred", "discriminative"}
        baseline: every label of the groups of a sample. eagle0, eagle, centred: embed the labels, then take the nearest
        sample of each group; centred subtracts the mean row and takes no steps. discriminative: a linear scorer against
        all negatives and noisy-or posteriors, in alternating rounds. auto: the one of these whose owners predict the
        labels of held-out groups best; `trace` tells which, and why.
    seed : int
        Decides which groups are held out.
    steps, step_size : int, float
        Options of eagle, see `embed`.
    owners : {"posterior", "one"}
        Option of discriminative. one: the best sample of each group. posterior: also every sample whose posterior is
        above `threshold`.
    ridge, threshold : float, optional
        Options of discriminative. A ridge counts in units of the mean squared length of the rows. By default both are
        chosen by the labels of held-out groups; no true label of a sample is used.
    rounds : int
        Option of discriminative: the most rounds.
    rank : int, optional
        Option of discriminative: how many leading directions are kept. By default more where members of groups are
        alike.
    threads : int, optional
        By default one per usable core. The number of threads changes no byte of the result.
    backend : Backend, optional
        From `xpipe.ground.backend.choose`; by default the CPU. Choices are made on the CPU always.

    Returns
    -------
    Imputed
        The labels, their scores, and a trace of the choices.

    Raises
    ------
    ConfigError
        Where an option is out of range.
    DataError
        Where the matrices are wrong or do not fit each other.

    Examples
    --------
    Two groups of two samples share a label. One sample of each group has the feature that goes with it:

    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.eagle import impute
    >>> X = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [-1, 0]], dtype=np.float32))
    >>> Y1 = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    >>> Y2 = sp.csr_matrix(np.array([[1], [1]], dtype=np.float32))
    >>> found = impute(X, Y1, Y2, method="eagle")
    >>> found.labels.toarray().ravel().tolist()
    [1.0, 0.0, 1.0, 0.0]
    >>> found.trace["method"]
    'eagle'
    """
    options = ImputeOptions(method, steps, step_size, owners, ridge, threshold, rounds, rank, seed)
    options.check()
    threads = check_threads(threads)
    X = canonical(X, "features")
    Y1, Y2 = as_ones(Y1, "membership (Y1)"), as_ones(Y2, "group_labels (Y2)")
    check_shapes(X, Y1=Y1, Y2=Y2)
    if not X.nnz or not Y2.nnz or (options.chooses and not X.data.any()):
        options = replace(options, method="baseline")  # nothing tells members apart
    features = MatrixRows(X)
    decision = plan.decide(options, features, Y1, Y2, threads)
    assigned = plan.assign_chunk(decision, features, plan.Chunk(None, Y1, Y2), threads=threads, backend=backend)
    trace: dict[str, Any] = {"method": decision.method}
    if assigned.objective is not None:
        trace["objective"] = assigned.objective.tolist()
    if decision.choice is not None:
        trace["choice"] = asdict(decision.choice)
    known = None if decision.choice is None else decision.choice.trust
    sums = assigned.chances
    trust, trace["trust"] = expectation(known, assigned.scores.nnz, sums and sums.owned, sums and sums.total)
    return Imputed(matrix_with_ones(assigned.scores), assigned.scores, trace, trust, assigned.candidates)
