"""The rounds of the discriminative method: posteriors and scores of all pairs that groups allow, in threads.

Holds no arithmetic (`_rounds_numba`), no calibration (`discriminative`) and nothing of a device (`device_rounds`).
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import _rounds_numba, device_rounds
from xpipe.eagle._posteriors_numba import Pairs
from xpipe.eagle._rounds_numba import Cells, Kinship, RoundSpace, Schedule
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle._whitened_numba import Whitened
from xpipe.eagle.device_rounds import OnDevice
from xpipe.eagle.device_rows import lay_out
from xpipe.eagle.kinship import kinship_of
from xpipe.eagle.label_offsets import LabelCells
from xpipe.eagle.lacking import blocks_of_labels, lay_out_block, sum_lacking
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.parts import in_parts, part_of
from xpipe.eagle.problem import columns_of
from xpipe.eagle.slopes import NO_POWERS, quarters_of
from xpipe.ground.backend import Backend
from xpipe.ground.machine import lent, usable_cores
from xpipe.ground.sparse import Triple, to_matrix, to_triple
from xpipe.grouping.groups import spread_labels

TOLERANCE = 1e-2  # a group of a label is settled when none of its posteriors moves by this much in a round
TOLERANCE_ALIKE = 1e-3  # the same where members are alike: posteriors of large groups are small, and move slowly


class Fitted(NamedTuple):
    """What the rounds found for every pair that a group allows; both labels x samples with the same pattern.

    posterior: the noisy-or of the scores. cells: sums of scores of groups, where they were asked for.
    """

    posterior: sp.csr_matrix
    score: sp.csr_matrix
    cells: LabelCells | None = None


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
    pairs = pairs_of(allowed, Y1, Y2)
    cells = _empty_cells(pairs, beside, powers)
    posterior, score = np.zeros(len(allowed.indices), np.float32), np.zeros(len(allowed.indices), np.float32)
    schedule = Schedule(rounds, TOLERANCE if beside is None else TOLERANCE_ALIKE)
    n_pairs = np.diff(allowed.indptr)
    queue = np.argsort(-n_pairs, kind="stable")[: np.count_nonzero(n_pairs)]  # the heaviest labels come first
    stays = np.ones(len(n_pairs), dtype=bool)  # on the CPU
    if backend is not None and backend.name == "gpu":
        stays = ~device_rounds.in_step(np.diff(pairs.groups.starts))
    if stays.any() or on_device is None:
        assert rows is not None  # only rows on a device stand in for them
        kinship = kinship or kinship_of(rows, pairs.members, most_members, threads)
        if backend is not None and not stays.all() and on_device is None:
            on_device = OnDevice(lay_out(backend.array_module, rows, pairs.members, kinship))
        _fit_on_cpu(queue[stays[queue]], pairs, rows, kinship, schedule, cells, posterior, score, threads)
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


def _fit_on_cpu(
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
            _rounds_numba.fit_labels(
                part_of(block, part), pairs, rows, kinship, schedule, space, cells, lacking, posterior, score
            )

    for block in blocks_of_labels(labels, cells.lacking, pairs.members):
        lacking, visits = lay_out_block(block, cells.lacking, pairs.members, rows.coordinates.shape[1])
        in_parts(work, threads)
        sum_lacking(visits, pairs.members, rows, kinship, lacking, cells, threads)


def _empty_cells(pairs: Pairs, beside: sp.csr_matrix | None, powers: np.ndarray) -> Cells:
    """Room for the sums of scores of groups."""
    n_labels = len(pairs.groups.starts) - 1
    lacking = Lists(np.zeros(n_labels + 1, np.int64), np.zeros(0, np.int32)) if beside is None else columns_of(beside)
    n_having = len(pairs.groups.items) if len(powers) else 0
    return Cells(
        lacking, quarters_of(powers), np.zeros((n_having, len(powers))), np.zeros((len(lacking.items), len(powers)))
    )


def _round_space(rows: Whitened) -> RoundSpace:
    """What one thread needs."""
    return RoundSpace(
        position=np.zeros(len(rows.influence), np.int32),
        dense=np.zeros(rows.n_features, np.float32),
        leading=np.zeros(rows.coordinates.shape[1], np.float32),
    )


def filled_labels(pairs: Triple) -> np.ndarray:
    """The labels (rows) that have pairs."""
    return np.flatnonzero(np.diff(pairs.indptr))


def pairs_of(pairs: Triple, Y1: sp.csr_matrix, Y2: sp.csr_matrix) -> Pairs:
    """The pairs (labels x samples) with groups of labels and samples of groups, as the kernels take them."""
    return Pairs(Lists(pairs.indptr, pairs.indices), columns_of(Y2), columns_of(Y1))
