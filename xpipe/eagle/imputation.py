"""Any method in one call: labels of groups in, labels of single samples out, with a score for each.

Holds no arithmetic: `embedding`, `assignment` and `discriminative` do it, `choice` makes the choices.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.ownership import checked
from xpipe.eagle.problem import as_ones
from xpipe.errors import ConfigError
from xpipe.ground.machine import check_threads
from xpipe.ground.sparse import canonical, check_shapes, to_matrix, to_triple
from xpipe.grouping.groups import spread_labels

Method = Literal["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"]
Owners = Literal["one", "posterior"]


@dataclass
class Imputed:
    """labels: samples x labels, 0/1; scores: the same pattern, score or posterior; trace: what was tried and chosen."""

    labels: sp.csr_matrix
    scores: sp.csr_matrix
    trace: dict[str, Any] = field(default_factory=dict)


def impute(
    X: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    method: Method = "auto",
    *,
    seed: int = 0,
    steps: int = 20,
    step_size: float = 1.0,
    owners: Owners = "posterior",
    ridge: float | None = None,
    threshold: float | None = None,
    rounds: int = 10,
    rank: int | None = None,
    threads: int | None = None,
) -> Imputed:
    """Labels of single samples from labels of groups.

    X: samples x features (rows of length 1 are meant); Y1: samples x groups; Y2: groups x labels.
    method: baseline (every label of a sample's groups); eagle0, eagle, centred (the paper's two steps; `steps` and
        `step_size` belong to eagle, centred takes the mean row off and makes no step); discriminative (a linear scorer
        against all negatives and noisy-or posteriors in turn, for `rounds` rounds); auto (the one of these whose owners
        foretell labels of groups set aside best; the trace says which and why).
    owners, ridge, threshold, rank: of discriminative. one: the best sample of each group; posterior: every sample whose
        posterior is above `threshold`, and the best. Ridge and threshold, where they are not given, and how scores
        become posteriors are chosen by the labels of groups set aside: no true label of a sample is looked at. A ridge
        counts in units of the rows' mean squared length. rank: leading directions, by default more where members of
        groups are alike.

    Every label of a group that has samples is owned by at least one of them, and only by them, whatever the data and
    the options. How large the features are, how groups and labels are numbered, and empty groups change nothing about
    auto's choice and discriminative's owners (labels: unless two groups have the same samples and other labels). Of
    samples that nothing tells apart the one with the lowest number is the best.
    Raises ConfigError for options out of range, DataError where the matrices do not fit each other.
    """
    for name, word, known in (("method", method, get_args(Method)), ("owners", owners, get_args(Owners))):
        if word not in known:
            raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {word!r}")
    check_choices(ridge, threshold, rounds, rank)
    threads = check_threads(threads)
    X = canonical(X, "features")
    Y1, Y2 = as_ones(Y1, "membership (Y1)"), as_ones(Y2, "group_labels (Y2)")
    check_shapes(X, Y1=Y1, Y2=Y2)
    if method in ("auto", "discriminative") and X.data.any() and Y2.nnz:
        found = _chosen(
            X, Y1, Y2, method, owners, threads, seed=seed, ridge=ridge, threshold=threshold, rounds=rounds, rank=rank,
            steps=steps, step_size=step_size,
        )  # fmt: skip
    else:
        found = _plain(X, Y1, Y2, method, steps, step_size, threads)
    checked(found.labels, Y1, Y2, found.trace["method"])
    return found


def _plain(
    X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str, steps: int, step_size: float, threads: int
) -> Imputed:
    """A method that needs no choice; also where there is nothing to choose by."""
    from xpipe.eagle.assignment import embed_and_assign

    if method in ("baseline", "auto", "discriminative") or not X.nnz or not Y2.nnz:
        labels = spread_labels(Y1, Y2)
        scores = to_matrix(to_triple(labels)._replace(values=labels.data.copy()), labels.shape[1])
        return Imputed(labels, scores, {"method": "baseline"})
    labels, scores, objective = embed_and_assign(
        X, Y1, Y2, steps=steps if method == "eagle" else 0, step_size=step_size, centred=method == "centred",
        trace=True, threads=threads,
    )  # fmt: skip
    return Imputed(labels, scores, {"method": method, "objective": np.asarray(objective).tolist()})


def _chosen(
    X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str, owners: str, threads: int, **options: Any
) -> Imputed:
    """`discriminative`, or what `auto` chooses."""
    from xpipe.eagle.choice import decide
    from xpipe.eagle.discriminative import find_owners
    from xpipe.eagle.embedding import mean_row
    from xpipe.eagle.problem import state_problem
    from xpipe.eagle.whitening import scaled_rows, whiten

    scaled = scaled_rows(X)
    mean = mean_row(state_problem(scaled, Y1, Y2)) if method == "auto" else None
    choice, metric = decide(lambda samples: scaled[samples], Y1, Y2, method, mean=mean, threads=threads, **options)
    if choice.method != "discriminative":
        made = _plain(X, Y1, Y2, choice.method, options["steps"], options["step_size"], threads)
        return replace(made, trace={**made.trace, "choice": asdict(choice)})
    labels, scores = find_owners(
        whiten(scaled, metric, threads), Y1, Y2, calibration=choice.calibration, owners=owners,
        threshold=choice.threshold, rounds=options["rounds"], most_members=choice.most_members, threads=threads,
    )  # fmt: skip
    return Imputed(labels, scores, {"method": choice.method, "choice": asdict(choice)})


def check_choices(ridge: float | None, threshold: float | None, rounds: int, rank: int | None) -> None:
    """Raise ConfigError where an option of `discriminative` is out of range; None: it is chosen."""
    if ridge is not None and not (isinstance(ridge, Real) and 0 <= ridge < math.inf):
        raise ConfigError(f"`ridge` must be a number from 0 on, got {ridge!r}", fix="leave it out: it is chosen")
    if threshold is not None and not (isinstance(threshold, Real) and 0 <= threshold <= 1):
        raise ConfigError(f"`threshold` must be from 0 to 1, got {threshold!r}", why="posteriors are chances")
    for name, count in (("rounds", rounds), ("rank", rank)):
        if count is not None and not (isinstance(count, Integral) and count >= 1):
            raise ConfigError(f"`{name}` must be a whole number from 1 on, got {count!r}")
