"""CSV and TSV tables: quoted fields, one header, every row with as many fields. Holds no meaning of columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from xpipe.errors import DataError
from xpipe.formats.blocks import LONGEST_LINE
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_lines import lines_of_table
from xpipe.formats.table_records import Records, check_columns

DELIMITERS = {"csv": ",", "tsv": "\t"}
OTHERS = (";", "\t", "|", ",")
LONGEST_SHOWN = 60


def column_names(file: TableFile, delimiter: str | None) -> dict[str, str]:
    """The names in the header."""
    return dict.fromkeys(_header(file, _reader(file, delimiter)), "")


def iterate_records(
    file: TableFile, wanted: list[str], batch_rows: int, row_groups: Sequence[int] | None, first: int,
    delimiter: str | None,
) -> Iterator[Records]:  # fmt: skip
    """The rows of the file; a row with another number of fields than the header raises DataError."""
    reader = _reader(file, delimiter)
    header = _header(file, reader)
    check_delimiter(file, header, wanted, delimiter)
    check_columns(file.path, header, wanted)
    places = {name: header.index(name) for name in wanted}
    rows: list[list[str]] = []
    lines: list[int] = []
    blank = 0  # the line of an empty line; only the end of a file may have some
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise _broken(file, line, error) from error
        if row is None:
            break
        if not row:
            blank = blank or line
            continue
        if blank:
            raise DataError("an empty line between rows", where=f"{file.path}:{blank}", fix="remove the line")
        if len(row) != len(header):
            raise _wrong_count(file, line, len(header), row)
        rows.append(row)
        lines.append(line)
        if len(rows) == batch_rows:
            yield _records(file, first, rows, lines, places)
            first, rows, lines = first + len(rows), [], []
    if rows:
        yield _records(file, first, rows, lines, places)


def _records(file: TableFile, first: int, rows: list[list[str]], lines: list[int], places: dict[str, int]) -> Records:
    columns = {name: [row[place] for row in rows] for name, place in places.items()}
    return Records(file.path, first, lines, columns or {"": [None] * len(rows)})


def _reader(file: TableFile, delimiter: str | None) -> Any:  # the type of csv readers is private
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # documents are longer than its default
    return csv.reader(lines_of_table(file), delimiter=delimiter or DELIMITERS[file.kind], strict=True)


def _header(file: TableFile, reader: Iterator[list[str]]) -> list[str]:
    """The first row. Raises DataError for a file without one, and for names that are there twice."""
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise _broken(file, 1, error) from error
    if not header or not any(name.strip() for name in header):
        raise DataError("a table without a header", where=f"{file.path}:1", fix="the first line must name the columns")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"the column {twice!r} is there {header.count(twice)} times", where=f"{file.path}:1",
            why="which one is meant is not guessed", fix="give every column a name of its own",
        )  # fmt: skip
    return header


def check_delimiter(file: TableFile, header: list[str], wanted: list[str], given: str | None) -> None:
    """Raise DataError where the header looks like one with another delimiter."""
    delimiter = given or DELIMITERS[file.kind]
    if any(name in header for name in wanted):
        return
    for other in OTHERS:
        names = [name.strip().strip('"') for name in (delimiter.join(header)).split(other)]
        if other != delimiter and wanted and all(name in names for name in wanted):
            raise DataError(
                f"the columns are not separated by {delimiter!r}", where=f"{file.path}:1",
                why=f"separated by {other!r}, the header has all columns that are wanted",
                fix=f"data: {{delimiter: {other!r}}}" if other != "\t" else "rename the file to .tsv",
            )  # fmt: skip


def _wrong_count(file: TableFile, line: int, wanted: int, row: list[str]) -> DataError:
    """The error of a row with too many or too few fields."""
    many = len(row) > wanted
    place = f"field {wanted + 1}: {row[wanted][:LONGEST_SHOWN]!r}" if many else f"after {row[-1][:LONGEST_SHOWN]!r}"
    where = f"{file.path}:{line}, {place}"
    return DataError(
        f"a row with too {'many' if many else 'few'} fields: {len(row)} where the header has {wanted}", where=where,
        why="a field that contains the delimiter must be quoted" if many else "a field is missing, or a quote is open",
        fix="correct the row, or export the table again with quotes",
    )  # fmt: skip


def _broken(file: TableFile, line: int, error: Exception) -> DataError:
    """The error of a row that is not CSV."""
    text = str(error)
    what = "a quoted field without its end" if "unexpected end" in text else "a row that is not CSV"
    if "new-line character seen" in text:
        text = "a carriage return stands inside a field without quotes; lines must end in \\n or \\r\\n"
    return DataError(what, where=f"{file.path}:{line}", why=text, fix='quotes inside quotes are written twice: ""')
