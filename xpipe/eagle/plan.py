"""The plan of every method: what is chosen once, what is done per chunk of labels, and what travels between the two.

Holds no arithmetic, no threads and no files. `impute` carries the plan out in this process, with one chunk that holds
all labels. Stage assign carries it out on a cluster, with many chunks:

    1. decide         once; from all groups, and rows of some samples
           discriminative, auto: ridge, calibration, threshold; auto: the method        (`choice`)
       gives a Decision, which travels to every chunk
    2. assign_chunk   once per chunk of labels; from the groups that carry them, and the rows of their samples
           discriminative: whiten, rounds, posteriors, threshold, owners                (`discriminative`)
                           where samples are in several chunks, the caller may store their coordinates before
           eagle0, eagle, centred: embed, then the nearest sample of each group         (`embedding`, `assignment`)
           baseline: every label of a group to each of its samples
           then: no label is lost                                                       (`ownership`)
       gives the scores of the owners, samples x labels of the chunk; discriminative: also those of candidates
    3. the caller joins the chunks

How labels are cut into chunks changes no byte of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from xpipe.eagle._rounds_numba import Kinship
from xpipe.eagle.assignment import assign, embed_and_assign
from xpipe.eagle.choice import EMBEDDINGS, Choice, choose
from xpipe.eagle.device_rounds import OnDevice, in_step
from xpipe.eagle.device_rows import DeviceRows, bytes_needed, keeper, lay_out
from xpipe.eagle.discriminative import ChanceSums, Owned, find_owners
from xpipe.eagle.kinship import kinship_areas
from xpipe.eagle.near_groups import beside
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.ownership import check_owners
from xpipe.eagle.problem import as_ones, columns_of
from xpipe.eagle.ridge import USUAL_RIDGE
from xpipe.eagle.trust import TrialQuality
from xpipe.eagle.whitening import Whitener, whiten
from xpipe.ground.backend import Backend
from xpipe.grouping.groups import spread_labels


@dataclass(frozen=True)
class Shared:
    """All samples and groups, of which every chunk of labels takes some. row_lengths: gives the entries of each row.

    key: what they are, and what was decided about them; equal keys mean the same numbers.
    """

    key: tuple[str, ...]
    membership: sp.csr_matrix
    row_lengths: Callable[[], np.ndarray]


class FeatureRows(Protocol):
    """Where a plan takes feature rows from: a matrix in memory, or a store.

    scaled: times the power of two, the same for all rows, that brings their values to 1 at most.
    """

    def take(self, samples: np.ndarray | None, *, scaled: bool) -> sp.csr_matrix:
        """The rows of these samples; None: of all samples."""
        ...

    def mean(self, *, scaled: bool) -> np.ndarray:
        """The mean row of all samples, float64."""
        ...

    def coordinates(self, samples: np.ndarray | None) -> np.ndarray | None:
        """The coordinates of these samples along the directions of the decision's whitener, where they are stored."""
        ...

    def kinship(self, groups: np.ndarray | None) -> Kinship | None:
        """What leaves these groups out of their own scores, with the decision's whitener, where it is stored."""
        ...

    def shared(self) -> Shared | None:
        """What a device can keep from chunk to chunk, where there are several chunks."""
        ...


@dataclass(frozen=True)
class Decision:
    """What travels to every chunk of labels. choice, whitener: of `discriminative` and `auto`.

    near: the groups near each group, where every label has a calibration of its own; below 0: none.
    """

    options: ImputeOptions
    method: str  # never "auto"
    choice: Choice | None = None
    whitener: Whitener | None = None
    near: np.ndarray | None = None


@dataclass(frozen=True)
class Chunk:
    """Some labels, and the groups that carry them: Y1 (samples x groups), Y2 (groups x labels of the chunk).

    samples, groups: the numbers of the rows and columns of Y1, ascending; None: all. Where `Decision.near` is given,
    the chunk has the groups near those that carry its labels, too.
    """

    samples: np.ndarray | None
    Y1: sp.csr_matrix
    Y2: sp.csr_matrix
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Assigned:
    """The owners of the labels of a chunk.

    scores: samples x labels; an entry is an owner. objective: after 0..steps steps, where the method has one. chances:
    sums over pairs, where the method gives calibrated chances. candidates: chances of the most likely pairs that are no
    owners, where the method has them.
    """

    scores: sp.csr_matrix
    objective: np.ndarray | None = None
    chances: ChanceSums | None = None
    candidates: sp.csr_matrix | None = None


def needs_mean(options: ImputeOptions) -> bool:
    """Whether the plan will ask for the mean row of all samples."""
    return options.method in ("centred", "auto")


def decide(
    options: ImputeOptions, features: FeatureRows, Y1: sp.csr_matrix, Y2: sp.csr_matrix, threads: int
) -> Decision:
    """Make the choices of the method, if it has any, from all groups."""
    if not options.chooses:
        return Decision(options, options.method)
    mean = features.mean(scaled=True) if needs_mean(options) else None
    choice, whitener, near = choose(
        lambda samples: features.take(samples, scaled=True), Y1, Y2, options, mean=mean, threads=threads
    )
    return Decision(options, choice.method, choice, whitener, near if _calibrates_labels(choice) else None)


def _calibrates_labels(choice: Choice) -> bool:
    """Whether every label has a calibration of its own, which needs groups near those that carry it."""
    return choice.method == "discriminative" and bool(choice.calibration)


def judge(
    options: ImputeOptions, features: FeatureRows, Y1: sp.csr_matrix, Y2: sp.csr_matrix, threads: int
) -> TrialQuality | None:
    """How good the owners of a method without choices look in a trial; None where that is not known.

    The trial is that of `discriminative` with its usual ridge. It changes no owner.
    """
    if options.method not in ("baseline", *EMBEDDINGS):
        return None
    trial = ImputeOptions("discriminative", options.steps, options.step_size, ridge=USUAL_RIDGE, seed=options.seed)
    mean = features.mean(scaled=True) if needs_mean(options) else None
    return choose(
        lambda samples: features.take(samples, scaled=True), Y1, Y2, trial, mean=mean, judged=options.method,
        threads=threads,
    ).choice.trust  # fmt: skip


def assign_chunk(
    decision: Decision,
    features: FeatureRows,
    chunk: Chunk,
    *,
    threads: int,
    embedding: sp.csr_matrix | None = None,
    backend: Backend | None = None,
) -> Assigned:
    """Find the owners of the labels of a chunk. embedding: of these labels, where it is stored already.

    Raises StageError where a label is lost or a group does not allow an owner; this would be a mistake in xpipe.
    """
    assigned = _assign(decision, features, chunk, threads, embedding, backend)
    Y1, Y2 = as_ones(chunk.Y1, "membership (Y1)"), as_ones(chunk.Y2, "group_labels (Y2)")
    check_owners(assigned.scores, Y1, Y2, decision.method)
    return assigned


def _assign(
    decision: Decision,
    features: FeatureRows,
    chunk: Chunk,
    threads: int,
    embedding: sp.csr_matrix | None,
    backend: Backend | None,
) -> Assigned:
    """The owners by the method that was decided on."""
    method, Y1, Y2 = decision.method, chunk.Y1, chunk.Y2
    if method == "baseline":
        return Assigned(spread_labels(Y1, Y2))
    if method == "discriminative":
        found = _discriminative(decision, features, chunk, threads, backend)
        return Assigned(found.owners, chances=found.chances, candidates=found.candidates)
    X = features.take(chunk.samples, scaled=False)
    if embedding is not None:
        return Assigned(assign(X, Y1, Y2, embedding, threads=threads, return_scores=True, backend=backend)[1])
    centred, chosen = method == "centred", decision.options.embed_options(method)
    _, scores, objective = embed_and_assign(
        X, Y1, Y2, steps=chosen.steps, step_size=chosen.step_size, centred=centred,
        mean=features.mean(scaled=False) if centred else None, trace=True, threads=threads, backend=backend,
    )  # fmt: skip
    return Assigned(scores, np.asarray(objective, dtype=np.float64))


def _discriminative(
    decision: Decision, features: FeatureRows, chunk: Chunk, threads: int, backend: Backend | None
) -> Owned:
    """Posteriors of the owners by the discriminative method."""
    options, choice, whitener = decision.options, decision.choice, decision.whitener
    assert choice is not None  # `decide` made both
    assert whitener is not None
    on_device, rows, kinship = _kept_on_device(decision, features, chunk, threads, backend), None, None
    if on_device is None or not in_step(np.asarray(chunk.Y2.getnnz(axis=0))).all():
        known = features.coordinates(chunk.samples)
        rows = whiten(features.take(chunk.samples, scaled=True), whitener, threads, known)  # plain rows are freed here
        kinship = features.kinship(chunk.groups)
    return find_owners(
        rows, chunk.Y1, chunk.Y2, calibration=choice.calibration, beside=_beside(decision.near, chunk),
        crowd=choice.crowd, owners=options.owners, threshold=choice.threshold, lowest=choice.lowest,
        rounds=options.rounds, kinship=kinship, most_members=choice.most_members, threads=threads, backend=backend,
        on_device=on_device,
    )  # fmt: skip


def _kept_on_device(
    decision: Decision, features: FeatureRows, chunk: Chunk, threads: int, backend: Backend | None
) -> OnDevice | None:
    """All rows and groups on the device of this process, uploaded by its first chunk; None where they do not fit.

    None also on the CPU, and where one chunk has all labels: then nothing would be uploaded twice.
    """
    shared = features.shared() if backend is not None and backend.name == "gpu" else None
    if shared is None or chunk.samples is None or chunk.groups is None:
        return None
    assert backend is not None
    assert decision.choice is not None
    assert decision.whitener is not None
    xp, whitener = backend.array_module, decision.whitener
    membership, most_members = shared.membership, decision.choice.most_members

    def n_bytes() -> int:
        per_sample = np.asarray(membership.getnnz(axis=1))
        n_entries = int(((shared.row_lengths() + 1) * per_sample).sum())  # 1: that of the mean
        areas = kinship_areas(np.asarray(membership.getnnz(axis=0)), most_members)
        rank = whitener.directions.shape[1] + 1
        n_kin = int(np.maximum(areas, 0).sum())
        return bytes_needed(n_entries, int(per_sample.sum()), len(per_sample), rank, n_kin)

    def make() -> DeviceRows:
        everything = np.arange(membership.shape[0])
        rows = whiten(features.take(None, scaled=True), whitener, threads, features.coordinates(everything))
        kinship = features.kinship(np.arange(membership.shape[1]))
        assert kinship is not None  # it is stored wherever rows are shared
        return lay_out(xp, rows, columns_of(membership), kinship)

    kept = keeper.keep(xp, shared.key, n_bytes, make)
    return None if kept is None else OnDevice(kept, chunk.samples, chunk.groups)


def _beside(near: np.ndarray | None, chunk: Chunk) -> sp.csr_matrix | None:
    """The groups of a chunk that lack a label and are near a group with it, groups x labels."""
    if near is None:
        return None
    if chunk.groups is not None:
        here = np.full(len(near) + 1, -1, dtype=np.int32)  # the last place stands for no group, -1
        here[chunk.groups] = np.arange(len(chunk.groups), dtype=np.int32)
        near = here[near[chunk.groups]]
    return beside(near, chunk.Y2)
