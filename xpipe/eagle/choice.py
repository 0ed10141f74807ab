"""What `discriminative` and `auto` choose before they assign: ridge, calibration, threshold, and which method at all.

Holds no assignment and no search for a ridge (`ridge`). Only labels of groups are used, never a label of a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import selection
from xpipe.eagle.assignment import embed_and_assign
from xpipe.eagle.chances import Crowd, crowd_of
from xpipe.eagle.discriminative import (
    best_pairs,
    keep_pairs,
    posteriors_of,
)
from xpipe.eagle.near_groups import near_groups
from xpipe.eagle.numbering import renumbered
from xpipe.eagle.options import ALIKE, ImputeOptions, usual_rank
from xpipe.eagle.reliability import reliability_of
from xpipe.eagle.ridge import (
    SEARCH_ROUNDS,
    USUAL_RIDGE,
    Fit,
    RidgeTrial,
    RidgeWhitener,
    best_ridge,
    fit_held_out,
    try_all_groups,
    try_ridge,
)
from xpipe.eagle.spectrum import SWEEPS, SWEEPS_ALIKE, Spectrum, leading_directions, sampled_rows
from xpipe.eagle.trial import Trial, forecast, set_aside, take_part
from xpipe.eagle.trust import TrialQuality, places_of, trial_quality
from xpipe.eagle.whitening import Whitener, empty_whitener, whitener_of
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.sparse import canonical
from xpipe.ground.sparse_rows import matrix_with_ones
from xpipe.grouping.groups import likeness as likeness_of_members
from xpipe.grouping.groups import spread_labels

SEARCH_LABELS = 100  # labels of the trial that ridges are compared by
USUAL_THRESHOLD = 0.5  # where nothing can be calibrated
NO_CANDIDATES = 1.0  # no chance is above this
CANDIDATE_RECALL = 4.0  # candidates are above the threshold of the highest expected F2: recall counts four times
CANDIDATE_RECALL_ALIKE = 9.0  # of F3, where members are alike: many own a label then, and chances are low
CLEARLY_MORE = 0.1  # another splitting method is taken where `discriminative` explains less by more than this part
FAR_MORE = 0.8  # the baseline wins where every splitting method explains less than this part of what it explains
MANY_OWNERS = 0.25  # members are alike: at least this share of the (sample, label) pairs looks owned, ...
SMALL_GAIN = 0.15  # ... and choosing owners is expected to raise F1 by less than this; copies: 0.1, natural series: 0.3
EMBEDDINGS = ("eagle0", "eagle", "centred")


@dataclass(frozen=True)
class Choice:
    """The method, what `discriminative` needs, and the reasons."""

    method: str
    ridge: float
    calibration: tuple[float, ...]  # the fields of a `Calibration`, or nothing
    threshold: float  # on posteriors of owners; chosen for the highest expected F1
    most_members: int  # size of the largest groups that have no say in their own scores
    why: str = ""  # one sentence
    tried: dict[str, Any] = field(default_factory=dict)  # the figures behind the choice
    crowd: Crowd | None = None  # all groups by size
    trust: TrialQuality | None = None  # how good the owners of the method look in the trial
    lowest: float = NO_CANDIDATES  # pairs with a higher posterior that are no owners are candidates


class Chosen(NamedTuple):
    """All that is chosen. near: the groups near each group, where every label has a calibration of its own."""

    choice: Choice
    whitener: Whitener
    near: np.ndarray | None = None


@dataclass(frozen=True)
class Judgement:
    """Posteriors of the pairs of the trial, the threshold on them, and the pairs that look owned."""

    posterior: np.ndarray
    threshold: float
    owned: np.ndarray  # bool


@dataclass(frozen=True)
class Comparison:
    """How the methods compare in the trial."""

    explained: dict[str, float]  # per method
    owner_share: float  # the share of pairs that look owned
    expected_gain: float  # of F1 by choosing owners, relative to the baseline


def choose(
    take_rows: Callable[[np.ndarray], sp.csr_matrix],
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    options: ImputeOptions,
    *,
    mean: np.ndarray | None = None,
    judged: str | None = None,
    threads: int = 1,
) -> Chosen:
    """Make all choices.

    take_rows gives the rows of samples, whose values must be 1 at most (`spectrum.scaled_rows`). mean: of all rows;
    needed for `auto`. judged: the method whose owners `Choice.trust` is about; by default the one chosen. How groups
    and labels are numbered does not change the choices.
    """
    n_groups = Y1.shape[1]
    Y1, Y2, old_numbers = renumbered(Y1, Y2)
    with one_thread_each():  # several BLAS threads would add in another order
        sampled = sampled_rows(Y1.shape[0], options.seed)
        sample = take_rows(sampled)
        likeness = likeness_of_members(sample, Y1[sampled])
        rank = options.rank or usual_rank(sample.shape[1], likeness)
        sweeps = SWEEPS_ALIKE if likeness > ALIKE else SWEEPS
        spectrum = leading_directions(sample, rank, options.seed, Y1.shape[0], threads, sweeps)
        del sample  # the trial takes rows of its own
        if not spectrum.mean_square or not Y2.nnz:
            return _nothing_to_choose_by(spectrum, has_labels=bool(Y2.nnz))
        trial = set_aside(Y1, Y2, options.seed)
        if not len(trial.labels) or not trial.held_labels.any():
            return _without_trial(spectrum, options, trial.most_members)
        search, crowd, near = trial.of_labels(SEARCH_LABELS), crowd_of(Y1, likeness), None
        if not crowd.weight:
            near = near_groups(take_rows, Y1, spectrum, options.seed, threads)
            trial = take_part(Y1, Y2, trial.labels, near)
        needed = np.union1d(trial.samples(), search.samples())
        choice, whitener = _choose_by_trials(
            take_rows(needed), search.of_samples(needed), trial.of_samples(needed), spectrum, options,
            likeness=likeness, mean=mean, crowd=crowd, judged=judged, threads=threads,
        )  # fmt: skip
        return Chosen(choice, whitener, None if near is None else _by_old_numbers(near, old_numbers, n_groups))


def _by_old_numbers(near: np.ndarray, old_numbers: np.ndarray, n_groups: int) -> np.ndarray:
    """The groups near each group, in the numbers of the input; empty groups have none (-1)."""
    found = np.full((n_groups, near.shape[1]), -1, dtype=np.int32)
    found[old_numbers] = old_numbers[near]
    return found


def _nothing_to_choose_by(spectrum: Spectrum, has_labels: bool) -> Chosen:
    """The choice where rows have no length, or groups no labels."""
    why = "samples have no features" if has_labels else "no group has samples and labels"
    choice = Choice("baseline", USUAL_RIDGE, (), USUAL_THRESHOLD, 0, f"{why}: nothing tells members apart")
    return Chosen(choice, empty_whitener(len(spectrum.diagonal)))


def _choose_by_trials(
    X: sp.csr_matrix,
    search: Trial,
    trial: Trial,
    spectrum: Spectrum,
    options: ImputeOptions,
    *,
    likeness: float,
    mean: np.ndarray | None,
    crowd: Crowd,
    judged: str | None,
    threads: int,
) -> tuple[Choice, Whitener]:
    """Make all choices by two trials.

    X: the rows of their samples. search: some labels, and groups are held out; ridges and methods are compared by it.
    trial: more labels; calibrations and what owners are worth come from it. Where members are alike, all groups take
    part in it, so that scores are those of the assignment itself, and every label gets a calibration of its own.
    likeness: of members of groups; mean: of all rows; crowd: all groups by size; judged: as in `choose`.
    """
    needed = search.samples()
    few, search = sp.csr_matrix(X[needed]), search.of_samples(needed)
    ridge, held_out, likelihoods = best_ridge(few, search, spectrum, options, threads, alike=not crowd.weight)
    at = RidgeWhitener(ridge, whitener_of(spectrum, ridge))
    why = f"ridge {ridge:g} predicts the labels of held-out groups best"
    if options.rounds > SEARCH_ROUNDS and (options.method == "auto" or not crowd.weight):
        fit, _ = fit_held_out(held_out.rows, search, held_out.judged, options.rounds, threads)
        held_out = replace(held_out, fit=fit)
    if crowd.weight:
        best = try_ridge(X, trial, at, options.rounds, threads).fit
        reliability = reliability_of(best.forecast, trial, best.calibration)
    else:
        found = try_all_groups(X, trial, at, spectrum, options, threads)
        why = f"ridge {ridge:g} predicts the labels of held-out groups nearly as well as any, and tells members apart"
        if found.at.ridge != ridge:
            why = f"ridge {found.at.ridge:g} tells groups with a label from groups near them; {ridge:g} does not"
        at, best = found.at, found.fit
        reliability = reliability_of(held_out.fit.forecast, search, held_out.fit.calibration)
    judgement = _judge(best, trial, options.threshold, threads)
    tried: dict[str, Any] = {
        "ridge": {f"{ridge:g}": likelihood for ridge, likelihood in likelihoods.items()},
        "likeness": round(likeness, 4),
        "reliability": reliability,
    }
    method = "discriminative"
    if options.method == "auto":
        compared = _compare(few, search, held_out, judgement, options, mean, threads)
        tried["explained"] = {name: round(value, 5) for name, value in compared.explained.items()}
        tried["owner_share"], tried["expected_gain"] = compared.owner_share, compared.expected_gain
        method, why = _pick(compared, calibrated=bool(best.calibration))
    owned, scores = judgement.owned, None
    if (judged or method) != "discriminative":
        found_by_it = _owners_by(judged or method, X, trial, options, mean, threads)
        owned, scores = places_of(best.fitted.score, found_by_it), found_by_it.data
    trust = trial_quality(best.fitted, best.forecast, trial, best.calibration, crowd, owned, threads, scores)
    choice = Choice(
        method, at.ridge, best.calibration, judgement.threshold, trial.most_members, why, tried, crowd, trust,
        _lowest_candidate(best, judgement, crowd),
    )  # fmt: skip
    return choice, at.whitener


def _lowest_candidate(best: Fit, judgement: Judgement, crowd: Crowd) -> float:
    """The posterior that candidates are above: of the highest expected F2, or F3 where members are alike."""
    if not best.calibration:
        return NO_CANDIDATES
    recall = CANDIDATE_RECALL_ALIKE + (CANDIDATE_RECALL - CANDIDATE_RECALL_ALIKE) * crowd.weight
    return min(selection.threshold_of(judgement.posterior, recall), judgement.threshold)


def _without_trial(spectrum: Spectrum, options: ImputeOptions, most_members: int) -> Chosen:
    """The choice where no group can be held out: what is given, else the usual."""
    ridge = USUAL_RIDGE if options.ridge is None else options.ridge
    threshold = USUAL_THRESHOLD if options.threshold is None else options.threshold
    why = "too few groups to hold any out: nothing was chosen by the data"
    return Chosen(Choice("discriminative", ridge, (), threshold, most_members, why), whitener_of(spectrum, ridge))


def _judge(best: Fit, trial: Trial, threshold: float | None, threads: int) -> Judgement:
    """The pairs of the trial that look owned; choose the threshold unless it is given."""
    posterior = posteriors_of(best.fitted, trial.Y1, trial.Y2, best.calibration, threads)
    if threshold is None:
        threshold = selection.threshold_of(posterior) if best.calibration else USUAL_THRESHOLD
    owned = (posterior > threshold) | best_pairs(best.fitted.score, trial.Y1, trial.Y2, threads)
    return Judgement(posterior, threshold, owned)


def _compare(
    X: sp.csr_matrix,
    trial: Trial,
    best: RidgeTrial,
    judgement: Judgement,
    options: ImputeOptions,
    mean: np.ndarray | None,
    threads: int,
) -> Comparison:
    """How much the owners of each method explain about the labels of held-out groups.

    trial, best: with held-out groups; judgement: of the trial in which all groups take part.
    """

    def explained_by(owners: sp.csr_matrix) -> float:
        return selection.explained(forecast(best.rows, trial, owners, threads, kinship=best.judged), trial)

    assert best.fit.forecast is not None  # groups are held out
    owned = _judge(best.fit, trial, options.threshold, threads).owned
    by_owners = explained_by(keep_pairs(best.fit.fitted.posterior, owned))
    explained = {"discriminative": max(selection.explained(best.fit.forecast, trial), by_owners)}
    for name in ("baseline", *EMBEDDINGS):
        explained[name] = explained_by(matrix_with_ones(_owners_by(name, X, trial, options, mean, threads)))
    of_all = max(selection.expected_f1(judgement.posterior, judgement.posterior >= 0), 1e-300)
    gain = selection.expected_f1(judgement.posterior, judgement.owned) / of_all - 1
    return Comparison(explained, round(float(judgement.owned.mean()), 5), round(gain, 5))


def _owners_by(
    name: str, X: sp.csr_matrix, trial: Trial, options: ImputeOptions, mean: np.ndarray | None, threads: int
) -> sp.csr_matrix:
    """The scores of the owners that a method without choices finds, labels x samples of the trial."""
    if name == "baseline":
        return sp.csr_matrix(spread_labels(trial.Y1, trial.Y2).T)
    chosen = options.embed_options(name)
    _, scores, _ = embed_and_assign(
        X, trial.Y1, trial.Y2, steps=chosen.steps, step_size=chosen.step_size, centred=name == "centred",
        mean=mean if name == "centred" else None, threads=threads,
    )  # fmt: skip
    return canonical(sp.csr_matrix(scores.T), "scores")


def _pick(found: Comparison, calibrated: bool) -> tuple[str, str]:
    """(The method that `auto` takes, why)."""
    if not calibrated:
        return "baseline", "no scorer predicts the labels of held-out groups: nothing tells members apart"
    winner, share, gain = best_method(found.explained), found.owner_share, found.expected_gain
    if winner != "baseline" and share >= MANY_OWNERS and gain < SMALL_GAIN:
        looks = f"{share:.0%} of pairs look owned, choosing them would change F1 by {gain:+.1%}"
        return "baseline", f"members of groups are alike: {looks}"
    why = f"its owners explain {found.explained[winner]:.1%} of what the rates of labels leave open"
    why += " about held-out groups"
    if winner != "baseline":
        why += f"; not splitting explains {found.explained['baseline']:.1%}"
    return winner, why


def best_method(explained: dict[str, float]) -> str:
    """The splitting method that explains most, or the baseline where it explains far more."""
    splitting = max((name for name in explained if name != "baseline"), key=lambda name: explained[name])
    if explained["discriminative"] >= (1 - CLEARLY_MORE) * explained[splitting]:
        splitting = "discriminative"  # it can give a label several owners, which what is explained does not reward
    return "baseline" if explained["baseline"] * FAR_MORE > max(explained[splitting], 0) else splitting
