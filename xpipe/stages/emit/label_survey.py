"""Labels at a worker: read from their source, counted, and renumbered without those that never occur in training.

Holds no writing of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished, Unit
from xpipe.ground.sparse import Triple, to_matrix, to_triple
from xpipe.ground.sparse_rows import keep_entries, kept_pointers, sort_rows
from xpipe.grouping.groups import spread_labels
from xpipe.stages.arrays import read_array, write_array
from xpipe.stages.emit.facts import EmitInputs, LabelSurvey
from xpipe.stages.matrices import MatrixRef, load_group_matrix, open_matrix

FREQUENCY = "survey/frequency.npy"
ORDER = "survey/order.npy"  # of the labels of heads/, where the params ask for another than the original one
PERCENTILES = (50, 90, 95, 99, 100)


class LabelRows:
    """Training or held-out labels of a split by row, from any source."""

    def __init__(self, inputs: EmitInputs, split: str):
        self.group_labels: sp.csr_matrix | None = None
        if split == "train":
            self.matrix = open_matrix(inputs.train_labels.matrix, "train")
            if inputs.train_labels.group_labels is not None:
                self.group_labels = load_group_matrix(inputs.train_labels.group_labels)
        else:
            assert inputs.held_out_labels is not None, "a split without labels is not emitted"
            self.matrix = open_matrix(inputs.held_out_labels, split)

    def labels_of(self, rows: Triple) -> Triple:
        """The labels of some rows of `matrix`."""
        if self.group_labels is None:
            return rows
        return to_triple(spread_labels(to_matrix(rows, self.matrix.n_columns), self.group_labels))

    def parts(self) -> Iterator[Triple]:
        """The labels of each part of the rows, in order."""
        for _, triple in self.matrix.parts():
            yield self.labels_of(triple)


def survey_labels(folder: str, unit: Unit, shared: EmitInputs) -> Finished[LabelSurvey]:
    """Count the labels before any row is written: which of them are kept, how large k is, what is filtered."""
    frequency, set_sizes = _count_train(shared)
    kept = frequency > 0
    held_out = {split: _count_held_out(shared, split, kept) for split in shared.splits if split != "train"}
    empty_rows = {"train": int((set_sizes == 0).sum()), **{split: found.empty for split, found in held_out.items()}}
    if shared.params.drops_rows:
        set_sizes = set_sizes[set_sizes > 0]
    rows = {"train": len(set_sizes)}
    for split, found in held_out.items():
        rows[split] = found.rows - found.empty if shared.params.drops_rows else found.rows
    survey = LabelSurvey(
        rows=rows,
        labels_kept=int(kept.sum()),
        labels_filtered=int((~kept).sum()),
        k=int(set_sizes.max()) if len(set_sizes) else 0,
        k_percentiles={str(p): float(np.percentile(set_sizes, p)) if len(set_sizes) else 0.0 for p in PERCENTILES},
        labels_per_row=round(float(set_sizes.mean()), 4) if len(set_sizes) else 0.0,
        unseen={split: found.unseen for split, found in held_out.items()},
        empty_rows=empty_rows,
        drops_empty_rows=shared.params.drops_rows,
        candidates=0 if shared.candidates is None else count_candidates(shared.candidates),
    )
    return Finished((write_array(folder, FREQUENCY, frequency),), survey)


def _count_train(inputs: EmitInputs) -> tuple[np.ndarray, np.ndarray]:
    """(how often each label occurs in training, how many labels each training row has)."""
    frequency = np.zeros(inputs.n_labels, dtype=np.int64)
    sizes: list[np.ndarray] = []
    for labels in LabelRows(inputs, "train").parts():
        frequency += np.bincount(labels.indices, minlength=inputs.n_labels)
        sizes.append(np.diff(labels.indptr))
    return frequency, np.concatenate(sizes) if sizes else np.zeros(0, dtype=np.int64)


def count_candidates(where: MatrixRef) -> int:
    """How many candidates there are. All of their labels are kept: a label of a group always has an owner."""
    return sum(len(triple.indices) for _, triple in open_matrix(where, "train").parts())


class HeldOutCounts(NamedTuple):
    """Counts of a held-out split. empty: rows without a kept label. unseen: occurrences of filtered labels."""

    rows: int
    empty: int
    unseen: int


def _count_held_out(inputs: EmitInputs, split: str, kept: np.ndarray) -> HeldOutCounts:
    """Count the labels of a held-out split. kept: bool per label."""
    rows, empty, unseen = 0, 0, 0
    for labels in LabelRows(inputs, split).parts():
        left = np.diff(kept_pointers(labels.indptr, kept[labels.indices]))
        rows += labels.n_rows
        empty += int((left == 0).sum())
        unseen += int((~kept[labels.indices]).sum())
    return HeldOutCounts(rows, empty, unseen)


@lru_cache(maxsize=4)
def kept_labels(folder: str, reordered: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(original numbers, frequencies) of the kept labels, in the order of their new numbers.

    reordered: whether the new numbers follow the stored order instead of the original one.
    """
    frequency = read_array(folder, FREQUENCY)
    original = np.flatnonzero(frequency > 0)
    if reordered:
        original = original[read_array(folder, ORDER)]
    return original, frequency[original]


@lru_cache(maxsize=4)
def label_map(folder: str, reordered: bool = False) -> np.ndarray:
    """New number of each original label; -1 for the filtered ones."""
    original, _ = kept_labels(folder, reordered)
    numbers = np.full(len(read_array(folder, FREQUENCY)), -1, dtype=np.int32)
    numbers[original] = np.arange(len(original))
    return numbers


def renumber_labels(labels: Triple, numbers: np.ndarray) -> Triple:
    """The labels under their new numbers, ascending in every row, without filtered ones. numbers: see `label_map`."""
    mapped = numbers[labels.indices]
    renumbered = keep_entries(labels._replace(indices=mapped), mapped >= 0)
    if (np.diff(numbers[numbers >= 0]) < 0).any():  # another order than the labels had
        renumbered = sort_rows(renumbered)
    return renumbered
