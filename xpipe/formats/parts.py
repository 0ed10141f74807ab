"""Sparse matrices on disk as a sequence of Arrow files, each with a fixed range of rows; local ones are memory-mapped.

Holds no meaning of the rows and no places of the files: those are the store's.
Columns of a part: `sample` int64 (row number in the input), `indices` large_list<int32>, `values` large_list<float32>.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.regular_files import open_regular
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import concatenate, take_rows

SCHEMA = pa.schema(
    [("sample", pa.int64()), ("indices", pa.large_list(pa.int32())), ("values", pa.large_list(pa.float32()))]
)


class WrittenPart(TypedDict):
    """The size of a part that was written, and its digest; entries: stored values of all rows."""

    rows: int
    entries: int
    bytes: int
    sha256: str


def write_part(path: str, samples: np.ndarray, triple: Triple) -> WrittenPart:
    """Write one part. The file appears only when it is complete."""
    offsets = pa.array(triple.indptr, type=pa.int64())
    batch = pa.record_batch(
        [
            pa.array(samples, type=pa.int64()),
            pa.LargeListArray.from_arrays(offsets, pa.array(triple.indices, type=pa.int32())),
            pa.LargeListArray.from_arrays(offsets, pa.array(triple.values, type=pa.float32())),
        ],
        schema=SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    digested = files.write_digested(path, sink.getvalue())
    return WrittenPart(rows=triple.n_rows, entries=len(triple.indices), **digested)


def read_part(path: str, mapped: bool = True) -> tuple[np.ndarray, Triple]:
    """(samples, CSR arrays) of one part. The arrays are views into the mapped file where it is local.

    mapped=False reads the file into memory, which is freed with the arrays: for large parts that are needed once.
    """
    try:
        if mapped and files.is_local(path):
            with open_regular(path):  # a pipe in its place would make Arrow wait for ever
                source = pa.memory_map(path, "rb")
        else:
            source = pa.BufferReader(files.read_bytes(path))
        batch = pa.ipc.open_file(source).get_batch(0)
        batch.validate()  # lengths against the bytes there are: a damaged one must not lead outside the file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            "a stored part cannot be read", where=path, why=str(error), fix="give the same command again"
        ) from error
    if batch.schema != SCHEMA:
        raise DataError("a stored part has other columns", where=path, fix="xpipe clean, then the same command again")
    lists, values = batch.column(1), batch.column(2)
    triple = Triple(lists.offsets.to_numpy(), lists.values.to_numpy(), values.values.to_numpy())
    if len(triple.indices) != len(triple.values) or triple.indptr[-1] != len(triple.indices):
        raise DataError("a stored part does not fit together", where=path, fix="give the same command again")
    return batch.column(0).to_numpy(), triple


@lru_cache(maxsize=1024)  # an open local part costs a mapping, no memory of its own
def _mapped_part(path: str, inode: int) -> tuple[np.ndarray, Triple]:
    """`read_part`, kept. `inode` differs where a part was rebuilt under its old name."""
    return read_part(path)


@dataclass(frozen=True)
class PartedMatrix:
    """A matrix kept as parts: `paths[p]` holds rows `starts[p]` to `starts[p + 1] - 1`."""

    paths: tuple[str, ...]
    starts: tuple[int, ...]
    n_columns: int

    @property
    def n_rows(self) -> int:
        return self.starts[-1]

    def part(self, index: int) -> tuple[np.ndarray, Triple]:
        """(samples, CSR arrays) of one part."""
        path = self.paths[index]
        return _mapped_part(path, os.stat(path).st_ino) if files.is_local(path) else read_part(path)

    def parts(self) -> Iterator[tuple[np.ndarray, Triple]]:
        """(samples, CSR arrays) of each part, in order."""
        for index in range(len(self.paths)):
            yield self.part(index)

    def load(self) -> Triple:
        """The whole matrix in memory."""
        return concatenate([triple for _, triple in self.parts()])

    def samples(self) -> np.ndarray:
        """The sample number of every row, int64."""
        return np.concatenate([samples for samples, _ in self.parts()] or [np.zeros(0, dtype=np.int64)])

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, Triple]:
        """Rows in any order, as (samples, CSR arrays) in the order asked for; each part is opened once."""
        order = np.argsort(rows, kind="stable")
        ordered = np.asarray(rows)[order]
        cuts = np.searchsorted(ordered, np.asarray(self.starts))
        samples, pieces = [], []
        for index in range(len(self.paths)):
            inside = ordered[cuts[index] : cuts[index + 1]] - self.starts[index]
            if len(inside):
                part_samples, triple = self.part(index)
                samples.append(part_samples[inside])
                pieces.append(take_rows(triple, inside))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        taken = np.concatenate(samples) if samples else np.zeros(0, dtype=np.int64)
        return taken[back], take_rows(concatenate(pieces), back)
