"""What `discriminative` and `auto` decide before they assign: ridge, calibration, threshold, which method at all.

Only labels of groups are looked at, never a label of a sample (`selection`). Holds no assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import selection
from xpipe.eagle.assignment import embed_and_assign
from xpipe.eagle.discriminative import ROUNDS, best_pairs, fit_posteriors, judged, keep_pairs
from xpipe.eagle.numbering import renumbered
from xpipe.eagle.selection import Trial
from xpipe.eagle.whitening import (
    Metric,
    Spectrum,
    Whitened,
    leading_directions,
    metric_of,
    sampled_rows,
    usual_rank,
    whiten,
)
from xpipe.ground.library_threads import one_thread_each
from xpipe.grouping.groups import likeness as likeness_of_members
from xpipe.grouping.groups import spread_labels

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)  # in units of the rows' mean squared length
START = 3
TIE = 0.02  # relative difference of what two methods explain that decides nothing
FAR_MORE = 0.8  # the baseline wins outright where every splitting method explains less than this share of its share
MANY_OWNERS = 0.25  # groups are alike inside: so many (sample, label) pairs look owned ...
SMALL_GAIN = 0.15  # ... and choosing the owners is expected to raise F1 by so little; copies: 0.1, natural series: 0.3
EMBEDDINGS = ("eagle0", "eagle", "centred")


@dataclass(frozen=True)
class Choice:
    """method; what `discriminative` needs; why: a sentence; tried: the figures behind it."""

    method: str
    ridge: float
    calibration: tuple[float, ...]  # what `selection.Calibration` has, or nothing
    threshold: float  # on posteriors: where F1 is expected to be highest
    most_members: int  # of a group that is left out of its own scores
    why: str = ""
    tried: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """What a ridge led to, and the likelihood of the labels of groups set aside."""

    ridge: float
    likelihood: float
    metric: Metric
    rows: Whitened
    posterior: sp.csr_matrix
    score: sp.csr_matrix
    forecast: selection.Forecast


def decide(
    take_rows: Callable[[np.ndarray], sp.csr_matrix],
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    method: str,
    *,
    seed: int = 0,
    rank: int | None = None,
    mean: np.ndarray | None = None,
    threads: int = 1,
    **options: Any,
) -> tuple[Choice, Metric]:
    """Everything there is to choose, and the metric it led to; how groups and labels are numbered has no part in it.

    take_rows: rows of samples, their values about 1 at most (`whitening.scaled_rows`); options: of `choose`.
    """
    Y1, Y2 = renumbered(Y1, Y2)
    with one_thread_each():  # more BLAS threads would add up in another order
        sampled = sampled_rows(Y1.shape[0], seed)
        sample = take_rows(sampled)
        alike = likeness_of_members(sample, Y1[sampled])
        rank = rank or usual_rank(sample.shape[1], alike)
        spectrum = leading_directions(sample, rank, seed, Y1.shape[0], threads)
        del sample  # the trial needs rows of its own
        if not spectrum.unit or not Y2.nnz:
            why = "samples have no features" if Y2.nnz else "no group has samples and labels"
            return Choice("baseline", RIDGES[START], (), 0.5, 0, f"{why}: nothing tells members apart"), Metric(
                np.zeros(len(spectrum.diagonal), np.float32), spectrum.vectors[:, :0]
            )
        trial = selection.set_aside(Y1, Y2, seed)
        needed = trial.samples()
        return choose(
            take_rows(needed), trial.of_samples(needed), spectrum, method, likeness=alike, mean=mean, threads=threads,
            **options,
        )  # fmt: skip


def choose(
    X: sp.csr_matrix,
    trial: Trial,
    spectrum: Spectrum,
    method: str,
    *,
    likeness: float = 0.0,
    ridge: float | None = None,
    threshold: float | None = None,
    rounds: int = ROUNDS,
    steps: int = 20,
    step_size: float = 1.0,
    mean: np.ndarray | None = None,
    threads: int = 1,
) -> tuple[Choice, Metric]:
    """The choice and its metric. X: the rows of the trial; likeness: of members of groups; mean: of all rows."""
    if not len(trial.labels) or not trial.held_labels.any():
        usual = RIDGES[START] if ridge is None else ridge
        above = 0.5 if threshold is None else threshold
        why = "too few groups to set any aside: nothing was chosen by the data"
        return Choice("discriminative", usual, (), above, trial.most_members, why), metric_of(spectrum, usual)

    def attempt(candidate: float) -> Attempt:
        metric = metric_of(spectrum, candidate)
        rows = whiten(X, metric, threads)
        posterior, score = fit_posteriors(
            rows, trial.Y1, trial.Y2, rounds=rounds, most_members=trial.most_members, threads=threads
        )
        forecast = selection.foretell(rows, trial, posterior, threads)
        likelihood = selection.likelihood(forecast.log_none, trial.held_labels)
        return Attempt(candidate, likelihood, metric, rows, posterior, score, forecast)

    grid, start = (RIDGES, START) if ridge is None else ((ridge,), 0)
    best_ridge, likelihoods = selection.climb(grid, start, attempt)
    ridge, metric, rows = best_ridge.ridge, best_ridge.metric, best_ridge.rows
    posterior, score, forecast = best_ridge.posterior, best_ridge.score, best_ridge.forecast
    normed = selection.foretell(rows, trial, posterior, threads, selection.POWERS)
    calibration = selection.calibrate(normed, trial, likeness)
    settled = tuple(asdict(calibration).values()) if calibration else ()
    chances = judged(score, trial.Y1, trial.Y2, settled, threads) if settled else posterior.data
    best = best_pairs(score, trial.Y1, trial.Y2)
    if threshold is None:
        threshold = selection.threshold_of(chances) if settled else 0.5
    tried: dict[str, Any] = {
        "ridge": {f"{tried_ridge:g}": found for tried_ridge, found in likelihoods.items()},
        "likeness": round(likeness, 4),
    }

    def choice_of(method: str, why: str) -> Choice:
        return Choice(method, ridge, settled, threshold, trial.most_members, why, tried)

    if method == "discriminative":
        return choice_of(method, f"ridge {ridge:g} foretold the groups set aside best"), metric
    owning = (chances > threshold) | best
    found = {
        "discriminative": max(
            selection.explained(forecast, trial),
            selection.explained(selection.foretell(rows, trial, keep_pairs(posterior, owning), threads), trial),
        )
    }
    for name in ("baseline", *EMBEDDINGS):
        owned = _owners(name, X, trial, steps, step_size, mean, threads)
        found[name] = selection.explained(selection.foretell(rows, trial, owned, threads), trial)
    tried["explained"] = {name: round(value, 5) for name, value in found.items()}
    tried["owner_share"] = share = round(float(owning.mean()), 5)
    of_all = max(_expected_f1(chances, chances >= 0), 1e-300)
    tried["expected_gain"] = gain = round(_expected_f1(chances, owning) / of_all - 1, 5)
    if not settled:
        return choice_of(
            "baseline", "no scorer foretells the labels of groups set aside: nothing tells members apart"
        ), metric
    winner = _best(found)
    if winner != "baseline" and share >= MANY_OWNERS and gain < SMALL_GAIN:
        why = f"groups are alike inside: {share:.0%} of pairs look owned, choosing them would change F1 by {gain:+.1%}"
        return choice_of("baseline", why), metric
    why = f"its owners explain {found[winner]:.1%} of what the rates of labels leave open about groups set aside"
    why += "" if winner == "baseline" else f"; not splitting explains {found['baseline']:.1%}"
    return choice_of(winner, why), metric


def _best(found: dict[str, float]) -> str:
    """The splitting method that explains most, or the baseline where it explains far more than that."""
    splitting = max((name for name in found if name != "baseline"), key=lambda name: found[name])
    if found["discriminative"] >= (1 - TIE) * found[splitting]:
        splitting = "discriminative"  # among equals the one that can give a label several owners
    return "baseline" if found["baseline"] * FAR_MORE > max(found[splitting], 0) else splitting


def _expected_f1(chances: np.ndarray, chosen: np.ndarray) -> float:
    """F1 of choosing some pairs, if the chances are right."""
    return float(2 * chances[chosen].sum() / max(chosen.sum() + chances.sum(), 1e-300))


def _owners(
    name: str, X: sp.csr_matrix, trial: Trial, steps: int, step_size: float, mean: np.ndarray | None, threads: int
) -> sp.csr_matrix:
    """Owners by a method that needs no choice, labels x samples of the trial."""
    if name == "baseline":
        return sp.csr_matrix(spread_labels(trial.Y1, trial.Y2).T)
    labels, _, _ = embed_and_assign(
        X, trial.Y1, trial.Y2, steps=steps if name == "eagle" else 0, step_size=step_size, centred=name == "centred",
        mean=mean if name == "centred" else None, threads=threads,
    )  # fmt: skip
    return sp.csr_matrix(labels.T)
