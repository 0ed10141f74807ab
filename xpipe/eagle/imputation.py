"""Any method in one call: labels of groups in, labels of single samples out, with a score for each.

Holds no arithmetic: `embedding`, `assignment` and `discriminative` do it, `choice` makes the choices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.grouping import likeness, spread_labels
from xpipe.machine import usable_cores
from xpipe.sparse import canonical, check_shapes

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
    Raises ConfigError for unknown words, DataError where the matrices do not fit each other.
    """
    for name, word, known in (("method", method, get_args(Method)), ("owners", owners, get_args(Owners))):
        if word not in known:
            raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {word!r}")
    X, Y1, Y2 = canonical(X, "features"), canonical(Y1, "membership (Y1)"), canonical(Y2, "group_labels (Y2)")
    check_shapes(X, Y1=Y1, Y2=Y2)
    threads = threads or usable_cores()
    if method == "baseline" or not X.nnz or not Y2.nnz:
        labels = spread_labels(Y1, Y2)
        return Imputed(labels, labels.copy(), {"method": "baseline"})
    if method in ("auto", "discriminative"):
        from xpipe.eagle import selection, whitening
        from xpipe.eagle.choice import choose
        from xpipe.eagle.discriminative import find_owners
        from xpipe.eagle.embedding import mean_row
        from xpipe.eagle.problem import state_problem

        sample = whitening.sampled_rows(X.shape[0], seed)
        alike = likeness(X[sample], Y1[sample])
        rank = rank or whitening.usual_rank(X.shape[1], alike)
        spectrum = whitening.leading_directions(X[sample], rank, seed, X.shape[0], threads)
        trial = selection.set_aside(Y1, Y2, seed)
        needed = trial.samples()
        choice, metric = choose(
            X[needed], trial.of_samples(needed), spectrum, method, likeness=alike, ridge=ridge, threshold=threshold,
            rounds=rounds, steps=steps, step_size=step_size, mean=mean_row(state_problem(X, Y1, Y2)), threads=threads,
        )  # fmt: skip
        if choice.method != "discriminative":
            made = impute(X, Y1, Y2, cast(Method, choice.method), steps=steps, step_size=step_size, threads=threads)
            return replace(made, trace={**made.trace, "choice": asdict(choice)})
        rows = whitening.whiten(X, metric, threads)
        labels, scores = find_owners(
            rows, Y1, Y2, calibration=choice.calibration, owners=owners, threshold=choice.threshold, rounds=rounds,
            most_members=choice.most_members, threads=threads,
        )  # fmt: skip
        return Imputed(labels, scores, {"method": choice.method, "choice": asdict(choice)})
    from xpipe.eagle.assignment import embed_and_assign

    taken = steps if method == "eagle" else 0
    labels, scores, objective = embed_and_assign(
        X, Y1, Y2, steps=taken, step_size=step_size, centred=method == "centred", trace=True, threads=threads
    )
    return Imputed(labels, scores, {"method": method, "objective": np.asarray(objective).tolist()})
