"""Ids, groups and texts of rows between stages: parts of tables that a manifest lists, one row per sample.

Holds no numbers of features or labels: those are `matrices`. Parts have the rows of the parts of the matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpipe.engine.manifest import MANIFEST
from xpipe.engine.messages import FileEntry, write_entry
from xpipe.engine.store import Store
from xpipe.errors import DataError
from xpipe.formats.parquet_files import open_parquet
from xpipe.ground import files
from xpipe.stages.matrices import FIX, MatrixRef

TEXTS, IDS = "texts", "ids"  # the artifacts
SAMPLE, TEXT, ID, GROUP = "sample", "text", "id", "group"  # their columns
NUMBER, CATEGORY = "number:", "category:"  # before the names of further columns of texts


def rows_path(artifact: str, split: str, index: int) -> str:
    """Where part `index` of an artifact lies, below the folder of its stage."""
    return f"{artifact}/split={split}/part-{index:05d}.parquet"


def write_rows(folder: str, artifact: str, split: str, index: int, table: pa.Table) -> FileEntry:
    """Write one part below a stage's folder. The same rows give the same bytes."""
    table = table.combine_chunks()  # pages begin where arrays do, and these may be those of several files
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=max(1, table.num_rows),
        compression="zstd",
        use_dictionary=False,
        write_page_checksum=True,
    )
    return write_entry(folder, rows_path(artifact, split, index), sink.getvalue(), split=split, rows=table.num_rows)


@dataclass(frozen=True)
class RowParts:
    """Rows of a split in parts: `paths[p]` holds rows `starts[p]` to `starts[p + 1] - 1`."""

    paths: tuple[str, ...]
    starts: tuple[int, ...]

    def part(self, index: int, columns: tuple[str, ...] | None = None) -> pa.Table:
        """The rows of one part; columns: those that are read, by default all."""
        with open_parquet(self.paths[index], [], fix=FIX) as parquet:
            return parquet.read(columns=None if columns is None else list(columns), use_threads=False)

    def take(self, rows: np.ndarray) -> pa.Table:
        """Rows in any order. Each part is opened once."""
        order = np.argsort(rows, kind="stable")
        ordered = np.asarray(rows)[order]
        cuts = np.searchsorted(ordered, np.asarray(self.starts))
        pieces = [
            _kept_part(self, index).take(pa.array(ordered[cuts[index] : cuts[index + 1]] - self.starts[index]))
            for index in range(len(self.paths))
            if cuts[index + 1] > cuts[index]
        ]
        if not pieces:
            return _kept_part(self, 0).slice(0, 0)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(pieces).take(pa.array(back))


@lru_cache(maxsize=64)
def _kept_part(parts: RowParts, index: int) -> pa.Table:
    """A part, kept: ids and groups are small beside features."""
    return parts.part(index)


@lru_cache(maxsize=64)
def open_rows(where: MatrixRef, split: str) -> RowParts:
    """The rows of a split, at a worker. The manifest is read once; rows are read when asked for."""
    manifest = Store(files.parent(where.folder)).open(where.folder)
    path = files.join(where.folder, MANIFEST)
    if manifest is None or where.name not in manifest.artifacts:
        raise DataError(f"a stored stage has no {where.name}", where=path, fix=FIX)
    parts = [entry for entry in manifest.artifacts[where.name].files if entry.split == split]
    starts = np.cumsum([0, *(entry.rows or 0 for entry in parts)]).tolist()
    return RowParts(tuple(files.join(where.folder, entry.path) for entry in parts), tuple(starts))
