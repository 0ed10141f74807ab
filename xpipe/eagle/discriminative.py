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

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _posteriors_numba, _rounds_numba, device_rounds
from xpipe.eagle._posteriors_numba import Calibration, Pairs
from xpipe.eagle._rounds_numba import LARGE_GROUP, Cells, Kinship, RoundSpace, Schedule
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.chances import Crowd, label_shifts, shifted
from xpipe.eagle.device_rounds import OnDevice
from xpipe.eagle.device_rows import lay_out
from xpipe.eagle.label_offsets import LabelCells, offsets_of
from xpipe.eagle.numbering import with_groups_in_order
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.problem import columns_of
from xpipe.eagle.slopes import NO_POWERS, quarters_of
from xpipe.ground.backend import Backend
from xpipe.ground.library_threads import one_thread_each
from xpipe.ground.machine import lent, usable_cores
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import entry_rows, keep_entries, with_ones
from xpipe.grouping.groups import spread_labels

TOLERANCE = 1e-2  # a group of a label is settled when none of its posteriors moves by this much in a round
TOLERANCE_ALIKE = 1e-3  # the same where members are alike: posteriors of large groups are small, and move slowly
MOST_KINSHIP = 1 << 26  # entries (256 MiB) of what leaves groups out of their own scores
MOST_MEMBERS = 1024  # of a group that is left out: the work grows with the third power
LEFT_OUT_AT_ONCE = 1 << 20  # entries of groups that are inverted together
PARTS_PER_THREAD = 4


class Fitted(NamedTuple):
    """What the rounds found for every pair that a group allows; both labels x samples with the same pattern.

    posterior: the noisy-or of the scores. cells: sums of scores of groups, where they were asked for.
    """

    posterior: sp.csr_matrix
    score: sp.csr_matrix
    cells: LabelCells | None = None


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
    labels, pairs = _filled_labels(scores), _pairs(scores, Y1, Y2)

    def work(part: slice) -> None:
        _posteriors_numba.calibrate_pairs(labels[part], pairs, scores.values, slope, offsets, posterior)

    _in_threads(work, threads)
    return posterior


def best_pairs(score: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, threads: int | None = None) -> np.ndarray:
    """Which pairs (labels x samples) have the highest score of a group for the label; bool, one per pair."""
    scores, best = to_triple(score), np.zeros(len(score.data), dtype=bool)
    labels, pairs = _filled_labels(scores), _pairs(scores, Y1, Y2)
    _in_threads(lambda part: _posteriors_numba.best_of_groups(labels[part], pairs, scores.values, best), threads)
    return best


def keep_pairs(pairs: sp.csr_matrix, kept: np.ndarray) -> sp.csr_matrix:
    """The pairs that are True in `kept`, as ones."""
    return to_matrix(with_ones(keep_entries(to_triple(pairs), kept)), pairs.shape[1])


def fit_posteriors(
    rows: Whitened | None,
    Y1: sp.csr_matrix,
    Y2: sp.csr_matrix,
    *,
    rounds: int = ImputeOptions.rounds,
    powers: np.ndarray = NO_POWERS,
    beside: sp.csr_matrix | None = None,
    kinship: Kinship | None = None,
    most_members: int | None = None,
    threads: int | None = None,
    backend: Backend | None = None,
    on_device: OnDevice | None = None,
) -> Fitted:
    """Posteriors and scores, labels x samples, of every pair that a group allows.

    rounds: at most. powers: of scores to add up per group, whole quarters, for groups that have each label and for
    those of `beside` (groups x labels). kinship: of the groups, where it is known already. most_members: the size of
    the largest groups that have no say in their own scores; by default as many as fit into the memory. backend: by
    default the CPU; labels of very many groups are there always. on_device: the rows, where a device has them already;
    `rows` may be None then, unless some label stays on the CPU.
    """
    threads = threads or usable_cores()
    allowed = to_triple(sp.csr_matrix(spread_labels(Y1, Y2).T))
    pairs = _pairs(allowed, Y1, Y2)
    cells = _empty_cells(pairs, beside, powers)
    posterior, score = np.zeros(len(allowed.indices), np.float32), np.zeros(len(allowed.indices), np.float32)
    schedule = Schedule(rounds, TOLERANCE if beside is None else TOLERANCE_ALIKE)
    n_pairs = np.diff(allowed.indptr)
    queue = np.argsort(-n_pairs, kind="stable")  # the heaviest labels come first
    stays = np.ones(len(queue), dtype=bool)  # on the CPU
    if backend is not None and backend.name == "gpu":
        stays = ~device_rounds.in_step(np.diff(pairs.groups.starts))
    if stays.any() or on_device is None:
        assert rows is not None  # only rows on a device stand in for them
        kinship = kinship or kinship_of(rows, pairs.members, most_members, threads)
        if backend is not None and not stays.all() and on_device is None:
            on_device = OnDevice(lay_out(backend.array_module, rows, pairs.members, kinship))
        _fit_in_threads(queue[stays[queue]], pairs, rows, kinship, schedule, cells, posterior, score, threads)
    if on_device is not None and not stays.all():
        device_rounds.fit_labels(on_device, np.flatnonzero(~stays), pairs, schedule, cells, posterior, score)
    n_samples = Y1.shape[0]
    return Fitted(
        to_matrix(allowed._replace(values=posterior), n_samples),
        to_matrix(allowed._replace(values=score), n_samples),
        LabelCells(pairs.groups.starts, cells.having_sums, cells.lacking.starts, cells.lacking_sums)
        if len(powers)
        else None,
    )


def _fit_in_threads(
    labels: np.ndarray,
    pairs: Pairs,
    rows: Whitened,
    kinship: Kinship,
    schedule: Schedule,
    cells: Cells,
    posterior: np.ndarray,
    score: np.ndarray,
    threads: int,
) -> None:
    """The rounds of some labels on the CPU; fills posterior, score and cells at these labels."""
    spare: SimpleQueue[RoundSpace] = SimpleQueue()
    for _ in range(threads):
        spare.put(_round_space(rows))

    def work(part: slice) -> None:
        with lent(spare) as space:
            _rounds_numba.fit_labels(labels[part], pairs, rows, kinship, schedule, space, cells, posterior, score)

    _in_threads(work, threads)


def _empty_cells(pairs: Pairs, beside: sp.csr_matrix | None, powers: np.ndarray) -> Cells:
    """Room for the sums of scores of groups."""
    n_labels = len(pairs.groups.starts) - 1
    lacking = Lists(np.zeros(n_labels + 1, np.int64), np.zeros(0, np.int32)) if beside is None else columns_of(beside)
    n_having = len(pairs.groups.items) if len(powers) else 0
    return Cells(
        lacking, quarters_of(powers), np.zeros((n_having, len(powers))), np.zeros((len(lacking.items), len(powers)))
    )


def kinship_of_groups(rows: Whitened, Y1: sp.csr_matrix, most_members: int | None, threads: int) -> Kinship:
    """What leaves the groups of a membership out of their own scores."""
    return kinship_of(rows, columns_of(Y1), most_members, threads)


def kinship_of(rows: Whitened, members: Lists, most_members: int | None, threads: int) -> Kinship:
    """What leaves groups of up to `most_members` out of their own scores."""
    sizes = np.diff(members.starts)
    areas = kinship_areas(sizes, most_members)
    starts = np.where(areas >= 0, np.cumsum(np.maximum(areas, 0)) - areas, -1)
    kinship = Kinship(starts, np.empty(int(np.maximum(areas, 0).sum()), np.float32))
    groups = np.arange(len(sizes))

    def work(part: slice) -> None:
        dense = np.zeros(rows.n_features, np.float32)
        _rounds_numba.measure_kinship(groups[part], members, rows, dense, kinship)
        for group in groups[part][(starts[part] >= 0) & (sizes[part] >= LARGE_GROUP)].tolist():
            along = rows.coordinates[members.items[members.starts[group] : members.starts[group + 1]]]
            kinship.values[starts[group] : starts[group] + sizes[group] ** 2] -= (along @ along.T).ravel()
        for size in np.unique(sizes[part][(starts[part] >= 0) & (sizes[part] > 0)]).tolist():
            same = starts[part][(sizes[part] == size) & (starts[part] >= 0)]
            for some in np.array_split(same, -(-len(same) * size**2 // LEFT_OUT_AT_ONCE)):
                places = some[:, None] + np.arange(size**2)
                kinship.values[places] = _leave_out(kinship.values[places].reshape(-1, size, size)).reshape(
                    len(some), -1
                )

    with one_thread_each():  # several BLAS threads would add in another order
        _in_threads(work, threads)
    return kinship


def kinship_areas(sizes: np.ndarray, most_members: int | None = None) -> np.ndarray:
    """How many numbers leave each group out of its own scores, by the sizes of groups; -1: the group is too large."""
    most_members = largest_kinship(sizes) if most_members is None else most_members
    return np.where(sizes <= most_members, sizes**2, -1)


def _leave_out(shares: np.ndarray) -> np.ndarray:
    """(I - H)^-1 of each H [groups, size, size]; what a direction adds to itself is bounded."""
    values, vectors = np.linalg.eigh(shares.astype(np.float64))
    inverse: np.ndarray = (vectors / (1 - np.clip(values, 0, _rounds_numba.MOST_OWN))[:, None, :]) @ np.swapaxes(
        vectors, 1, 2
    )
    return inverse.astype(np.float32)


def largest_kinship(sizes: np.ndarray) -> int:
    """The size of the largest groups that are left out of their own scores, when smaller groups come first."""
    by_size = np.sort(sizes[sizes > 0]).astype(np.int64)
    fits = (np.cumsum(by_size**2) <= MOST_KINSHIP) & (by_size <= MOST_MEMBERS)
    if fits.all():
        return int(by_size.max(initial=0))
    return int(by_size[~fits][0]) - 1


def _round_space(rows: Whitened) -> RoundSpace:
    """What one thread needs."""
    return RoundSpace(
        position=np.zeros(len(rows.influence), np.int32),
        dense=np.zeros(rows.n_features, np.float32),
        leading=np.zeros(rows.coordinates.shape[1], np.float32),
    )


def _in_threads(work: Callable[[slice], None], threads: int | None) -> None:
    """Call `work` with the parts of what there is to do: part k of n is every n-th item from item k on."""
    threads = threads or usable_cores()
    parts = PARTS_PER_THREAD * threads
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(part, None, parts) for part in range(parts)]))


def _filled_labels(pairs: Triple) -> np.ndarray:
    """The labels (rows) that have pairs."""
    return np.flatnonzero(np.diff(pairs.indptr))


def _pairs(pairs: Triple, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> Pairs:
    """The pairs (labels x samples) with groups of labels and samples of groups, as the kernels take them."""
    return Pairs(Lists(pairs.indptr, pairs.indices), columns_of(Y2), columns_of(Y1))
