"""Arrays as files of the store: one array as npy, several named ones as npz. Holds no meaning of them."""

from __future__ import annotations

import io

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
