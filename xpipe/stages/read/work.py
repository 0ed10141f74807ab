"""Rows of input files, one part at a time, at a worker: parsed by byte range, fitted together, written as parts.

Parsing is `formats`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.formats.fitting import Shape
from xpipe.formats.parts import slice_rows, take_rows
from xpipe.formats.source import Reject
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, to_triple, without_columns
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.loading import (
    load_chosen_rows,
    load_emitted,
    load_group_ids,
    load_matrix,
    load_offsets,
    parse_whole_text,
)
from xpipe.stages.read.scanning import ByteRanges, ChosenRows, Reading, ScannedFile


@dataclass(frozen=True)
class ScannedData:
    """All files after the scan, and the shape on which they agree."""

    reading: Reading
    files: tuple[ScannedFile, ...]
    shape: Shape


@dataclass(frozen=True)
class RowRange:
    """The rows of part `index` of a matrix."""

    index: int
    start: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.count


@dataclass(frozen=True)
class Part(Unit):
    """One part of all matrices of a split; its size is in rows of the input files."""

    split: str
    rows: RowRange


@dataclass(frozen=True)
class PartCounts:
    """What is in a part: entries of the matrices, empty rows, and rows that were left out."""

    features: int
    labels: int
    rows_without_features: int
    rows_without_labels: int
    rejected: int


class FileRows(NamedTuple):
    """What one file gives for a part: matrices by name, row numbers kept, and rejected rows with the file's name."""

    matrices: dict[str, Triple]
    samples: np.ndarray
    rejects: list[tuple[str, Reject]]


def cut_rows(n_rows: int, part_rows: int) -> list[RowRange]:
    """Consecutive parts of `part_rows` rows, the last one shorter; one empty part where there are no rows."""
    starts = range(0, max(n_rows, 1), part_rows)
    return [RowRange(index, start, min(part_rows, n_rows - start)) for index, start in enumerate(starts)]


def parts_of(split: str, n_rows: int, part_rows: int) -> list[Part]:
    return [Part(f"{split}-{rows.index:05d}", rows.count, split, rows) for rows in cut_rows(n_rows, part_rows)]


def read_part(folder: str, unit: Part, shared: ScannedData) -> Finished[PartCounts]:
    """Read one part from every file of its split, keep the rows all of them have, and write the artifacts' parts."""
    reading, split, rows = shared.reading, unit.split, unit.rows
    found = [
        read_rows(folder, file, rows, reading, reading.params.on_bad_row)
        for file in shared.files
        if file.split == split and file.role != "group_labels"
    ]
    kept = reduce(_common_rows, [one.samples for one in found])
    entries = []
    filled: dict[str, int] = {}  # entries of each matrix
    empty: dict[str, int] = {}  # rows without any
    for name, triple in _kept_matrices(found, kept, split, shared):
        artifact = "held_out_labels" if name == "labels" and shared.shape.n_groups is not None else name
        entries.append(write_matrix_part(folder, artifact, split, rows.index, kept, triple))
        filled[name] = len(triple.indices)
        empty[name] = int((np.diff(triple.indptr) == 0).sum())
    rejects = sorted((reject for one in found for reject in one.rejects), key=lambda reject: (reject[1].row, reject[0]))
    if rejects:
        listed = [{"file": name, **reject._asdict()} for name, reject in rejects]
        entries.append(write_entry(folder, rejected_path(unit.name), dump_json(listed)))
    counts = PartCounts(
        features=filled.get("features", 0),
        labels=filled.get("labels", 0),
        rows_without_features=empty.get("features", 0),
        rows_without_labels=empty.get("labels", 0),
        rejected=rows.count - len(kept),
    )
    return Finished(tuple(entries), counts)


def rejected_path(part: str) -> str:
    """Where the rejected rows of a part are listed until all parts are read."""
    return f"rejected/{part}.json"


def _common_rows(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.intersect1d(some, others, assume_unique=True)


def _kept_matrices(
    found: list[FileRows], kept: np.ndarray, split: str, data: ScannedData
) -> Iterator[tuple[str, Triple]]:
    """(name, rows that every file has) of each matrix; labels of samples only where the split has none of groups."""
    grouped = any(file.split == split and file.role == "group_labels" for file in data.files)
    hide = data.reading.params.hide_labels
    for one in found:
        has_only_kept = len(kept) == len(one.samples)
        for name, whole in one.matrices.items():
            if name == "labels" and grouped:
                continue
            triple = whole if has_only_kept else take_rows(whole, np.searchsorted(one.samples, kept))
            if name == "labels" and hide:
                triple = without_columns(triple, hidden_labels(data.shape.n_labels, hide))
            yield name, triple


def hidden_labels(n_labels: int, share: float) -> np.ndarray:
    """The labels that `data.hide_labels` takes out. Rows that had no others become rows without labels."""
    return permutation(n_labels, 0, "read", "hidden labels")[: round(share * n_labels)]


def read_rows(folder: str, file: ScannedFile, rows: RowRange, reading: Reading, on_bad_row: str) -> FileRows:
    """The rows of a part from one file."""
    if isinstance(file.access, ByteRanges):
        return _parse_part(folder, file, file.access, rows, reading.state, on_bad_row)
    if isinstance(file.access, ChosenRows):
        return _take_chosen(file, file.access, rows, reading, on_bad_row)
    samples = np.arange(rows.start, rows.stop)
    if file.access == "emitted":
        features, labels = load_emitted(file.path, file.split, reading.state)
        return FileRows({"features": _slice(features, rows), "labels": _slice(labels, rows)}, samples, [])
    load = load_matrix if file.access == "matrix" else load_group_ids
    name = "membership" if file.role == "group_ids" else file.role
    return FileRows({name: _slice(load(file.path, reading.state), rows)}, samples, [])


def _parse_part(
    folder: str, file: ScannedFile, access: ByteRanges, rows: RowRange, state: str, on_bad_row: str
) -> FileRows:
    from xpipe.formats.text import parse_range

    offsets = load_offsets(folder, access.offsets, state)
    begin, end = int(offsets[rows.index]), int(offsets[rows.index + 1 if rows.count else -1])
    parsed = parse_range(access.source, begin, end, rows.start, on_bad_row=on_bad_row)
    matrices = {"features" if file.role == "samples" else file.role: parsed.features}
    if parsed.labels is not None:
        matrices["labels"] = parsed.labels
    return FileRows(matrices, parsed.samples, _with_file_name(file, parsed.rejects))


def _take_chosen(file: ScannedFile, access: ChosenRows, rows: RowRange, reading: Reading, on_bad_row: str) -> FileRows:
    """Rows named by an index split file; each worker parses the data file once."""
    parsed = parse_whole_text(access.source, on_bad_row, reading.state)
    assert parsed.labels is not None, "index splits choose rows of files with features and labels"
    all_chosen = load_chosen_rows(access.chosen, reading.params.split_base, access.file_rows, reading.state)
    chosen = all_chosen[rows.start : rows.stop]
    place = np.searchsorted(parsed.samples, chosen)
    last = len(parsed.samples) - 1
    there = (place <= last) & (parsed.samples[np.minimum(place, last)] == chosen)
    matrices = {
        "features": take_rows(parsed.features, place[there]),
        "labels": take_rows(parsed.labels, place[there]),
    }
    wanted = set(chosen.tolist())
    rejects = [reject for reject in parsed.rejects if reject.row in wanted]
    return FileRows(matrices, np.arange(rows.start, rows.stop)[there], _with_file_name(file, rejects))


def _with_file_name(file: ScannedFile, rejects: list[Reject]) -> list[tuple[str, Reject]]:
    return [(files.basename(file.path), reject) for reject in rejects]


def _slice(matrix: sp.csr_matrix, rows: RowRange) -> Triple:
    return slice_rows(to_triple(matrix), rows.start, rows.stop)
