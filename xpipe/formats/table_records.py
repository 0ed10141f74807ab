"""Records of one table file, some rows at a time: the cells of the wanted columns as plain values, with their places.

Holds no meaning of columns (`table_cells`) and no grammar (`table_csv`, `table_jsonl`, `table_parquet`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.errors import DataError
from xpipe.formats.table_files import TableFile
from xpipe.ground.close_match import did_you_mean

BATCH_ROWS = 4096
MOST_NAMES = 12
MODULES = {"csv": "table_csv", "tsv": "table_csv", "jsonl": "table_jsonl", "parquet": "table_parquet",
           "lines": "table_raw"}  # fmt: skip


@dataclass(frozen=True)
class Records:
    """Some consecutive rows of a file.

    path: the file. first: the number of the first row in the file, from 0. lines: the line that each row begins at;
    None where the file has no lines. columns: the cells of each wanted column, as plain values; None is missing.
    """

    path: str
    first: int
    lines: Sequence[int] | None
    columns: dict[str, list[Any]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, index: int, column: str | None = None) -> str:
        """Where a cell is: file, line, row and column."""
        line = f":{self.lines[index]}" if self.lines is not None else ""
        return f"{self.path}{line}, row {self.first + index}" + (f", column {column!r}" if column else "")


def column_names(file: TableFile, delimiter: str | None = None) -> dict[str, str]:
    """The columns of a file, each with its type for people ("" where the file does not say).

    Of JSON lines, the keys of the first records.
    """
    found: dict[str, str] = _module(file).column_names(file, delimiter)
    return found


def iterate_records(
    file: TableFile,
    wanted: Sequence[str],
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
    first: int = 0,
    delimiter: str | None = None,
) -> Iterator[Records]:
    """All rows of a file, at most `batch_rows` at a time.

    row_groups: of a Parquet file, the row groups that are read; the first of their rows is row `first` of the file.
    """
    yield from _module(file).iterate_records(file, list(wanted), batch_rows, row_groups, first, delimiter)


def _module(file: TableFile) -> Any:
    return importlib.import_module(f"xpipe.formats.{MODULES[file.kind]}")


def check_columns(path: str, have: Sequence[str], wanted: Sequence[str], setting: str = "") -> None:
    """Raise DataError unless a file has all wanted columns, each once, with close matches."""
    for name in wanted:
        count = have.count(name) if isinstance(have, list) else sum(other == name for other in have)
        if count == 1:
            continue
        if count > 1:
            raise DataError(
                f"the column {name!r} is there {count} times", where=path, why="which one is meant is not guessed"
            )
        near = did_you_mean(name, have, cutoff=0.5, plain=str.lower)
        more = f" and {len(have) - MOST_NAMES} more" if len(have) > MOST_NAMES else ""
        listed = ", ".join(list(have)[:MOST_NAMES]) + more
        raise DataError(
            f"there is no column {name!r}" + (f", which {setting} names" if setting else ""), where=path,
            why=f"it has {listed}" + (f"; {near}" if near else ""), fix="correct the name in the section `data`",
        )  # fmt: skip
