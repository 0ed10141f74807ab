"""Arrays of an npz file -> one sparse matrix, checked in each of scipy's formats before compiled code uses them.

Holds no reading of files. A wrong pointer would crash scipy, so nothing is handed to it unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError

Arrays = Mapping[str, np.ndarray]
WIDEST = 2**31 - 1
ROWS_WITHOUT_ENTRIES = 1 << 23  # more rows than this need entries to be believed: each costs 8 bytes in memory
ROWS_AN_ENTRY = 64
FIX = "write it with scipy.sparse.save_npz"


def assemble(arrays: Arrays, path: str) -> sp.spmatrix:
    """The matrix that the arrays of scipy.sparse.save_npz describe, in their own format.

    Raises DataError where an array is missing, is not of whole numbers where it must be, or points out of another.
    """
    form = _format(arrays, path)
    shape = _shape(arrays, path)
    data = _data(arrays, path)
    if form in ("csr", "csc"):
        _dimensions(data, 1, path)
        n_major, n_minor = shape if form == "csr" else shape[::-1]
        indptr, indices = _compressed(arrays, path, n_major, n_minor, len(data))
        if form == "csc":
            _check_rows(shape[0], len(data), path)
        kind = sp.csr_matrix if form == "csr" else sp.csc_matrix
        return kind((data[: indptr[-1]], indices[: indptr[-1]], indptr), shape=shape)
    if form == "bsr":
        return _bsr(arrays, data, shape, path)
    if form == "coo":
        return _coo(arrays, data, shape, path)
    return _dia(arrays, data, shape, path)


def _bsr(arrays: Arrays, data: np.ndarray, shape: tuple[int, int], path: str) -> sp.spmatrix:
    _dimensions(data, 3, path)
    height, width = data.shape[1:]
    if height < 1 or width < 1 or shape[0] % height or shape[1] % width:
        raise _wrong(path, f"blocks of {height} x {width} do not fill a matrix of {shape[0]:,} x {shape[1]:,}")
    indptr, indices = _compressed(arrays, path, shape[0] // height, shape[1] // width, len(data))
    _check_rows(shape[0], data.size, path)
    used = int(indptr[-1])
    return sp.bsr_matrix((data[:used], indices[:used], indptr), shape=shape)


def _coo(arrays: Arrays, data: np.ndarray, shape: tuple[int, int], path: str) -> sp.spmatrix:
    _dimensions(data, 1, path)
    if "coords" in arrays:
        coords = _whole(arrays, "coords", path)
        if coords.ndim != 2 or len(coords) != 2:
            raise _wrong(path, f"coords have the shape {coords.shape}, not (2, entries)")
        row, column = coords
    else:
        row, column = _whole(arrays, "row", path), _whole(arrays, "col", path)
    for name, places, width in (("row", row, shape[0]), ("col", column, shape[1])):
        if places.shape != data.shape:
            raise _wrong(path, f"{name} has the shape {places.shape}, data {data.shape}")
        _check_range(places, width, path)
    _check_rows(shape[0], len(data), path)
    return sp.coo_matrix((data, (row.astype(np.int64), column.astype(np.int64))), shape=shape)


def _dia(arrays: Arrays, data: np.ndarray, shape: tuple[int, int], path: str) -> sp.spmatrix:
    _dimensions(data, 2, path)
    offsets = _whole(arrays, "offsets", path)
    if offsets.shape != data.shape[:1]:
        raise _wrong(path, f"offsets have the shape {offsets.shape}, data {data.shape}")
    outside = [offset for offset in offsets.tolist() if not -shape[0] < offset < shape[1]]
    if outside:
        raise _wrong(path, f"diagonal {outside[0]} is outside a matrix of {shape[0]:,} x {shape[1]:,}")
    if len(np.unique(offsets)) < len(offsets):
        raise _wrong(path, "a diagonal is there twice")
    _check_rows(shape[0], data.size, path)
    return sp.dia_matrix((data, offsets.astype(np.int64)), shape=shape)


def _compressed(arrays: Arrays, path: str, n_major: int, n_minor: int, n_data: int) -> tuple[np.ndarray, np.ndarray]:
    """indptr and indices of one integer type, checked to stay within `n_data` entries and `n_minor` columns."""
    indptr, indices = _whole(arrays, "indptr", path), _whole(arrays, "indices", path)
    if indptr.shape != (n_major + 1,):
        raise _wrong(path, f"indptr has the shape {indptr.shape}, the matrix needs ({n_major + 1},)")
    if indices.shape != (n_data,):
        raise _wrong(path, f"indices have the shape {indices.shape}, data {n_data:,} entries")
    if int(indptr[0]) != 0 or int(indptr[-1]) > n_data or np.any(indptr[1:] < indptr[:-1]):
        raise DataError("indptr does not fit the other arrays", where=path, fix="write the matrix again")
    _check_range(indices, n_minor, path)
    index = np.int32 if n_data <= WIDEST else np.int64
    return indptr.astype(index, copy=False), indices.astype(index, copy=False)


def _check_range(indices: np.ndarray, width: int, path: str) -> None:
    """Raise DataError for an index outside 0..width - 1."""
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= width):
        low = int(indices.min())
        bad = low if low < 0 else int(indices.max())
        raise DataError(
            f"index {bad} is outside 0..{width - 1}", where=path, fix="rebuild the matrix with its true shape"
        )


def _check_rows(n_rows: int, n_entries: int, path: str) -> None:
    """Raise DataError for far more rows than entries: a format may declare rows without listing them, at no cost."""
    if n_rows > ROWS_WITHOUT_ENTRIES + ROWS_AN_ENTRY * n_entries:
        raise _wrong(path, f"it declares {n_rows:,} rows and holds {n_entries:,} entries")


def _format(arrays: Arrays, path: str) -> str:
    """scipy's name for the format of the matrix."""
    array = _array(arrays, "format", path)
    value = array.item() if array.ndim == 0 and array.dtype.kind in "SU" else b""
    form = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    if form not in ("csr", "csc", "bsr", "coo", "dia"):
        raise _wrong(path, f"its format is {form[:20]!r}, which is none of csr, csc, bsr, coo, dia")
    return form


def _shape(arrays: Arrays, path: str) -> tuple[int, int]:
    """Rows and columns."""
    array = _whole(arrays, "shape", path)
    if array.shape != (2,) or int(array.min()) < 0:
        raise _wrong(path, f"the shape is {array.tolist() if array.size < 5 else array.shape}, not two whole numbers")
    n_rows, n_columns = (int(size) for size in array)
    if n_columns > WIDEST or n_rows > 2**48:
        raise _wrong(path, f"a matrix of {n_rows:,} x {n_columns:,}; column indices are int32")
    return n_rows, n_columns


def _data(arrays: Arrays, path: str) -> np.ndarray:
    """The values, in a type that compiled code can use."""
    data = _array(arrays, "data", path)
    if data.dtype.kind not in "fiub":
        raise _wrong(path, f"data is {data.dtype}: values are real numbers")
    if data.dtype.kind == "f" and data.dtype.itemsize not in (4, 8):
        return data.astype(np.float32 if data.dtype.itemsize == 2 else np.float64)
    return data.astype(data.dtype.newbyteorder("="), copy=False)


def _whole(arrays: Arrays, name: str, path: str) -> np.ndarray:
    """An array of whole numbers."""
    array = _array(arrays, name, path)
    if array.dtype.kind not in "iu":
        raise _wrong(path, f"{name} is {array.dtype}: positions are whole numbers")
    return array


def _array(arrays: Arrays, name: str, path: str) -> np.ndarray:
    """An array by name."""
    if name not in arrays:
        raise _wrong(path, f"it has no array {name!r}")
    return arrays[name]


def _dimensions(data: np.ndarray, wanted: int, path: str) -> None:
    """Raise DataError for another number of dimensions."""
    if data.ndim != wanted:
        raise _wrong(path, f"data has {data.ndim} dimensions instead of {wanted}")


def _wrong(path: str, why: str) -> DataError:
    return DataError("this is not a sparse matrix in npz", where=path, why=why, fix=FIX)
