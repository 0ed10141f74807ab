"""Tables with a text, an id, labels and groups: rows of any table file in one form, the same for every kind of file.

Holds no grammar of files (`table_records`) and no meaning of single cells (`table_cells`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from xpipe.errors import DataError
from xpipe.formats import table_cells as cells
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_records import BATCH_ROWS, Records, iterate_records

JOIN = "\n"  # between the texts of several columns: no token of a text reaches over it
TEXT_TYPE = pa.large_string()  # documents of one batch may have more than 2 GiB
NAMES_TYPE = pa.list_(pa.string())


@dataclass(frozen=True)
class TableColumns:
    """Which column of a table is what.

    Attributes
    ----------
    id : str, optional
        The column of ids, texts or whole numbers.
    text : tuple of str
        The columns of texts, which are joined in this order.
    labels : str, optional
        The column of labels.
    separator : str, optional
        What stands between labels where they are one text.
    group : str, optional
        The column of groups: a name, or a list of names.
    numbers, categories : tuple of str
        Further columns that become features.
    delimiter : str, optional
        What stands between the fields of CSV; by default a comma, of TSV a tab.
    """

    id: str | None = None
    text: tuple[str, ...] = ()
    labels: str | None = None
    separator: str | None = None
    group: str | None = None
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    delimiter: str | None = None

    @property
    def wanted(self) -> list[str]:
        """All columns that are read, each once."""
        named = [self.id, *self.text, self.labels, self.group, *self.numbers, *self.categories]
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def settings(self) -> dict[str, str]:
        """For each column, the setting of a pipeline file that names it."""
        found = {name: f"data.columns.{name}" for name in (*self.numbers, *self.categories)}
        one = {"data.group": self.group, "data.labels": self.labels, "data.id": self.id}
        found |= dict.fromkeys(self.text, "data.text")
        return found | {column: setting for setting, column in one.items() if column is not None}


@dataclass(frozen=True)
class TableRows:
    """Some consecutive rows of a table file, in one form.

    Attributes
    ----------
    first : int
        The number of the first row in its file, from 0.
    texts : Array
        Large strings, one per row; empty texts where no column of text is named.
    ids : Array, optional
        Strings.
    labels, groups : Array, optional
        Lists of strings, sorted, each name once.
    numbers, categories : dict of str to Array
        float64 and strings, null where a cell is missing.
    """

    first: int
    texts: pa.Array
    ids: pa.Array | None = None
    labels: pa.Array | None = None
    groups: pa.Array | None = None
    numbers: dict[str, pa.Array] = field(default_factory=dict)
    categories: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.texts)


def iterate_table(
    file: TableFile,
    columns: TableColumns,
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
    first: int = 0,
) -> Iterator[TableRows]:
    """The rows of a table file in order, at most `batch_rows` at a time.

    Parameters
    ----------
    file : TableFile
        As `find_tables` gives it.
    columns : TableColumns
        Which column is what.
    batch_rows : int
        The most rows in memory at a time.
    row_groups : sequence of int, optional
        Of a Parquet file, the row groups to read; `first` is then the number of their first row.
    first : int
        The number of the first row that is read.

    Yields
    ------
    TableRows
        Ids, texts, labels, groups and further columns of some rows.

    Raises
    ------
    DataError
        With file, line, row and column: for a column or an id that is missing, a row without text, labels that are no
        list, a file that is not UTF-8, and a row with too many or too few fields.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import TableColumns, find_tables, iterate_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "a.csv").write_text("sku,title,tags\\na1,pea soup,soup; quick\\n")
    >>> columns = TableColumns(id="sku", text=("title",), labels="tags", separator=";")
    >>> (rows,) = iterate_table(find_tables(folder.name)[0], columns)
    >>> rows.ids.to_pylist(), rows.texts.to_pylist(), rows.labels.to_pylist()
    (['a1'], ['pea soup'], [['quick', 'soup']])
    >>> folder.cleanup()
    """
    records = iterate_records(
        file, columns.wanted, batch_rows=batch_rows, row_groups=row_groups, first=first, delimiter=columns.delimiter
    )
    for some in records:
        yield _rows_of(some, columns)


def _rows_of(records: Records, columns: TableColumns) -> TableRows:
    """The cells of some records by their meaning."""
    labels_of = partial(cells.labels_cell, separator=columns.separator)

    def read(column: str, cell: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
        return _array(records, column, _convert(records, column, cell), kind)

    return TableRows(
        first=records.first,
        texts=_texts(records, columns.text),
        ids=None if columns.id is None else read(columns.id, cells.id_cell, pa.string()),
        labels=None if columns.labels is None else read(columns.labels, labels_of, NAMES_TYPE),
        groups=None if columns.group is None else read(columns.group, cells.groups_cell, NAMES_TYPE),
        numbers={name: read(name, cells.number_cell, pa.float64()) for name in columns.numbers},
        categories={name: read(name, cells.category_cell, pa.string()) for name in columns.categories},
    )


def _texts(records: Records, names: tuple[str, ...]) -> pa.Array:
    """The texts of the rows, joined. Raises DataError for a row without any."""
    if not names:
        return pa.array([""] * records.n_rows, TEXT_TYPE)
    found = [_convert(records, name, cells.text_cell) for name in names]
    joined = [JOIN.join([text for text in texts if text is not None]) for texts in zip(*found, strict=True)]
    for index, text in enumerate(joined):
        if not text:
            raise DataError(
                "a row without text", where=records.place(index, ", ".join(names)),
                why="the text is missing or empty", fix="fill it in, or remove the row",
            )  # fmt: skip
    return _array(records, names[0], joined, TEXT_TYPE)


def _convert(records: Records, column: str, cell: Callable[[Any], Any]) -> list[Any]:
    """The cells of a column by their meaning."""
    found: list[Any] = []
    try:
        for value in records.columns[column]:
            found.append(cell(value))  # the number found so far is the row of a wrong cell
    except cells.WrongCell as error:
        raise DataError(str(error), where=records.place(len(found), column), fix=error.fix) from None
    return found


def _array(records: Records, column: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array. Raises DataError for text that no UTF-8 can hold."""
    try:
        return pa.array(values, kind)
    except (UnicodeEncodeError, pa.ArrowInvalid) as error:
        index = next((i for i, value in enumerate(values) if _not_text(value)), 0)
        raise DataError(
            "a text with half a surrogate pair", where=records.place(index, column), why=str(error)[:300],
            fix="write the character itself, or both halves",
        ) from error  # fmt: skip


def _not_text(value: Any) -> bool:
    try:
        str(value if not isinstance(value, list) else "".join(value)).encode()
    except UnicodeEncodeError:
        return True
    return False
