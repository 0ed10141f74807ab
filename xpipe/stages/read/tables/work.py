"""Rows of tables at a worker, second pass: staged rows become parts of ids, texts, labels and membership.

Holds no parsing of files: `staging` did that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.sparse import Triple
from xpipe.stages import row_parts
from xpipe.stages.arrays import read_array
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.tables.joining import GROUP_KEYS, LABEL_KEYS, Joined, rows_path
from xpipe.stages.read.tables.numbering import number_names, to_rows
from xpipe.stages.read.tables.raw_labels import labels_at
from xpipe.stages.read.tables.staged_rows import Staged
from xpipe.stages.read.tables.staging import CATEGORY, GROUPS, ID, LABELS, NUMBER, TEXT, read_staged


@dataclass(frozen=True)
class Part(Unit):
    """Rows start to start + size - 1 of a split, which are part `index` of all its artifacts."""

    split: str
    index: int
    start: int


@dataclass(frozen=True)
class Tables:
    """All staged rows and what is known of them. state: differs whenever an input file has changed."""

    staged: Staged
    joined: Joined
    state: str


@dataclass(frozen=True)
class PartCounts:
    """What is in a part: labels of its rows, rows without labels, and bytes of its texts."""

    labels: int
    rows_without_labels: int
    text_bytes: int


def parts_of(split: str, n_rows: int, part_rows: int) -> list[Part]:
    """The units that write a split."""
    return [
        Part(f"{split}-{index:05d}", min(part_rows, n_rows - start), split, index, start)
        for index, start in enumerate(range(0, n_rows, part_rows))
    ]


def write_part(folder: str, unit: Part, shared: Tables) -> Finished[PartCounts]:
    """Write one part of every artifact that its split has."""
    split, sources = unit.split, shared.staged.sources
    samples, rows = take_staged(folder, unit, shared)
    numbers = pa.array(samples, pa.int64())
    entries = [_write_texts(folder, unit, numbers, rows)]
    if sources.train.id is not None or sources.train.group is not None:
        entries.append(_write_ids(folder, unit, numbers, rows))
    labels = _labels(folder, unit, samples, rows, shared)
    if labels is not None:
        name = "held_out_labels" if sources.grouped else "labels"
        entries.append(write_matrix_part(folder, name, split, unit.index, samples, labels))
    if split == "train" and sources.train.group is not None:
        name = "membership" if sources.grouped else "groups"
        groups = to_rows(rows.column(GROUPS), _lookup(folder, GROUP_KEYS, shared.state))
        entries.append(write_matrix_part(folder, name, split, unit.index, samples, groups))
    lengths = np.zeros(0, np.int64) if labels is None else np.diff(labels.indptr)
    counts = PartCounts(int(lengths.sum()), int((lengths == 0).sum()), int(rows.column(TEXT).nbytes))
    return Finished(tuple(entries), counts)


def take_staged(folder: str, unit: Part, shared: Tables) -> tuple[np.ndarray, pa.Table]:
    """(row numbers in the input, staged rows) of a part."""
    held_out = shared.staged.sources.holdout is not None
    source = "train" if held_out else unit.split
    if held_out:
        samples = read_array(folder, rows_path(unit.split))[unit.start : unit.start + unit.size]
    else:
        samples = np.arange(unit.start, unit.start + unit.size)
    pieces = []
    for each in shared.staged.of_split(source):
        low, high = np.searchsorted(samples, [each.first, each.first + each.rows])
        if high > low:
            pieces.append(read_staged(folder, each.path).take(pa.array(samples[low:high] - each.first)))
    return samples.astype(np.int64), pa.concat_tables(pieces, promote_options="default")


def _write_texts(folder: str, unit: Part, samples: pa.Array, rows: pa.Table) -> FileEntry:
    """texts/: the text and further columns of each row."""
    columns = {row_parts.SAMPLE: samples, row_parts.TEXT: _short_strings(rows.column(TEXT))}
    columns |= {name: rows.column(name) for name in rows.schema.names if name.startswith((NUMBER, CATEGORY))}
    return row_parts.write_rows(folder, row_parts.TEXTS, unit.split, unit.index, pa.table(columns))


def _short_strings(texts: pa.ChunkedArray) -> pa.Array:
    """Texts as plain strings, the type that every reader of Parquet expects. Raises DataError above 2 GiB."""
    try:
        return texts.combine_chunks().cast(pa.string())
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{texts.nbytes:,} bytes of texts in one part",
            why="strings have 32-bit offsets",
            fix="lower data.part_rows",
        ) from error


def _write_ids(folder: str, unit: Part, samples: pa.Array, rows: pa.Table) -> FileEntry:
    """ids/: the id and the groups of each row."""
    columns = {row_parts.SAMPLE: samples}
    if ID in rows.schema.names:
        columns[row_parts.ID] = rows.column(ID)
    if GROUPS in rows.schema.names:
        columns[row_parts.GROUP] = rows.column(GROUPS)
    return row_parts.write_rows(folder, row_parts.IDS, unit.split, unit.index, pa.table(columns))


def _labels(folder: str, unit: Part, samples: np.ndarray, rows: pa.Table, shared: Tables) -> Triple | None:
    """The labels of the rows themselves; None where the split has labels of groups, or none."""
    sources = shared.staged.sources
    if unit.split not in sources.labelled:
        return None
    matrix = next((source.matrix for source in sources.splits if source.split == unit.split), None)
    if matrix is not None:
        return labels_at(matrix, samples)
    return to_rows(rows.column(LABELS), _lookup(folder, LABEL_KEYS, shared.state))


@lru_cache(maxsize=4)
def _lookup(folder: str, path: str, state: str) -> pa.Array:
    """The names of labels or groups in the order of their numbers. state: differs where an input has changed."""
    return number_names(json.loads(files.read_bytes(files.join(folder, path))))
