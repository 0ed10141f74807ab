"""Arrays as files of the store: one array as npy, several named ones as npz. Holds no meaning of them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from xpipe.engine.messages import FileEntry, write_entry
from xpipe.ground import files


def write_array(folder: str, path: str, array: np.ndarray) -> FileEntry:
    """Write an npy file below `folder`."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return write_entry(folder, path, buffer.getvalue())


def write_arrays(folder: str, path: str, arrays: dict[str, np.ndarray]) -> FileEntry:
    """Write an npz file below `folder`."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return write_entry(folder, path, buffer.getvalue())


def read_arrays(folder: str, path: str) -> dict[str, np.ndarray]:
    """All arrays of an npz file below `folder`."""
    with np.load(io.BytesIO(files.read_bytes(files.join(folder, path))), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def read_array(folder: str, path: str) -> np.ndarray:
    """The array of an npy file below `folder`."""
    array: np.ndarray = np.load(io.BytesIO(files.read_bytes(files.join(folder, path))), allow_pickle=False)
    return array


def take_rows_of_arrays(folder: str, paths: Sequence[str], starts: Sequence[int], rows: np.ndarray) -> np.ndarray:
    """Some rows, ascending, of an array that npy files hold part by part: file i has those from starts[i] on.

    One file at a time is open, and of local files only the pages of these rows are read.
    """
    cuts = np.searchsorted(rows, np.asarray(starts))
    taken = np.empty((len(rows), *open_array(folder, paths[0]).shape[1:]), np.float32)
    for part, path in enumerate(paths):
        some = slice(cuts[part], cuts[part + 1])
        if some.start < some.stop:
            taken[some] = open_array(folder, path)[rows[some] - starts[part]]
    return taken


def open_array(folder: str, path: str) -> np.ndarray:
    """The array of an npy file, mapped where the file is local."""
    whole = files.join(folder, path)
    if not files.is_local(whole):
        return read_array(folder, path)
    mapped: np.ndarray = np.load(whole, mmap_mode="r", allow_pickle=False)
    return mapped
