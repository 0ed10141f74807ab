"""What `discriminative` and `auto` decide before they assign: ridge, calibration, threshold, which method at all.

Only labels of groups are looked at, never a label of a sample (`selection`). Holds no assignment.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import selection
from xpipe.eagle.assignment import embed_and_assign
from xpipe.eagle.discriminative import ROUNDS, best_pairs, fit_posteriors, judged, keep_pairs
from xpipe.eagle.selection import Trial
from xpipe.eagle.whitening import Metric, Spectrum, Whitened, metric_of, whiten
from xpipe.grouping import spread_labels

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
        usual = ridge or RIDGES[START]
        why = "too few groups to set any aside: nothing was chosen by the data"
        return Choice("discriminative", usual, (), 0.5, trial.most_members, why), metric_of(spectrum, usual)
    attempts: dict[float, tuple[Metric, Whitened, sp.csr_matrix, sp.csr_matrix, selection.Forecast]] = {}
    likelihoods: dict[str, float] = {}

    def likelihood_at(candidate: float) -> float:
        metric = metric_of(spectrum, candidate)
        rows = whiten(X, metric, threads)
        posterior, score = fit_posteriors(
            rows, trial.Y1, trial.Y2, rounds=rounds, most_members=trial.most_members, threads=threads
        )
        forecast = selection.foretell(rows, trial, posterior, threads)
        found = selection.likelihood(forecast.log_none, trial.held_labels)
        if found >= max(likelihoods.values(), default=-np.inf):
            attempts.clear()  # one set of coordinates in memory at a time
            attempts[candidate] = metric, rows, posterior, score, forecast
        likelihoods[f"{candidate:g}"] = found
        return found

    if ridge is None:
        ridge, _ = selection.climb(RIDGES, START, likelihood_at)
    else:
        likelihood_at(ridge)
    metric, rows, posterior, score, forecast = attempts[ridge]
    normed = selection.foretell(rows, trial, posterior, threads, selection.POWERS)
    calibration = selection.calibrate(normed, trial, likeness)
    settled = tuple(asdict(calibration).values()) if calibration else ()
    chances = judged(score, trial.Y1, trial.Y2, settled, threads) if settled else posterior.data
    best = best_pairs(score, trial.Y1, trial.Y2)
    if threshold is None:
        threshold = selection.threshold_of(chances) if settled else 0.5
    tried: dict[str, Any] = {"ridge": likelihoods, "likeness": round(likeness, 4)}

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
    tried["expected_gain"] = gain = round(_expected_f1(chances, owning) / _expected_f1(chances, chances >= 0) - 1, 5)
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
    return float(2 * chances[chosen].sum() / (chosen.sum() + chances.sum()))


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
