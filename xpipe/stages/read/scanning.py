"""The first look at every input file, at a worker: how many rows and columns it has, and where its parts begin.

Holds no parsing of rows and no rules of reading: those are `formats.reading`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from xpipe.engine.messages import FileEntry, Finished, Unit, entry_of_file
from xpipe.formats import reading
from xpipe.formats.blocks import decompress
from xpipe.formats.fitting import FileSize
from xpipe.formats.layout import Layout
from xpipe.formats.options import ReadOptions
from xpipe.formats.reading import Access, InputFile
from xpipe.formats.row_counts import check_not_more, row_offsets
from xpipe.formats.source import TextSource
from xpipe.ground import files
from xpipe.stages.arrays import write_array
from xpipe.stages.read.loading import load_chosen_rows, load_matrices
from xpipe.stages.read.params import DataParams


@dataclass(frozen=True)
class Reading:
    """What all steps of the stage share: the files of the folder, and how they are to be read.

    state: differs whenever an input file has changed, see `loading`.
    """

    layout: Layout
    params: DataParams
    state: str

    @property
    def options(self) -> ReadOptions:
        return self.params.options


@dataclass(frozen=True)
class FileToScan(Unit):
    """One file to scan."""

    file: InputFile


@dataclass(frozen=True)
class ScannedText:
    """A text file. offsets: the array file with the bytes where its parts begin; n_rows: all rows of the file."""

    source: TextSource
    offsets: str
    n_rows: int


@dataclass(frozen=True)
class ScannedFile:
    """An input file, its size, and how its rows are reached; text is None for files without byte ranges."""

    file: InputFile
    size: FileSize
    access: Access
    text: ScannedText | None


def scan_file(folder: str, unit: FileToScan, shared: Reading) -> Finished[ScannedFile]:
    """How many rows and columns a file has; for text also where each part begins, kept in scan/*.npy."""
    file = unit.file
    access = reading.access_of(file)
    if access == "text":
        return _scan_text(folder, unit, shared)
    matrices = load_matrices(file, access, shared.state)
    return Finished((), ScannedFile(file, reading.size_of_matrices(file, access, matrices), access, None))


def _scan_text(folder: str, unit: FileToScan, shared: Reading) -> Finished[ScannedFile]:
    file, options = unit.file, shared.options
    source = reading.open_source(file, options)
    entries = []
    if source.compressed:  # gzip has no byte ranges
        unpacked = _unpack(folder, source, f"unpacked/{unit.name}.txt")
        entries.append(unpacked)
        plain = files.join(folder, unpacked.path)
        source = dataclasses.replace(source, path=plain, size=unpacked.bytes, compressed=False, shown_as=file.path)
    offsets, n_rows = row_offsets(source, shared.params.part_rows)
    entries.append(write_array(folder, f"scan/{unit.name}.npy", offsets))
    text = ScannedText(source, entries[-1].path, n_rows)
    if file.chosen is not None:
        n_rows = len(load_chosen_rows(file, options, n_rows, shared.state))
    scanned = ScannedFile(file, reading.size_of_text(file, source, n_rows), "text", text)
    return Finished(tuple(entries), scanned)


def _unpack(folder: str, source: TextSource, target: str) -> FileEntry:
    """Unpack a gzip file to `target`; stops where there are more lines than the header promises."""

    def check_lines(n_lines: int) -> None:
        if source.kind != "svmlight":  # its comments are lines, but no rows
            check_not_more(source, n_lines - (source.first_line - 1))

    with files.open_write(files.join(folder, target)) as stream:
        decompress(source.path, stream, check_lines)
    return entry_of_file(folder, target)
