"""Rows of input files at a worker, one part at a time: read from every file, fitted together, written as parts.

Holds no rules of reading: those are `formats.reading`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.formats.fitting import Shape
from xpipe.formats.reading import (
    FileRows,
    choose_rows,
    keep_rows,
    on_bad_row_of,
    rows_in_all,
    rows_of_matrices,
    rows_of_text,
)
from xpipe.formats.source import Rows
from xpipe.formats.text import parse_range
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import without_columns
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.loading import load_chosen_rows, load_matrices, load_offsets, parse_whole_text
from xpipe.stages.read.scanning import Reading, ScannedFile, ScannedText


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
    """What is in a part: entries of its matrices, rows without entries, and rows that were left out."""

    features: int
    labels: int
    rows_without_features: int
    rows_without_labels: int
    rejected: int


def cut_rows(n_rows: int, part_rows: int) -> list[RowRange]:
    """Consecutive parts of `part_rows` rows, the last one shorter; one empty part where there are no rows."""
    starts = range(0, max(n_rows, 1), part_rows)
    return [RowRange(index, start, min(part_rows, n_rows - start)) for index, start in enumerate(starts)]


def parts_of(split: str, n_rows: int, part_rows: int) -> list[Part]:
    """The units that read a split."""
    return [Part(f"{split}-{rows.index:05d}", rows.count, split, rows) for rows in cut_rows(n_rows, part_rows)]


def read_part(folder: str, unit: Part, shared: ScannedData) -> Finished[PartCounts]:
    """Read one part from every file of its split, keep the rows that all files have, and write them."""
    split, rows = unit.split, unit.rows
    read = [each for each in shared.files if each.file.split == split and each.file.role != "group_labels"]
    found = [read_rows(folder, each, rows, shared.reading) for each in read]
    kept = rows_in_all(found)
    entries = []
    filled: dict[str, int] = {}  # entries of each matrix
    empty: dict[str, int] = {}  # rows without any
    for name, triple in _kept_matrices(found, kept, split, shared):
        artifact = "held_out_labels" if name == "labels" and shared.shape.n_groups is not None else name
        entries.append(write_matrix_part(folder, artifact, split, rows.index, kept, triple))
        filled[name] = len(triple.indices)
        empty[name] = int((np.diff(triple.indptr) == 0).sum())
    listed = _listed_rejects(read, found)
    if listed:
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


def _listed_rejects(read: list[ScannedFile], found: list[FileRows]) -> list[dict[str, Any]]:
    """The rejected rows with the names of their files, in the order of the rows."""
    rejects = [
        (files.basename(each.file.path), reject)
        for each, rows in zip(read, found, strict=True)
        for reject in rows.rejects
    ]
    rejects.sort(key=lambda named: (named[1].row, named[0]))
    return [{"file": name, **reject._asdict()} for name, reject in rejects]


def _kept_matrices(
    found: list[FileRows], kept: np.ndarray, split: str, data: ScannedData
) -> Iterator[tuple[str, Triple]]:
    """(name, rows that every file has) of each matrix. Labels of samples only where the split has none of groups."""
    grouped = any(each.file.split == split and each.file.role == "group_labels" for each in data.files)
    hide = data.reading.params.hide_labels
    for rows in found:
        for name, triple in keep_rows(rows, kept).items():
            if name != "labels":
                yield name, triple
            elif not grouped:
                hidden = hidden_labels(data.shape.n_labels, hide) if hide else None
                yield name, triple if hidden is None else without_columns(triple, hidden)


def hidden_labels(n_labels: int, share: float) -> np.ndarray:
    """The labels that `data.hide_labels` takes out. Rows that had no others become rows without labels."""
    return permutation(n_labels, 0, "read", "hidden labels")[: round(share * n_labels)]


def read_rows(folder: str, scanned: ScannedFile, rows: RowRange, reading: Reading) -> FileRows:
    """The rows of a part from one file."""
    file, text = scanned.file, scanned.text
    if text is None:
        return rows_of_matrices(load_matrices(file, scanned.access, reading.state), rows.start, rows.stop)
    on_bad_row = on_bad_row_of(file, reading.options)
    if file.chosen is None:
        return rows_of_text(file, _parse_part(folder, text, rows, reading.state, on_bad_row))
    whole = parse_whole_text(text.source, on_bad_row, reading.state)  # once per worker: rows come in any order
    chosen = load_chosen_rows(file, reading.options, text.n_rows, reading.state)
    return choose_rows(rows_of_text(file, whole), chosen[rows.start : rows.stop], rows.start)


def _parse_part(folder: str, text: ScannedText, rows: RowRange, state: str, on_bad_row: str) -> Rows:
    """The rows of one part of a text file, by its byte range."""
    offsets = load_offsets(folder, text.offsets, state)
    begin, end = int(offsets[rows.index]), int(offsets[rows.index + 1 if rows.count else -1])
    return parse_range(text.source, begin, end, rows.start, on_bad_row=on_bad_row)
