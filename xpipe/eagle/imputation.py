"""Any method in one call: labels of groups in, labels of single samples out, with a score for each.

Holds no arithmetic: `embedding`, `assignment` and `discriminative` do it, `selection` makes the choices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.grouping import spread_labels
from xpipe.machine import usable_cores
from xpipe.sparse import canonical, check_shapes

Method = Literal["baseline", "eagle0", "eagle", "centred", "discriminative"]
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
    method: Method = "discriminative",
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
        `step_size` belong to eagle, centred takes its mean row off and makes no step); discriminative (a linear scorer
        against all negatives and noisy-or posteriors in turn, for `rounds` rounds).
    owners, ridge, threshold, rank: of discriminative. one: the best sample of each group; posterior: every sample whose
        posterior is above `threshold`, and the best. Ridge and threshold are chosen, where they are not given, by the
        likelihood of the labels of groups set aside: no true label of a sample is looked at. A ridge counts in units of
        the rows' mean squared length.
    Raises ConfigError for unknown words, DataError where the matrices do not fit each other.
    """
    for name, word, known in (("method", method, get_args(Method)), ("owners", owners, get_args(Owners))):
        if word not in known:
            raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {word!r}")
    X, Y1, Y2 = canonical(X, "features"), canonical(Y1, "membership (Y1)"), canonical(Y2, "group_labels (Y2)")
    check_shapes(X, Y1=Y1, Y2=Y2)
    threads = threads or usable_cores()
    if method == "baseline":
        labels = spread_labels(Y1, Y2)
        return Imputed(labels, labels.copy(), {"method": method})
    if method == "discriminative":
        from xpipe.eagle.discriminative import discriminate

        labels, scores, trace = discriminate(
            X,
            Y1,
            Y2,
            seed=seed,
            owners=owners,
            ridge=ridge,
            threshold=threshold,
            rounds=rounds,
            rank=rank,
            threads=threads,
        )
        return Imputed(labels, scores, {"method": method, **trace})
    from xpipe.eagle.assignment import assign
    from xpipe.eagle.embedding import embed

    taken = steps if method == "eagle" else 0
    E, objective = embed(
        X, Y1, Y2, steps=taken, step_size=step_size, centred=method == "centred", trace=True, threads=threads
    )
    labels, scores = assign(X, Y1, Y2, E, return_scores=True, threads=threads)
    return Imputed(labels, scores, {"method": method, "objective": np.asarray(objective).tolist()})
