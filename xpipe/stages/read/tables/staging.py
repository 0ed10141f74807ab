"""Tables at a worker, first pass: every file is parsed once, and its rows are staged in small files in one form.

Holds no grammar of files: that is `formats.tables`. Names, numbers of labels and splits are not known yet (`joining`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xpipe.engine.messages import FileEntry, Finished, Unit, write_entry
from xpipe.errors import DataError
from xpipe.formats.table_files import TableFile
from xpipe.formats.table_records import column_names, iterate_records
from xpipe.formats.tables import TableColumns, TableRows, iterate_table
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.arrays import write_array
from xpipe.stages.read.tables.sources import Sources

PIECE_ROWS = 65_536  # rows of a Parquet file that one unit reads; other files are read by one unit each
NUMBER, CATEGORY = "number:", "category:"  # before the names of further columns
TEXT, ID, LABELS, GROUPS = "text", "id", "labels", "groups"  # columns of staged rows


@dataclass(frozen=True)
class Piece(Unit):
    """Some rows of one file. row_groups: those of a Parquet file. first: the number of its first row in the file."""

    split: str
    file: TableFile
    row_groups: tuple[int, ...] | None = None
    first: int = 0


@dataclass(frozen=True)
class Staging:
    """What all pieces share. batch_rows: rows of one staged file."""

    sources: Sources
    batch_rows: int


@dataclass(frozen=True)
class StagedPiece:
    """The rows of each staged file of a piece, and the bytes of their texts."""

    rows: tuple[int, ...]
    text_bytes: int


def pieces_of(sources: Sources) -> list[Piece]:
    """The units of the first pass, in the order of the rows."""
    found: list[Piece] = []
    for source in sources.splits:
        for number, file in enumerate(source.files):
            name = f"{source.split}-{number:05d}"
            if file.kind == "parquet" and files.is_local(file.path):
                found += _parquet_pieces(name, source.split, file)
            else:
                found.append(Piece(name, 0, source.split, file))
    return found


def _parquet_pieces(name: str, split: str, file: TableFile) -> Iterator[Piece]:
    """Row groups of a Parquet file, bundled to about PIECE_ROWS rows."""
    from xpipe.formats.table_parquet import group_rows

    bundle: list[int] = []
    first = size = number = 0
    for group, rows in enumerate(group_rows(file)):
        if bundle and size + rows > PIECE_ROWS:
            yield Piece(f"{name}-{number:05d}", size, split, file, tuple(bundle), first)
            first, bundle, size, number = first + size, [], 0, number + 1
        bundle.append(group)
        size += rows
    yield Piece(f"{name}-{number:05d}", size, split, file, tuple(bundle), first)


def stage_piece(folder: str, unit: Piece, shared: Staging) -> Finished[StagedPiece]:
    """Parse the rows of a piece and stage them, with the names and the hashes of the ids that occur in them."""
    columns = columns_in(unit, shared.sources)
    entries: list[FileEntry] = []
    rows: list[int] = []
    labels: set[str] = set()
    groups: set[str] = set()
    hashes: list[np.ndarray] = [np.zeros(0, np.uint64)]
    text_bytes = 0
    found = iterate_table(
        unit.file, columns, batch_rows=shared.batch_rows, row_groups=unit.row_groups, first=unit.first
    )
    for batch in found:
        entries.append(_write(folder, staged_path(unit.name, len(rows)), batch))
        rows.append(batch.n_rows)
        text_bytes += batch.texts.nbytes
        for names, column in ((labels, batch.labels), (groups, batch.groups)):
            if column is not None:
                names.update(column.flatten().unique().to_pylist())
        if batch.ids is not None:
            hashes.append(hash_ids(batch.ids))
    names_json = dump_json({"labels": sorted(labels), "groups": sorted(groups)})
    entries.append(write_entry(folder, names_path(unit.name), names_json))
    if columns.id is not None:
        entries.append(write_array(folder, ids_path(unit.name), np.concatenate(hashes)))
    return Finished(tuple(entries), StagedPiece(tuple(rows), text_bytes))


def columns_in(unit: Piece, sources: Sources) -> TableColumns:
    """The columns that are read of a piece. Rows that are held out need no group."""
    columns = sources.columns_of(unit.split)
    if unit.split != "train" and columns.group is not None:
        names = column_names(unit.file, columns.delimiter)
        if columns.group not in names:
            return dataclasses.replace(columns, group=None)
    return columns


def staged_path(piece: str, number: int) -> str:
    """Where staged rows are, below the stage's folder."""
    return f"staged/{piece}/{number:05d}.arrow"


def names_path(piece: str) -> str:
    """Where the names of the labels and groups of a piece are."""
    return f"staged/{piece}/names.json"


def ids_path(piece: str) -> str:
    """Where the hashes of the ids of a piece are."""
    return f"staged/{piece}/ids.npy"


def hash_ids(ids: pa.Array) -> np.ndarray:
    """64 bits of a digest of each id: equal ids have equal ones, and others hardly ever."""
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in ids.to_pylist()]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _write(folder: str, path: str, rows: TableRows) -> FileEntry:
    """Write staged rows."""
    columns: dict[str, pa.Array] = {TEXT: rows.texts}
    named = {ID: rows.ids, LABELS: rows.labels, GROUPS: rows.groups}
    columns |= {name: array for name, array in named.items() if array is not None}
    columns |= {NUMBER + name: array for name, array in rows.numbers.items()}
    columns |= {CATEGORY + name: array for name, array in rows.categories.items()}
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return write_entry(folder, path, sink.getvalue(), rows=rows.n_rows)


def read_staged(folder: str, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Staged rows; columns: those that are read, by default all. A column that is not there is left out."""
    full = files.join(folder, path)
    try:
        source = pa.memory_map(full) if files.is_local(full) else pa.BufferReader(files.read_bytes(full))
        table = pa.ipc.open_file(source).read_all()
    except (pa.ArrowException, OSError) as error:
        fix = "give the same command again"
        raise DataError("staged rows cannot be read", where=full, why=str(error), fix=fix) from error
    return table if columns is None else table.select([name for name in columns if name in table.schema.names])


def place_of_row(file: TableFile, columns: TableColumns, row: int, column: str | None) -> str:
    """Where a row of a file is, for messages: the file is read again up to it."""
    wanted = [column] if column is not None else columns.wanted
    for records in iterate_records(file, wanted, delimiter=columns.delimiter):
        if row < records.first + records.n_rows:
            return records.place(row - records.first, column)
    return f"{file.path}, row {row}"
