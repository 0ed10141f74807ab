"""Sparse matrices on disk as a row of Arrow files, each with a fixed range of rows; local ones are memory-mapped.

Holds files <-> CSR only: what the rows mean, and where the files lie, is the store's business.
Columns of a part: `sample` int64 (row number in the input), `indices` large_list<int32>, `values` large_list<float32>.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.sparse import Triple

SCHEMA = pa.schema(
    [("sample", pa.int64()), ("indices", pa.large_list(pa.int32())), ("values", pa.large_list(pa.float32()))]
)


def write_part(path: str, samples: np.ndarray, triple: Triple) -> dict:
    """Write one part, whole or not at all; returns its rows, non-zeros, bytes and sha256."""
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
    content = sink.getvalue()
    with files.open_write(path) as stream:
        stream.write(content)
    return {
        "rows": triple.n_rows,
        "entries": len(triple.indices),
        "bytes": content.size,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def read_part(path: str, mapped: bool = True) -> tuple[np.ndarray, Triple]:
    """(samples, CSR arrays) of one part; views into the mapped file where it is local.

    mapped=False: in memory of its own, which goes when the arrays go; for large parts that are needed once.
    """
    try:
        if mapped and files.is_local(path):
            with files.open_regular(path):  # a pipe in its place would make Arrow wait for ever
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
    """`inode` tells a part that was rebuilt under its old name from the one mapped before."""
    return read_part(path)


@dataclass(frozen=True)
class PartedMatrix:
    """A matrix kept as parts: `paths[p]` holds rows `starts[p]` to `starts[p + 1]`."""

    paths: tuple[str, ...]
    starts: tuple[int, ...]
    n_columns: int

    @property
    def n_rows(self) -> int:
        return self.starts[-1]

    def part(self, index: int) -> tuple[np.ndarray, Triple]:
        path = self.paths[index]
        return _mapped_part(path, os.stat(path).st_ino) if files.is_local(path) else read_part(path)

    def parts(self) -> Iterator[tuple[np.ndarray, Triple]]:
        for index in range(len(self.paths)):
            yield self.part(index)

    def load(self) -> Triple:
        """The whole matrix in memory."""
        return concatenate([triple for _, triple in self.parts()])

    def samples(self) -> np.ndarray:
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


def take_rows(triple: Triple, rows: np.ndarray) -> Triple:
    """The given rows of CSR arrays, in the order given."""
    lengths = triple.indptr[rows + 1] - triple.indptr[rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.repeat(triple.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return Triple(indptr, triple.indices[positions], triple.values[positions])


def slice_rows(triple: Triple, start: int, stop: int) -> Triple:
    first, last = int(triple.indptr[start]), int(triple.indptr[stop])
    return Triple(triple.indptr[start : stop + 1] - first, triple.indices[first:last], triple.values[first:last])


def concatenate(pieces: Sequence[Triple]) -> Triple:
    """CSR arrays of all pieces, one below the other."""
    if len(pieces) == 1:
        return pieces[0]
    lengths = np.concatenate([np.diff(piece.indptr) for piece in pieces] or [np.zeros(0, dtype=np.int64)])
    return Triple(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([piece.indices for piece in pieces] or [np.zeros(0, dtype=np.int32)]),
        np.concatenate([piece.values for piece in pieces] or [np.zeros(0, dtype=np.float32)]),
    )
