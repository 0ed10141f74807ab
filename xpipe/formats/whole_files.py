"""All rows of the files of a dataset in one go, with the sizes found and the rows rejected.

Holds no rules of reading: those are `reading`, which stage read follows as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.formats import reading
from xpipe.formats.fitting import FileSize
from xpipe.formats.layout import Layout
from xpipe.formats.options import ReadOptions
from xpipe.formats.reading import FileRows, InputFile
from xpipe.formats.source import Reject, Rows, TextSource
from xpipe.formats.text import read_rows


class WholeFile(NamedTuple):
    """All rows of a file; chosen: the rows of the file that an index split names, where there is one."""

    rows: FileRows
    size: FileSize
    chosen: np.ndarray | None = None


class WholeReader:
    """Reads the files of a folder whole; keeps their sizes and the rows that were rejected."""

    def __init__(self, layout: Layout, options: ReadOptions, threads: int | None):
        self.layout, self.options, self.threads = layout, options, threads
        self.sizes: list[FileSize] = []
        self.rejects: list[Reject] = []
        self._parsed: dict[str, tuple[TextSource, Rows]] = {}  # files of which several splits choose rows, by path

    def read_split(self, split: str) -> dict[str, WholeFile]:
        """All files of a split by role, the one with the features first."""
        own = [file for file in reading.files_with_rows(self.layout) if file.split == split]
        own.sort(key=lambda file: file.role in ("membership", "group_ids"))  # last: the others limit lists of ids
        found: dict[str, WholeFile] = {}
        for file in own:
            n_rows = next((one.size.rows for one in found.values()), None)
            n_groups = found["group_labels"].size.rows if "group_labels" in found else None
            found[file.role] = self._read(file, n_rows, n_groups)
        return found

    def _read(self, file: InputFile, n_rows: int | None, n_groups: int | None) -> WholeFile:
        """Read a file; n_rows and n_groups are limits of a list of group ids."""
        access = reading.access_of(file)
        if access == "text":
            found = self._read_text(file)
        else:
            matrices = reading.load_matrices(file, access, n_rows=n_rows, n_groups=n_groups)
            size = reading.size_of_matrices(file, access, matrices)
            found = WholeFile(reading.rows_of_matrices(matrices, 0, size.rows), size)
        self.sizes.append(found.size)
        self.rejects += found.rows.rejects
        return found

    def _read_text(self, file: InputFile) -> WholeFile:
        source, parsed = self._parse(file)
        rows, n_rows = reading.rows_of_text(file, parsed), len(parsed.samples) + len(parsed.rejects)
        if file.chosen is None:
            return WholeFile(rows, reading.size_of_text(file, source, n_rows))
        chosen = reading.read_chosen_rows(file, self.options, n_rows)
        size = reading.size_of_text(file, source, len(chosen))
        return WholeFile(reading.choose_rows(rows, chosen), size, chosen)

    def _parse(self, file: InputFile) -> tuple[TextSource, Rows]:
        if file.path in self._parsed:
            return self._parsed[file.path]
        source = reading.open_source(file, self.options)
        on_bad_row = reading.on_bad_row_of(file, self.options)
        parsed = read_rows(source, on_bad_row=on_bad_row, rejects=[], threads=self.threads)
        if file.chosen is not None:
            self._parsed[file.path] = source, parsed
        return source, parsed
