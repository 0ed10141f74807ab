"""Rows of the emitted datasets at a worker: labels renumbered, features normalised, rows shuffled, files written.

Holds no file format: that is `formats.parquet_writing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.errors import StageError
from xpipe.formats.parquet_writing import write_dataset_part, write_label_embedding
from xpipe.ground import files
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, normalise_rows
from xpipe.ground.sparse_rows import slice_rows, take_rows
from xpipe.stages.emit.facts import EmitFacts, EmitInputs
from xpipe.stages.emit.label_survey import LabelRows, label_map, renumber_labels
from xpipe.stages.emitted_paths import label_vectors_path, rows_path
from xpipe.stages.matrices import MatrixRef, open_matrix
from xpipe.stages.row_parts import SAMPLE, open_rows

TREE_ROW_GROUP = 65536  # rows of a Parquet row group in tree/; that of heads/ is a parameter


@dataclass(frozen=True)
class DatasetPart(Unit):
    """One file of tree/ or heads/: `rows` rows of a split from `start` on, in the order of the emitted rows."""

    dataset: str
    split: str
    index: int
    start: int
    rows: int

    @property
    def is_shuffled(self) -> bool:
        """Whether its rows are in shuffled order."""
        return self.dataset == "heads" and self.split == "train"


@dataclass(frozen=True)
class VectorsPart(Unit):
    """Part `index` of the label vectors; its size is in labels."""

    index: int


class EmittedRows(NamedTuple):
    """Rows as they are emitted. candidates: None where the data has none."""

    samples: np.ndarray
    features: Triple
    labels: Triple
    candidates: Triple | None


def emitted_rows(folder: str, inputs: EmitInputs, split: str, rows: np.ndarray, reordered: bool = False) -> EmittedRows:
    """The rows asked for, with renumbered labels. Rows without labels are left out where the params say so."""
    source = LabelRows(inputs, split)
    samples, features = open_matrix(inputs.features, split).take(rows)
    label_samples, stored_labels = source.matrix.take(rows)
    if not np.array_equal(samples, label_samples):
        raise StageError(f"features and labels of split {split} are not of the same samples", fix="xpipe clean --all")
    numbers = label_map(folder, reordered)
    labels = renumber_labels(source.labels_of(stored_labels), numbers)
    candidates = _candidates(inputs, split, rows, numbers)
    if inputs.params.drops_rows:
        keep = np.flatnonzero(np.diff(labels.indptr) > 0)
        samples, features, labels = samples[keep], take_rows(features, keep), take_rows(labels, keep)
        candidates = None if candidates is None else take_rows(candidates, keep)
    return EmittedRows(samples, features, labels, candidates)


def _candidates(inputs: EmitInputs, split: str, rows: np.ndarray, numbers: np.ndarray) -> Triple | None:
    """The candidates of rows, renumbered; held-out rows have none, but the column is there for every split."""
    if inputs.candidates is None:
        return None
    if split != "train":
        return Triple(np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    return renumber_labels(open_matrix(inputs.candidates, split).take(rows)[1], numbers)


def write_dataset_parts(
    folder: str, units: Sequence[DatasetPart], shared: EmitFacts
) -> Iterator[tuple[DatasetPart, Finished[None]]]:
    """Write files of tree/ and heads/. Rows of all shuffled units are read together, in one pass over the inputs."""
    inputs = shared.inputs
    for unit in units:
        if not unit.is_shuffled:
            yield from _write_files(folder, [unit], shared, np.arange(unit.start, unit.start + unit.rows))
    shuffled = [unit for unit in units if unit.is_shuffled]
    if not shuffled:
        return
    order = permutation(open_matrix(inputs.features, "train").n_rows, inputs.seed, "emit", "heads")
    wanted = [order[unit.start : unit.start + unit.rows] for unit in shuffled]
    if not inputs.params.drops_rows:
        yield from _write_files(folder, shuffled, shared, np.concatenate(wanted))
    else:  # dropped rows would move the cuts between files gathered together
        for unit, rows in zip(shuffled, wanted, strict=True):
            yield from _write_files(folder, [unit], shared, rows)


def _write_files(
    folder: str, units: Sequence[DatasetPart], shared: EmitFacts, rows: np.ndarray
) -> Iterator[tuple[DatasetPart, Finished[None]]]:
    """Read the rows of some units of one dataset and split together, and cut them into the files of the units."""
    inputs, dataset, split = shared.inputs, units[0].dataset, units[0].split
    reordered = inputs.params.reorders_labels(dataset)
    samples, features, labels, candidates = emitted_rows(folder, inputs, split, rows, reordered)
    if dataset == "tree":
        features = normalise_rows(features)
    beside = ids_of(inputs, split, rows, samples)
    start = 0
    for unit in units:
        stop = len(samples) if len(units) == 1 else start + unit.rows
        path = rows_path(dataset, split, unit.index)
        written = write_dataset_part(
            files.join(folder, path),
            samples[start:stop],
            slice_rows(features, start, stop),
            slice_rows(labels, start, stop),
            n_features=inputs.n_features,
            n_labels=shared.survey.labels_kept,
            row_group=inputs.params.row_group if dataset == "heads" else TREE_ROW_GROUP,
            candidates=None if candidates is None else slice_rows(candidates, start, stop),
            beside={name: beside.column(name).slice(start, stop - start) for name in beside.schema.names},
        )
        yield unit, Finished((FileEntry(path, dataset=dataset, split=split, **written),), None)
        start = stop


def ids_of(inputs: EmitInputs, split: str, rows: np.ndarray, samples: np.ndarray) -> pa.Table:
    """The ids and groups of rows that are emitted; without columns where the data has none.

    rows: those that were asked for. samples: those of them that are emitted, in the same order.
    """
    if inputs.ids is None:
        return pa.table({})
    found = open_rows(inputs.ids, split).take(rows)
    if len(samples) < len(rows):  # rows without labels are left out
        found = found.filter(pa.array(np.isin(found.column(SAMPLE).to_numpy(), samples)))
    if not np.array_equal(found.column(SAMPLE).to_numpy(), samples):
        raise StageError(f"ids and features of split {split} are not of the same samples", fix="xpipe clean --all")
    return found.drop_columns([SAMPLE])


def write_label_vectors(folder: str, unit: VectorsPart, shared: MatrixRef) -> Finished[None]:
    """Write one file of label vectors: those of kept labels, under their new numbers. shared: the stored vectors."""
    stored = open_matrix(shared, "labels")
    labels, rows = stored.part(unit.index)
    numbers = label_map(folder)[labels]
    kept = np.flatnonzero(numbers >= 0)
    path = label_vectors_path(unit.index)
    written = write_label_embedding(files.join(folder, path), numbers[kept], take_rows(rows, kept), stored.n_columns)
    return Finished((FileEntry(path, **written),), None)
