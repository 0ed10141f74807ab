"""All staged rows of a table in order: which file has which rows, and the names that occur in them. Holds no checks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from xpipe.formats.table_files import TableFile
from xpipe.ground import files
from xpipe.stages.read.tables.sources import Sources
from xpipe.stages.read.tables.staging import names_path, staged_path


@dataclass(frozen=True)
class StagedRows:
    """One staged file. split: before rows are held out. first: the number of its first row in its split.

    file, first_in_file: where its rows come from.
    """

    piece: str
    number: int
    split: str
    first: int
    rows: int
    file: TableFile
    first_in_file: int

    @property
    def path(self) -> str:
        """The file, below the stage's folder."""
        return staged_path(self.piece, self.number)


@dataclass(frozen=True)
class Staged:
    """All staged rows, in order. part_rows: rows of one part of the group labels."""

    sources: Sources
    rows: tuple[StagedRows, ...]
    seed: int
    part_rows: int

    def of_split(self, split: str) -> list[StagedRows]:
        """The staged files of a split, before rows are held out."""
        return [each for each in self.rows if each.split == split]

    def count(self, split: str) -> int:
        """The rows of a split, before rows are held out."""
        return sum(each.rows for each in self.of_split(split))


def names_in(folder: str, shared: Staged, kind: str, splits: Iterable[str] | None = None) -> set[str]:
    """The names of labels or groups in the rows of some splits, or of all."""
    found: set[str] = set()
    for piece in dict.fromkeys(each.piece for each in shared.rows if splits is None or each.split in splits):
        found.update(json.loads(files.read_bytes(files.join(folder, names_path(piece))))[kind])
    return found
