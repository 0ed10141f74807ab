"""JSON lines: one object per line, whose keys are the columns. Holds no meaning of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from xpipe.errors import DataError
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_lines import lines_of_table
from xpipe.formats.table_records import Records, check_columns

LOOKED_AT = 100  # records whose keys are taken for the columns
KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def column_names(file: TableFile, delimiter: str | None) -> dict[str, str]:
    """The keys of the first records, each with the kind of its first value that is not null."""
    found: dict[str, str] = {}
    for _, record in islice(_objects(file), LOOKED_AT):
        for name, value in record.items():
            found[name] = found.get(name) or ("" if value is None else KINDS[type(value)])
    return found


def iterate_records(
    file: TableFile, wanted: list[str], batch_rows: int, row_groups: Sequence[int] | None, first: int,
    delimiter: str | None,
) -> Iterator[Records]:  # fmt: skip
    """The rows of the file. A key that a record lacks is null; a key that no record of a batch has is an error."""
    objects = _objects(file)
    checked = False
    while batch := list(islice(objects, batch_rows)):
        if not checked:  # a later batch may lack a key that is seldom there
            have = {name: None for _, record in batch for name in record}
            check_columns(file.path, list(have), wanted)
            checked = True
        columns = {name: [record.get(name) for _, record in batch] for name in wanted}
        yield Records(file.path, first, [line for line, _ in batch], columns or {"": [None] * len(batch)})
        first += len(batch)


def _objects(file: TableFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of each line. Empty lines may stand at the end only."""
    blank = 0
    for line, text in enumerate(lines_of_table(file), 1):
        if not text.strip():
            blank = blank or line
            continue
        if blank:
            raise DataError("an empty line between rows", where=f"{file.path}:{blank}", fix="remove the line")
        try:
            value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}" if isinstance(error, RecursionError) else str(error)
            raise DataError(
                "a line that is not JSON", where=f"{file.path}:{line}, near {text.strip()[:60]!r}", why=why,
                fix="one object per line: {\"id\": \"a1\", \"text\": \"...\"}",
            ) from error  # fmt: skip
        if not isinstance(value, dict):
            raise DataError(
                f"a line must be an object, not {KINDS.get(type(value), 'null')}", where=f"{file.path}:{line}",
                fix="a file that is one large list is no JSON lines: `jq -c '.[]'` writes its objects line by line",
            )  # fmt: skip
        yield line, value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError where a key is there twice: JSON readers differ in which value they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
