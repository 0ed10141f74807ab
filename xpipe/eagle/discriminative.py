"""The discriminative method: ridge regression against all negatives, and noisy-or posteriors, in alternating rounds.

Holds no whitening (`whitening`), no choice (`choice`) and no order of the steps (`plan`). Per label, with q the chance
of owning it:

    s = ridge regression on q, with an intercept; every sample of other groups is a negative
    s = q + (I - H)^-1 (s - q)                    a group has no say in its own scores: other groups must have one
    q_i = s_i / (1 - prod_group (1 - s_i'))       noisy-or: some member of the group owns the label

A round goes from group to group, so that each knows what those before it have found. The noisy-or takes scores for
chances. So after these rounds a `Calibration` turns scores into chances; it knows how often groups have a label that
had no say in their scores. h_i is the hazard of a member, members are independent:

    h_i        = e^a s_i^slope                    a: by the number of groups with the label; where members are alike,
                                                  each label has its own (`label_offsets`)
    chance(h)  = 1 - exp(-h)
    q_i        = chance(h_i) / chance(sum of h over the group)

No group has a say in its own scores, so scores are comparable with those of held-out groups. In groups that are too
large for that, only the sample itself has no say in its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _posteriors_numba
from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.chances import Crowd, label_shifts, shifted
from xpipe.eagle.device_rounds import OnDevice
from xpipe.eagle.label_offsets import offsets_of
from xpipe.eagle.numbering import with_groups_in_order
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.parts import in_parts, part_of
from xpipe.eagle.rounds import Fitted, filled_labels, fit_posteriors, pairs_of
from xpipe.eagle.slopes import NO_POWERS
from xpipe.ground.backend import Backend
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import entry_rows, keep_entries, with_ones


class ChanceSums(NamedTuple):
    """Sums of the chances of pairs: of owners, and of all that groups allow. shift: per label, see `chances`."""

    owned: float
    total: float
    shift: np.ndarray


class Owned(NamedTuple):
    """What a chunk of labels found.

    owners: posteriors, samples x labels. candidates: posteriors of the most likely other pairs. chances: of all pairs
    that groups allow; None where posteriors are not calibrated.
    """

    owners: sp.csr_matrix
    candidates: sp.csr_matrix
    chances: ChanceSums | None


def find_owners(
    rows: Whitened | None,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    calibration: Sequence[float] = (),
    beside: sp.csr_matrix | None = None,
    crowd: Crowd | None = None,
    owners: str = ImputeOptions.owners,
    threshold: float = 0.5,
    lowest: float = 1.0,
    rounds: int = ImputeOptions.rounds,
    kinship: Kinship | None = None,
    most_members: int | None = None,
    threads: int | None = None,
    backend: Backend | None = None,
    on_device: OnDevice | None = None,
) -> Owned:
    """The posteriors of the owners and of the candidates, and sums of the chances of all pairs.

    The best sample of every group owns the label, so that no threshold leaves a label without an owner. Of equal
    samples the one with the lowest number is the best. The numbers of groups, and empty groups, change nothing.
    calibration: the fields of a `Calibration`. beside: where it has a spread, the groups near those with a label that
    lack it, groups x labels. kinship: of the groups of Y1, where it is known already. lowest: pairs with a posterior
    above it that are no owners are candidates; there are none where owners are one per group. backend, on_device: as
    in `fit_posteriors`.
    """
    Y1, Y2, old_numbers = with_groups_in_order(Y1, Y2)  # the rounds go from group to group
    if on_device is not None and on_device.groups is not None:
        on_device = on_device._replace(groups=on_device.groups[old_numbers])
    powers = np.array(calibration[1:2]) if beside is not None else NO_POWERS
    fitted = fit_posteriors(
        rows, Y1, Y2, rounds=rounds, most_members=most_members, threads=threads, powers=powers,
        beside=None if beside is None else sp.csr_matrix(beside[old_numbers]),
        kinship=None if kinship is None else kinship._replace(starts=kinship.starts[old_numbers]),
        backend=backend, on_device=on_device,
    )  # fmt: skip
    posterior = posteriors_of(fitted, Y1, Y2, calibration, threads)
    kept, likely = best_pairs(fitted.score, Y1, Y2, threads), np.zeros(len(posterior), dtype=bool)
    if owners == "posterior":
        kept |= posterior > threshold
        likely = (posterior > lowest) & ~kept
    sums = _chance_sums(fitted.score, posterior, kept, Y2, crowd or Crowd((), (), 0.0)) if len(calibration) else None
    pairs = to_triple(fitted.score)._replace(values=posterior)
    return Owned(_by_sample(pairs, kept, Y1.shape[0]), _by_sample(pairs, likely, Y1.shape[0]), sums)


def _by_sample(pairs: Triple, kept: np.ndarray, n_samples: int) -> sp.csr_matrix:
    """The pairs (labels x samples) that are True in `kept`, as samples x labels."""
    return canonical(sp.csr_matrix(to_matrix(keep_entries(pairs, kept), n_samples).T), "scores")


def _chance_sums(
    pairs: sp.csr_matrix, posterior: np.ndarray, kept: np.ndarray, Y2: sp.csr_matrix, crowd: Crowd
) -> ChanceSums:
    """Sums of chances over the owners and over all pairs."""
    labels = entry_rows(pairs.indptr)
    shift = label_shifts(posterior, labels, np.asarray(Y2.getnnz(axis=0)), crowd)
    chances = shifted(posterior, shift[labels])
    return ChanceSums(float(chances[kept].sum()), float(chances.sum()), shift)


def posteriors_of(
    fitted: Fitted, Y1: sp.csr_matrix, Y2: sp.csr_matrix, calibration: Sequence[float], threads: int | None = None
) -> np.ndarray:
    """The posterior of every pair, float32: calibrated, or the noisy-or where there is no calibration.

    Where the calibration has a spread, `fitted` must have cells of its slope.
    """
    if not len(calibration):
        noisy_or: np.ndarray = fitted.posterior.data
        return noisy_or
    numbers = Calibration(*(float(number) for number in calibration))
    offsets = offsets_of(numbers, np.asarray(Y2.getnnz(axis=0)), fitted.cells)
    return calibrated_posteriors(fitted.score, Y1, Y2, numbers.slope, offsets, threads)


def calibrated_posteriors(
    score: sp.csr_matrix,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    slope: float,
    offsets: np.ndarray,
    threads: int | None = None,
) -> np.ndarray:
    """The posterior of every pair by hazards e^offset s^slope, float32. offsets: of each label."""
    posterior = np.zeros(len(score.data), np.float32)
    scores = to_triple(score)
    labels, pairs = filled_labels(scores), pairs_of(scores, Y1, Y2)

    def work(part: slice) -> None:
        _posteriors_numba.calibrate_pairs(part_of(labels, part), pairs, scores.values, slope, offsets, posterior)

    in_parts(work, threads)
    return posterior


def best_pairs(score: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, threads: int | None = None) -> np.ndarray:
    """Which pairs (labels x samples) have the highest score of a group for the label; bool, one per pair."""
    scores, best = to_triple(score), np.zeros(len(score.data), dtype=bool)
    labels, pairs = filled_labels(scores), pairs_of(scores, Y1, Y2)

    def work(part: slice) -> None:
        _posteriors_numba.best_of_groups(part_of(labels, part), pairs, scores.values, best)

    in_parts(work, threads)
    return best


def keep_pairs(pairs: sp.csr_matrix, kept: np.ndarray) -> sp.csr_matrix:
    """The pairs that are True in `kept`, as ones."""
    return to_matrix(with_ones(keep_entries(to_triple(pairs), kept)), pairs.shape[1])
