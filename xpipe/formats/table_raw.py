"""Texts one per line, as PECOS's raw layout has them (X.trn.txt): a table with the one column `text`.

Holds no labels: those are the matrix beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from xpipe.formats.table_files import TableFile
from xpipe.formats.table_lines import lines_of_table
from xpipe.formats.table_records import Records

TEXT = "text"


def column_names(file: TableFile, delimiter: str | None) -> dict[str, str]:
    """The one column."""
    return {TEXT: "text"}


def iterate_records(
    file: TableFile, wanted: list[str], batch_rows: int, row_groups: Sequence[int] | None, first: int,
    delimiter: str | None,
) -> Iterator[Records]:  # fmt: skip
    """Every line is a row, whatever is in it."""
    lines = (line.removesuffix("\n").removesuffix("\r") for line in lines_of_table(file))
    line = 1
    while batch := list(islice(lines, batch_rows)):
        yield Records(file.path, first, range(line, line + len(batch)), {TEXT: list(batch)})
        first, line = first + len(batch), line + len(batch)
