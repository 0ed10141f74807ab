"""Arrays as files of the store: one as npy, several named ones as npz. Nothing about what they mean."""

from __future__ import annotations

import io

import numpy as np

from xpipe.ground import files


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """The content of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpacked(folder: str, path: str) -> dict[str, np.ndarray]:
    """All arrays of an npz file below `folder`."""
    with np.load(io.BytesIO(files.read_bytes(files.join(folder, path))), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def read_array(folder: str, path: str) -> np.ndarray:
    """The array of an npy file below `folder`."""
    return np.load(io.BytesIO(files.read_bytes(files.join(folder, path))), allow_pickle=False)
