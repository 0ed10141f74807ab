"""Rows of a table to predict: read once in order, kept in blocks, and taken through the vectorizer of the run.

Holds no grammar of tables (`formats.tables`) and no features (`text`). Labels and groups of new rows are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from xpipe.errors import ConfigError
from xpipe.formats.file_names import SVMLIGHT_ENDINGS
from xpipe.formats.layout import recognise
from xpipe.formats.matrix_formats import MATRIX_FORMATS
from xpipe.formats.parquet_files import open_parquet
from xpipe.formats.table_files import TableFile, find_tables
from xpipe.formats.table_raw import TEXT as RAW_TEXT
from xpipe.formats.tables import TableColumns, TableRows, iterate_table
from xpipe.ground import files
from xpipe.ground.sparse import canonical
from xpipe.stages.predict.block_rows import BlockRows
from xpipe.stages.read.params import DataParams
from xpipe.stages.read.tables.sources import columns_of
from xpipe.stages.read.work import RowRange
from xpipe.stages.row_parts import CATEGORY, ID, NUMBER, TEXT, rows_path, write_rows
from xpipe.text import TableVectorizer

TABLE_ENDINGS = (".parquet",)  # of formats that tables and matrices share: a run of tables reads tables
INPUT = "input"  # the folder of the blocks below the scratch folder
FIX = "give the same command again"


@dataclass(frozen=True)
class TableBlocks:
    """Blocks of table rows in a scratch folder. vectorizer: its folder. counts: rows of each block."""

    vectorizer: str
    n_features: int
    counts: tuple[int, ...]

    def blocks(self) -> list[RowRange]:
        """The blocks as they were read; one without rows where the table has none."""
        starts = np.cumsum([0, *self.counts]).tolist()
        return [RowRange(index, starts[index], count) for index, count in enumerate(self.counts)]

    def read(self, folder: str, rows: RowRange) -> BlockRows:
        """The features of a block."""
        with open_parquet(files.join(folder, rows_path(INPUT, "test", rows.index)), [], fix=FIX) as part:
            table = part.read(use_threads=False).combine_chunks()
        further = {prefix: _columns(table, prefix) for prefix in (NUMBER, CATEGORY)}
        vectorizer = _vectorizer(self.vectorizer, repr(files.stamp(files.join(self.vectorizer, "columns.json"))))
        X = vectorizer.transform(table.column(TEXT), further[NUMBER], further[CATEGORY], threads=1)
        ids = table.column(ID).to_pylist() if ID in table.column_names else None
        return BlockRows(np.arange(rows.start, rows.stop), ids, canonical(X, "rows"))


def is_table(place: str) -> bool:
    """Whether an input of a run that was made from texts is a table: all but matrices of features are."""
    matrix = (*SVMLIGHT_ENDINGS, *(each.ending for each in MATRIX_FORMATS if each.ending not in TABLE_ENDINGS))
    return not place.removesuffix(".gz").endswith(matrix)


def stage_table(folder: str, place: str, params: DataParams, vectorizer: str, split: str | None) -> TableBlocks:
    """Read a table in order and keep its rows in blocks below `folder`.

    params: section `data` of the run, which names the columns. split: of a folder with texts by line.
    """
    loaded, counts = TableVectorizer.load(vectorizer), list[int]()
    for rows in _rows(place, params, split):
        write_rows(folder, INPUT, "test", len(counts), _kept(rows))
        counts.append(rows.n_rows)
    if not counts:
        write_rows(folder, INPUT, "test", 0, pa.table({TEXT: pa.array([], pa.string())}))
        counts = [0]
    return TableBlocks(vectorizer, loaded.n_features, tuple(counts))


def _rows(place: str, params: DataParams, split: str | None) -> Iterator[TableRows]:
    """The rows of all files at a place, at most `part_rows` at a time."""
    columns = TableColumns(text=(RAW_TEXT,)) if params.train is None else replace(columns_of(params, None), group=None)
    for file in [_text_lines(place, params, split)] if params.train is None else find_tables(place, what="INPUT"):
        yield from iterate_table(file, columns, batch_rows=params.part_rows)


def _text_lines(place: str, params: DataParams, split: str | None) -> TableFile:
    """A file with one text per line, or that of a split of a folder in PECOS's raw layout."""
    path = place
    if files.is_folder(place):
        layout = recognise(place, format=params.format)
        texts = {name: found.texts for name, found in layout.splits.items() if found.texts}
        wanted = split or next((name for name in ("test", "dev", "train") if name in texts), "test")
        if wanted not in texts:
            raise ConfigError(f"the input has no texts of split {wanted!r}", where=place, fix="give one file of texts")
        path = files.join(place, str(texts[wanted]))
    return TableFile(path, "lines", "gzip" if path.endswith(".gz") else None)


def _kept(rows: TableRows) -> pa.Table:
    """What is kept of some rows: ids, texts and further columns."""
    columns = {TEXT: rows.texts}
    if rows.ids is not None:
        columns[ID] = rows.ids
    columns |= {NUMBER + name: values for name, values in rows.numbers.items()}
    columns |= {CATEGORY + name: values for name, values in rows.categories.items()}
    return pa.table(columns)


def _columns(table: pa.Table, prefix: str) -> dict[str, pa.Array]:
    """The columns with a prefix, by their names without it."""
    found = (name for name in table.column_names if name.startswith(prefix))
    return {name.removeprefix(prefix): table.column(name).combine_chunks() for name in found}


@lru_cache(maxsize=1)
def _vectorizer(folder: str, stamp: str) -> TableVectorizer:
    """The vectorizer, once per worker. stamp: differs where another took its place."""
    return TableVectorizer.load(folder)
