"""One Parquet file: opened safely, its columns checked, its lists turned into CSR arrays, its rows put in order.

Holds no meaning of any file: `parquet_matrix` reads matrices, `parquet` reads datasets of many files.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.regular_files import open_regular
from xpipe.ground.sparse import Triple, canonical, to_matrix
from xpipe.ground.sparse_rows import concatenate

Columns = list[tuple[str, Any]]  # names and Arrow types
WIDEST = 2**31 - 1  # indices are int32
# what pyarrow raises for files that lie: its own errors, and those of sizes that cannot be
UNREADABLE = (pa.ArrowException, OSError, MemoryError, OverflowError, ValueError, KeyError, TypeError, IndexError)


class open_parquet:
    """A Parquet file that has the columns wanted; raises DataError for any other file.

    columns: (name, type) pairs. sha256: the digest that the bytes must have. fix: what to do about a wrong file.
    """

    def __init__(self, path: str, columns: Columns, *, sha256: str | None = None, fix: str = "write it again"):
        self.path, self.columns, self.sha256, self.fix = files.local(path), columns, sha256, fix

    def __enter__(self) -> pq.ParquetFile:
        content = self._content()
        if self.sha256 is not None:
            _check_digest(self.path, content, self.sha256, self.fix)
        try:
            self.file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
            schema = self.file.schema_arrow
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        self._check_columns(schema)
        return self.file

    def _content(self) -> pa.Buffer:
        """The bytes of the file. A local file is mapped, so that only what is needed is read."""
        try:
            if not files.is_local(self.path):
                return pa.py_buffer(files.read_bytes(self.path))
            with open_regular(self.path) as stream:
                if not os.fstat(stream.fileno()).st_size:
                    return pa.py_buffer(b"")
                return pa.py_buffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError as error:
            raise DataError("a Parquet file is missing", where=self.path, fix=self.fix) from error
        except DataError:
            raise
        except OSError as error:
            raise self._unreadable(error) from error

    def _check_columns(self, schema: pa.Schema) -> None:
        """Raise DataError unless the columns wanted are there, each once."""
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise DataError(
                f"a Parquet file with the column {twice[0][:60]!r} twice",
                where=self.path,
                why="which one is meant is not guessed",
                fix=self.fix,
            )
        have = {field.name: field.type for field in schema}
        wrong = [name for name, kind in self.columns if have.get(name) != kind]
        if wrong:
            raise DataError(
                f"a Parquet file without the columns {', '.join(wrong)}",
                where=self.path,
                why=f"it has {', '.join(f'{name} {kind}' for name, kind in have.items())[:400]}",
                fix="columns wanted: " + ", ".join(f"{name} {kind}" for name, kind in self.columns),
            )

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.file.close()
        if isinstance(error, UNREADABLE) and not isinstance(error, DataError):  # damage inside shows when it is read
            raise self._unreadable(error) from error

    def _unreadable(self, error: BaseException) -> DataError:
        why = str(error)[:300] or type(error).__name__
        return DataError("not a whole Parquet file", where=self.path, why=why, fix=self.fix)


def read_columns(path: str, columns: Columns | None = None, *, fix: str = "write it again") -> pa.Table:
    """These columns of a Parquet file, or all of them. Raises DataError for any other file.

    `pq.read_table` on a Python stream leaves a thread of pyarrow's that may still call Python: a process that ends soon
    after is then aborted, whatever its exit code was to be. A buffer needs no Python.
    """
    with open_parquet(path, columns or [], fix=fix) as file:
        return file.read(columns=None if columns is None else [name for name, _ in columns])


_digests: dict[str, tuple[Any, str]] = {}  # path -> (stamp of the file, its digest): parts are opened many times


def _check_digest(path: str, content: pa.Buffer, wanted: str, fix: str) -> None:
    """Raise DataError for a file with another digest. The digest of an unchanged file is computed once."""
    stamp = files.stamp(path) if files.is_local(path) else None
    known = _digests.get(path)
    if stamp is not None and known is not None and known[0] == stamp:
        found = known[1]
    else:
        found = hashlib.sha256(content).hexdigest()
        if len(_digests) > 100_000:
            _digests.clear()
        _digests[path] = (stamp, found)
    if found != wanted:
        raise DataError(
            "a file has another digest than dataset.json says",
            where=path,
            why=f"its SHA-256 is {found[:16]}..., not {wanted[:16]}...: it was changed or damaged after it was written",
            fix=fix,
        )


def declared_width(schema: pa.Schema, path: str, *names: str) -> int:
    """The number of columns in a schema's metadata, under the first of these names that is there."""
    meta = schema.metadata or {}
    text = next((meta[name.encode()] for name in names if name.encode() in meta), b"")
    if not re.fullmatch(rb"\d{1,10}", text) or int(text) > WIDEST:
        raise DataError(
            "a Parquet file without its number of columns",
            where=path,
            why=f"the schema's metadata has {text[:40]!r} for it"
            if text
            else f"the schema's metadata has no {' or '.join(names)}",
            fix="write it with xpipe.formats.write_sparse",
        )
    return int(text)


def lists_to_rows(table: pa.Table, indices: str, values: str, path: str) -> Triple:
    """CSR arrays of two columns of lists. Raises DataError for nulls and for lists of different lengths."""
    pieces: list[Triple] = []
    for chunk, value_chunk in zip(table[indices].chunks, table[values].chunks, strict=True):
        if any(array.null_count for part in (chunk, value_chunk) for array in (part, part.flatten())):
            raise DataError(
                f"a null among {indices} or {values}", where=path, fix="write empty lists for rows without entries"
            )
        offsets, value_offsets = chunk.offsets.to_numpy().astype(np.int64), value_chunk.offsets.to_numpy()
        lengths = np.diff(offsets)
        uneven = np.flatnonzero(lengths != np.diff(value_offsets))
        if len(uneven):
            raise DataError(
                f"{indices} and {values} of a row have different lengths",
                where=f"{path}, row {sum(piece.n_rows for piece in pieces) + int(uneven[0])}",
                fix="write one value for each index",
            )
        pieces.append(Triple(offsets - offsets[0], chunk.flatten().to_numpy(), value_chunk.flatten().to_numpy()))
    return concatenate(pieces)


def checked_matrix(triple: Triple, n_columns: int, what: str) -> sp.csr_matrix:
    """A matrix of arrays that were read, checked: others may have written or changed the file."""
    return canonical(to_matrix(triple, n_columns), what)


def sample_numbers(table: pa.Table, path: str) -> np.ndarray:
    """The column `sample`, int64. Raises DataError for nulls, other types and negative numbers."""
    column = table["sample"]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise DataError(
            "the column `sample` must number every row", where=path,
            why=f"it is {column.type}" + (f" with {column.null_count:,} nulls" if column.null_count else ""),
            fix="write whole numbers from 0 on",
        )  # fmt: skip
    numbers: np.ndarray = column.to_numpy()
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) > np.iinfo(np.int64).max):
        raise DataError("a sample number is out of range", where=path, fix="write whole numbers from 0 on")
    return numbers.astype(np.int64, copy=False)


def row_order(samples: np.ndarray, path: str) -> np.ndarray | None:
    """The order that sorts the rows by their numbers; None where they are sorted.

    Raises DataError unless each number from 0 on is there once.
    """
    expected = np.arange(len(samples))
    if np.array_equal(samples, expected):
        return None
    order = np.argsort(samples, kind="stable")
    wrong = np.flatnonzero(samples[order] != expected)
    if len(wrong):
        raise DataError(
            f"the column `sample` is not a numbering of {len(samples):,} rows from 0 on",
            where=f"{path}, sample {samples[order][wrong[0]]} where {wrong[0]} should be",
            why="a row is missing or there twice",
            fix="write each row once, or leave the column out if rows are in the order of the true labels",
        )
    return order
