"""Parquet tables, row group by row group. Holds no meaning of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from xpipe.errors import DataError
from xpipe.formats.parquet_files import open_parquet
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_records import Records, check_columns

FIX = "write the table again"


def column_names(file: TableFile, delimiter: str | None) -> dict[str, str]:
    """The columns of the schema with their types."""
    with open_parquet(file.path, [], fix=FIX) as parquet:
        return {field.name: str(field.type) for field in parquet.schema_arrow}


def group_rows(file: TableFile) -> list[int]:
    """The rows of each row group."""
    with open_parquet(file.path, [], fix=FIX) as parquet:
        return [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]


def iterate_records(
    file: TableFile, wanted: list[str], batch_rows: int, row_groups: Sequence[int] | None, first: int,
    delimiter: str | None,
) -> Iterator[Records]:  # fmt: skip
    """The rows of some row groups, or of all."""
    with open_parquet(file.path, [], fix=FIX) as parquet:
        check_columns(file.path, parquet.schema_arrow.names, wanted)
        groups = range(parquet.num_row_groups) if row_groups is None else row_groups
        for batch in parquet.iter_batches(batch_rows, list(groups), wanted, use_threads=False):
            if not batch.num_rows:
                continue
            columns = {name: _values(file, first, batch.column(name), name) for name in wanted}
            yield Records(file.path, first, None, columns or {"": [None] * batch.num_rows})
            first += batch.num_rows


def _values(file: TableFile, first: int, column: pa.Array, name: str) -> list[Any]:
    """The cells of a column as plain values."""
    try:
        values: list[Any] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        row = next(index for index in range(len(column)) if _not_utf8(column[index]))
        raise DataError(
            "a text that is not UTF-8", where=f"{file.path}, row {first + row}, column {name!r}",
            why="Parquet's type string is UTF-8; whoever wrote the file put other bytes there", fix=FIX,
        ) from None  # fmt: skip


def _not_utf8(cell: pa.Scalar) -> bool:
    try:
        cell.as_py()
    except UnicodeDecodeError:
        return True
    return False
