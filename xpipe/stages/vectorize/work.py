"""Texts at a worker: terms are counted, the vocabulary is chosen, rows are written. One part of rows at a time.

Holds no arithmetic: that is the room `text`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from xpipe.engine.messages import FileEntry, Finished, Unit, entry_of_file, write_entry
from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json
from xpipe.ground.sparse import to_triple
from xpipe.stages.matrices import MatrixRef, write_matrix_part
from xpipe.stages.row_parts import CATEGORY, NUMBER, SAMPLE, TEXT, open_rows
from xpipe.text import ColumnFeatures, TableVectorizer, TermCounts, Vectorizer, VectorizerOptions
from xpipe.text.columns import ColumnsContent

FOLDER = "vectorizer/vectorizer"  # below the folder of the artifact, the folder that the run gets
AT_ONCE = 16  # chunks of counts in memory together
FIX = "give the same command again"


@dataclass(frozen=True)
class Texts:
    """What all steps start from. with_texts: whether the tables have a column of texts."""

    texts: MatrixRef
    options: VectorizerOptions
    with_texts: bool


@dataclass(frozen=True)
class TextPart(Unit):
    """Part `index` of a split; its size is in rows."""

    split: str
    index: int


@dataclass(frozen=True)
class Counted(Unit):
    """All parts of the training split, counted; rows: how many they have together."""

    parts: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class Chosen:
    """The features: terms of the vocabulary, and all of them; counted: different terms of all training texts."""

    n_terms: int
    n_features: int
    counted: int


@dataclass(frozen=True)
class Fitted:
    """What rows are written with. chosen: part of it, so that rows of another vocabulary are never taken for these."""

    texts: MatrixRef
    chosen: Chosen
    vectorizer: str  # digest of its files


@dataclass(frozen=True)
class RowCounts:
    """Entries of a part, and rows without any."""

    entries: int
    empty: int


def count_part(folder: str, unit: TextPart, shared: Texts) -> Finished[int]:
    """Count the terms of one part, and what its other columns show; gives the number of different terms."""
    rows = open_rows(shared.texts, unit.split).part(unit.index)
    numbers, categories = columns_of(rows)
    seen = ColumnFeatures.count(numbers, categories)
    entries = [write_entry(folder, columns_path(unit.name), dump_json(seen.to_json()))]
    if not shared.with_texts:
        return Finished(tuple(entries), 0)
    counts = new_vectorizer(shared.options).count(rows.column(TEXT), threads=1)  # workers are the threads
    path = counts_path(unit.name)
    counts.write(files.join(folder, path))
    return Finished((*entries, entry_of_file(folder, path)), len(counts.terms))


def choose_terms(folder: str, unit: Counted, shared: Texts) -> Finished[Chosen]:
    """Choose the vocabulary from all counts, and write the vectorizer."""
    shown = [read_json(files.join(folder, columns_path(part)), ColumnsContent, fix=FIX) for part in unit.parts]
    columns = ColumnFeatures.merge(ColumnFeatures.from_json(content) for content in shown)
    texts, counted = None, 0
    if shared.with_texts:
        merged = _merged(folder, unit.parts)
        counted = len(merged.terms)
        texts = new_vectorizer(shared.options).fit_counts(merged, unit.rows)
    vectorizer = TableVectorizer(texts, columns)
    if not vectorizer.n_features:
        raise ConfigError("no feature is left", where="data.columns", why="all cells of these columns are missing")
    target = files.join(folder, FOLDER)
    vectorizer.save(target)
    entries = tuple(entry_of_file(folder, files.join(FOLDER, name)) for name in files.listing(target))
    return Finished(entries, Chosen(vectorizer.n_terms, vectorizer.n_features, counted))


def new_vectorizer(options: VectorizerOptions) -> Vectorizer:
    """A vectorizer with these options, not fitted yet."""
    return Vectorizer(**dataclasses.asdict(options))


def _merged(folder: str, parts: tuple[str, ...]) -> TermCounts:
    """The counts of all parts together, with a few of them in memory at a time."""
    merged: list[TermCounts] = []
    for start in range(0, len(parts), AT_ONCE):
        some = [TermCounts.read(files.join(folder, counts_path(part))) for part in parts[start : start + AT_ONCE]]
        merged = [TermCounts.merge([*merged, *some])]
    return merged[0]


def write_rows(folder: str, unit: TextPart, shared: Fitted) -> Finished[RowCounts]:
    """Write the features of one part."""
    rows = open_rows(shared.texts, unit.split).part(unit.index)
    vectorizer = _load(files.join(folder, FOLDER), shared.vectorizer)
    triple = to_triple(vectorizer.transform(rows.column(TEXT), *columns_of(rows), threads=1))
    entry = write_matrix_part(folder, "features", unit.split, unit.index, rows.column(SAMPLE).to_numpy(), triple)
    empty = int((triple.indptr[1:] == triple.indptr[:-1]).sum())
    return Finished((entry,), RowCounts(len(triple.indices), empty))


@lru_cache(maxsize=1)
def _load(folder: str, digest: str) -> TableVectorizer:
    """The vectorizer, once per worker. digest: differs where the files do."""
    return TableVectorizer.load(folder)


def columns_of(rows: pa.Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """(numbers, categories) of a part, by the names of the columns."""
    return _named(rows, NUMBER), _named(rows, CATEGORY)


def _named(rows: pa.Table, prefix: str) -> dict[str, Any]:
    names = (name for name in rows.schema.names if name.startswith(prefix))
    return {name.removeprefix(prefix): rows.column(name).combine_chunks() for name in names}


def counts_path(part: str) -> str:
    """Where the counts of a part are until the vocabulary is chosen."""
    return f"counts/{part}.parquet"


def columns_path(part: str) -> str:
    """Where what a part shows of further columns is."""
    return f"counts/{part}.json"


def digest_of(entries: tuple[FileEntry, ...]) -> str:
    """A text that differs where a file does."""
    return " ".join(sorted(entry.sha256 for entry in entries))


def parts_of(artifact_files: tuple[FileEntry, ...]) -> Iterator[TextPart]:
    """One unit per part of the texts."""
    numbers: dict[str, int] = {}
    for entry in artifact_files:
        split = str(entry.split)
        index = numbers.get(split, 0)
        numbers[split] = index + 1
        yield TextPart(f"{split}-{index:05d}", entry.rows or 0, split, index)
