"""The first look at every input file, at a worker: how many rows and columns it has, and how its rows are reached."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from xpipe.engine.messages import FileEntry, Finished, Unit, entry_of_file
from xpipe.formats.fitting import index_base_of, is_group_ids
from xpipe.formats.layout import Layout
from xpipe.formats.source import TextSource
from xpipe.ground import files
from xpipe.stages.arrays import write_array
from xpipe.stages.read.loading import load_chosen_rows, load_emitted, load_group_ids, load_matrix
from xpipe.stages.read.params import DataParams

TEXT_KIND = {"xmc": "xmc", "svmlight": "svmlight", "split": "sparse"}  # of the files with role `samples`, by format
WholeFile = Literal["emitted", "matrix", "ids"]  # formats without byte ranges, as `loading` loads them


@dataclass(frozen=True)
class Reading:
    """What all steps of the stage share: the files of the folder, and how they are to be read.

    state: differs whenever an input file has changed, see `loading`.
    """

    layout: Layout
    params: DataParams
    state: str


@dataclass(frozen=True)
class InputFile(Unit):
    """One file to scan. Role `emitted` stands for a split of an emitted dataset, whose folder is `path`."""

    split: str
    role: str
    path: str


@dataclass(frozen=True)
class ByteRanges:
    """Text of which every part is parsed by itself; `offsets` is the file with the bytes where the parts begin."""

    source: TextSource
    offsets: str


@dataclass(frozen=True)
class ChosenRows:
    """Text of which an index split file, `chosen`, names the rows; `file_rows` are the rows of the text file."""

    source: TextSource
    chosen: str
    file_rows: int


@dataclass(frozen=True)
class ScannedFile:
    """Size of an input file, and how its rows are reached.

    labels: columns of the labels, in files that hold features and labels.
    """

    split: str
    role: str
    path: str
    rows: int
    columns: int
    labels: int | None
    access: WholeFile | ByteRanges | ChosenRows


def scan_file(folder: str, unit: InputFile, shared: Reading) -> Finished[ScannedFile]:
    """How many rows and columns a file has; for text also where each part begins, kept in scan/*.npy."""
    if unit.role == "emitted":
        features, labels = load_emitted(unit.path, unit.split, shared.state)
        return Finished((), _scanned_whole(unit, features.shape, "emitted", n_labels=labels.shape[1]))
    if is_group_ids(unit.role, unit.path):
        return Finished((), _scanned_whole(unit, load_group_ids(unit.path, shared.state).shape, "ids"))
    if unit.path.endswith((".npz", ".parquet")):
        return Finished((), _scanned_whole(unit, load_matrix(unit.path, shared.state).shape, "matrix"))
    return _scan_text(folder, unit, shared)


def _scanned_whole(
    unit: InputFile, shape: tuple[int, int], access: WholeFile, n_labels: int | None = None
) -> ScannedFile:
    n_rows, n_columns = shape
    return ScannedFile(unit.split, unit.role, unit.path, n_rows, n_columns, n_labels, access)


def _scan_text(folder: str, unit: InputFile, reading: Reading) -> Finished[ScannedFile]:
    from xpipe.formats.text import row_offsets

    source = _open_source(unit, reading)
    entries = []
    if source.compressed:  # gzip has no byte ranges
        unpacked = _unpack(folder, source, f"unpacked/{unit.name}.txt")
        entries.append(unpacked)
        plain = files.join(folder, unpacked.path)
        source = dataclasses.replace(source, path=plain, size=unpacked.bytes, compressed=False, shown_as=unit.path)
    offsets, n_rows = row_offsets(source, reading.params.part_rows)
    entries.append(write_array(folder, f"scan/{unit.name}.npy", offsets))
    access: ByteRanges | ChosenRows = ByteRanges(source, entries[-1].path)
    split_file = reading.layout.splits[unit.split].rows
    if split_file and unit.role == "samples":  # other files of the split have its rows only
        access = ChosenRows(source, files.join(reading.layout.folder, split_file), n_rows)
        n_rows = len(load_chosen_rows(access.chosen, reading.params.split_base, n_rows, reading.state))
    return Finished(
        tuple(entries),
        ScannedFile(unit.split, unit.role, unit.path, n_rows, source.n_features, source.n_labels, access),
    )


def _open_source(unit: InputFile, reading: Reading) -> TextSource:
    """The text file as its header and the parameters describe it."""
    from xpipe.formats.text import open_text

    params = reading.params
    base = index_base_of(unit.role, params.index_base, params.label_base)
    kind = TEXT_KIND[reading.layout.format] if unit.role == "samples" else "sparse"
    if kind == "sparse":  # always has a header, and no labels
        return open_text(unit.path, kind, header=True, index_base=base)
    return open_text(
        unit.path,
        kind,
        header=kind == "xmc" and params.header,
        index_base=base,
        label_base=params.label_base,
        n_features=params.n_features,
        n_labels=params.n_labels,
    )


def _unpack(folder: str, source: TextSource, target: str) -> FileEntry:
    """Unpack a gzip file to `target`, as far as its header is not contradicted."""
    from xpipe.formats.text import check_not_more, decompress

    def check_lines(n_lines: int) -> None:
        if source.kind != "svmlight":  # whose comments are no rows
            check_not_more(source, n_lines - (source.first_line - 1))

    with files.open_write(files.join(folder, target)) as stream:
        decompress(source.path, stream, check_lines)
    return entry_of_file(folder, target)
