"""Which ridge, and what the rounds lead to under it in a trial: with groups held out, or with all groups.

Holds no judgement of owners and no choice between methods (`choice`). Only labels of groups are used (`selection`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import scipy.sparse as sp

from xpipe.eagle import selection
from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.label_offsets import fit_prior
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.rounds import Fitted, fit_posteriors
from xpipe.eagle.slopes import SLOPES
from xpipe.eagle.spectrum import Spectrum
from xpipe.eagle.trial import Forecast, Trial, forecast, judged_kinship
from xpipe.eagle.whitening import Whitener, whiten, whitener_of

RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)  # in units of the rows' mean squared length
STARTS = (3, 7)  # places in RIDGES where the search starts: rare labels can have a second hill at high ridges
USUAL_RIDGE = RIDGES[STARTS[0]]
NEARLY_AS_WELL = 0.01  # part of the loss that the ridge may cost where members are alike: a lower one has more detail
SEARCH_ROUNDS = 4  # rounds that ridges are compared after: more hardly change which one is best


@dataclass(frozen=True)
class Fit:
    """What the rounds lead to in a trial. calibration: the fields of a `Calibration`, or nothing."""

    fitted: Fitted
    calibration: tuple[float, ...]
    forecast: Forecast | None = None  # for the held-out groups, where there are any


@dataclass(frozen=True)
class RidgeTrial:
    """What one ridge leads to in a trial, and the likelihood of the labels of the held-out groups."""

    ridge: float
    likelihood: float
    rows: Whitened
    judged: Kinship  # of the held-out groups
    fit: Fit


class RidgeWhitener(NamedTuple):
    """A ridge and its whitener."""

    ridge: float
    whitener: Whitener


class GroupsTrial(NamedTuple):
    """What a ridge leads to where all groups take part. saved: the part of the loss of labels that scores save."""

    at: RidgeWhitener
    fit: Fit
    saved: float


def best_ridge(
    X: sp.csr_matrix, trial: Trial, spectrum: Spectrum, options: ImputeOptions, threads: int, *, alike: bool
) -> tuple[float, RidgeTrial, dict[float, float]]:
    """(The ridge to take, the best of those tried, the likelihood of the labels of held-out groups under each).

    The ridge is the one under which these labels are most likely, between those that were tried. alike: members of
    groups are; it is the lowest one then under which they are nearly as likely.
    """

    rounds = min(SEARCH_ROUNDS, options.rounds)

    def attempt(ridge: float) -> RidgeTrial:
        return try_ridge(X, trial, RidgeWhitener(ridge, whitener_of(spectrum, ridge)), rounds, threads)

    grid, starts = (RIDGES, STARTS) if options.ridge is None else ((options.ridge,), (0,))
    best, seen = selection.climb(grid, starts, attempt)
    if len(grid) == 1:
        return best.ridge, best, seen
    if not alike:
        return selection.top_of(seen, best.ridge), best, seen
    ridge, seen = selection.descend(grid, seen, NEARLY_AS_WELL, attempt)
    return ridge, best, seen


def try_ridge(X: sp.csr_matrix, trial: Trial, at: RidgeWhitener, rounds: int, threads: int) -> RidgeTrial:
    """What a ridge leads to in a trial with held-out groups."""
    rows = whiten(X, at.whitener, threads)
    judged = judged_kinship(rows, trial, threads)
    fit, likelihood = fit_held_out(rows, trial, judged, rounds, threads)
    return RidgeTrial(at.ridge, likelihood, rows, judged, fit)


def fit_held_out(rows: Whitened, trial: Trial, judged: Kinship, rounds: int, threads: int) -> tuple[Fit, float]:
    """(what the rounds lead to in a trial with held-out groups, the likelihood of their labels)."""
    fitted = fit_posteriors(rows, trial.Y1, trial.Y2, rounds=rounds, most_members=trial.most_members, threads=threads)
    found = forecast(rows, trial, fitted.posterior, threads, SLOPES, judged)
    calibration, likelihood = selection.calibrate(found, trial)
    return Fit(fitted, tuple(calibration or ()), found), likelihood


def try_all_groups(
    X: sp.csr_matrix, trial: Trial, given: RidgeWhitener, spectrum: Spectrum, options: ImputeOptions, threads: int
) -> GroupsTrial:
    """A trial in which all groups take part, with the given ridge if scores under it tell anything.

    Labels of held-out groups may hardly tell ridges apart, and the best one may be so high that all members look alike.
    Then a lower one is taken: the one under which scores tell most about the labels of groups.
    """

    def fit_at(at: RidgeWhitener) -> GroupsTrial:
        return GroupsTrial(at, *_fit_all_labels(whiten(X, at.whitener, threads), trial, options, threads))

    first = best = fit_at(given)
    if first.fit.calibration or options.ridge is not None:
        return first
    for ridge in (lower for lower in reversed(RIDGES) if lower < given.ridge):
        other = fit_at(RidgeWhitener(ridge, whitener_of(spectrum, ridge)))
        if other.saved > best.saved:
            best = other
        elif best.fit.calibration:
            break
    return best if best.fit.calibration else first


def _fit_all_labels(rows: Whitened, trial: Trial, options: ImputeOptions, threads: int) -> tuple[Fit, float]:
    """(The rounds of a trial in which all groups take part, what part of the loss of labels the scores save).

    Every label gets a calibration of its own.
    """
    fitted = fit_posteriors(
        rows, trial.Y1, trial.Y2, rounds=options.rounds, powers=SLOPES, beside=trial.beside,
        most_members=trial.most_members, threads=threads,
    )  # fmt: skip
    assert fitted.cells is not None  # powers were given
    calibration, saved = fit_prior(fitted.cells.of_labels(trial.labels))
    if calibration is None:
        return Fit(fitted._replace(cells=None), ()), saved
    return Fit(fitted._replace(cells=fitted.cells.of_slope(calibration.slope)), tuple(calibration)), saved
