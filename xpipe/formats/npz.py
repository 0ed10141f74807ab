"""scipy sparse npz files: read without pickles, written as a stream with the same bytes every time.

Holds no names of dataset files (`X.trn.npz` and the like): those are in `file_names`.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.blocks import open_stream, write_stream
from xpipe.formats.npz_arrays import assemble
from xpipe.ground import npy_header
from xpipe.ground.sparse import Triple, canonical, to_triple

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: files must not depend on the clock
PIECE = 1 << 20  # entries written at a time


def read_npz(path: str) -> sp.csr_matrix:
    """The matrix of a file of `scipy.sparse.save_npz`, in any of its formats. No pickles are loaded.

    Parameters
    ----------
    path : str
        A local path or an fsspec URL.

    Returns
    -------
    csr_matrix
        float32, with sorted indices.

    Raises
    ------
    DataError
        For object arrays (they would run code when loaded), damaged files, arrays that do not fit each other, and
        matrices that memory cannot hold.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from xpipe.formats import read_npz
    >>> folder = tempfile.TemporaryDirectory()
    >>> sp.save_npz(f"{folder.name}/X.npz", sp.coo_matrix([[0.0, 2.5]]))
    >>> read_npz(f"{folder.name}/X.npz").toarray().tolist()
    [[0.0, 2.5]]
    >>> folder.cleanup()
    """
    path = os.fspath(path)
    with open_stream(path) as stream:
        arrays = npy_header.read_npz(stream, path)
    try:
        return canonical(assemble(arrays, path), path)
    except (MemoryError, OverflowError) as error:
        raise DataError(
            "memory cannot hold the matrix this file declares", where=path, why=str(error), fix="check its shape"
        ) from error


def write_npz(path: str, shape: tuple[int, int], parts: Callable[[], Iterable[Triple]]) -> None:
    """Write parts of a matrix, one below the other, as one file that `scipy.sparse.load_npz` reads.

    Memory is bounded by the parts. The file is not compressed and carries no time: the same rows give the same bytes.

    Parameters
    ----------
    path : str
        The file appears there only when it is complete.
    shape : (int, int)
        Rows and columns of the whole matrix.
    parts : callable
        Gives an iterable of CSR arrays. It is called three times, and must give the same parts each time.

    Raises
    ------
    DataError
        Where the parts do not have the rows of `shape` together.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from xpipe.formats import read_npz, write_npz
    >>> from xpipe.ground.sparse import Triple
    >>> folder = tempfile.TemporaryDirectory()
    >>> part = Triple(np.array([0, 1]), np.array([1], np.int32), np.array([2.5], np.float32))
    >>> write_npz(f"{folder.name}/X.npz", (2, 3), lambda: [part, part])
    >>> read_npz(f"{folder.name}/X.npz").toarray().tolist()
    [[0.0, 2.5, 0.0], [0.0, 2.5, 0.0]]
    >>> folder.cleanup()
    """
    ends = [np.zeros(1, np.int64)]
    for part in parts():
        ends.append(part.indptr[1:] - part.indptr[0] + ends[-1][-1])
    indptr = np.concatenate(ends)
    if len(indptr) != shape[0] + 1:
        raise DataError(f"the parts have {len(indptr) - 1:,} rows, the shape says {shape[0]:,}", where=os.fspath(path))
    index = np.dtype(np.int32 if indptr[-1] < 2**31 else np.int64)  # scipy wants one integer type for both
    with write_stream(path) as stream, zipfile.ZipFile(_forward_only(stream), "w", allowZip64=True) as archive:
        n_entries = int(indptr[-1])
        _write_member(archive, "indices", index, (n_entries,), _pieces(parts(), "indices"))
        _write_member(archive, "indptr", index, indptr.shape, [indptr])
        _write_member(archive, "format", np.dtype("S3"), (), [np.array(b"csr")])
        _write_member(archive, "shape", np.dtype(np.int64), (2,), [np.array(shape)])
        _write_member(archive, "data", np.dtype(np.float32), (n_entries,), _pieces(parts(), "values"))


read_matrix = read_npz  # as `matrix_formats` calls it


def write_matrix(path: str, matrix: sp.csr_matrix) -> None:
    """Write a whole matrix as `write_npz` does."""
    write_npz(path, matrix.shape, lambda: [to_triple(matrix)])


def _forward_only(stream: Any) -> Any:
    """A stream that cannot go back: zip then writes the same bytes to a disk and to remote storage."""
    return SimpleNamespace(write=stream.write, flush=stream.flush)


def _pieces(parts: Iterable[Triple], name: str) -> Iterator[np.ndarray]:
    """One array of all parts (indices or values), in pieces of bounded size."""
    for part in parts:
        first, last = int(part.indptr[0]), int(part.indptr[-1])
        for start in range(first, last, PIECE):
            yield getattr(part, name)[start : min(start + PIECE, last)]


def _write_member(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[np.ndarray]
) -> None:
    """Write one array of the file, piece by piece."""
    info = zipfile.ZipInfo(f"{name}.npy", EPOCH)
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(np.ascontiguousarray(piece, dtype).tobytes())
