"""Weights from files: npy, npz and safetensors, as they are stored. No pickles, no shapes beyond what the file says."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np

from xpipe import files
from xpipe.errors import ConfigError, DataError

LONGEST_HEADER = 1 << 26
# BF16 has no numpy type: its two bytes are the upper half of a float32
TENSOR_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


def tensor_names(path: str) -> list[str]:
    """Names of the arrays in a `.safetensors` file. Raises DataError for another file."""
    with files.open_read(path) as stream, _readable(path):
        return list(_read_header(stream, files.size(path))[0])


def read_weights(path: str, key: str | None = None) -> np.ndarray:
    """One array from a `.npy`, `.npz` or `.safetensors` file.

    key: its name in the file; not needed where the file holds only one. Raises ConfigError for a name that is not
    there (or needed), DataError for a file that is damaged, of another kind, or holds pickles.
    """
    path = os.fspath(path)
    kind = os.path.splitext(path)[1]
    if kind not in (".npy", ".npz", ".safetensors"):
        raise ConfigError(
            f"weights must be .npy, .npz or .safetensors, not {kind or 'a file without ending'!r}",
            where=path,
            fix="numpy.save('W.npy', layer.weight.detach().numpy())",
        )
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    if kind == ".safetensors":
        return _read_safetensors(path, key)
    if kind == ".npy" and key is not None:
        raise ConfigError("a .npy file holds one array without a name", where=path, fix="leave the key out")
    try:
        with files.open_read(path) as stream:
            loaded = np.load(stream, allow_pickle=False)
            if kind == ".npy":
                return loaded
            with loaded as archive:
                return archive[_choose(path, key, dict.fromkeys(archive.files, ""))]
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        AttributeError,
        TypeError,
    ) as error:
        raise DataError(
            f"this is not a readable {kind} file",
            where=path,
            why=str(error),
            fix="write it with numpy.save or numpy.savez (object arrays are pickles and not read)",
        ) from error


def _choose(path: str, key: str | None, shapes: dict[str, str]) -> str:
    """The name asked for, or the only one."""
    if key is None and len(shapes) == 1:
        return next(iter(shapes))
    listed = ", ".join(f"{name} {shape}".strip() for name, shape in list(shapes.items())[:10])
    listed += ", ..." if len(shapes) > 10 else ""
    if key is None:
        raise ConfigError(f"the file holds {len(shapes)} arrays", where=path, why=listed, fix="say which: --key NAME")
    if key not in shapes:
        close = difflib.get_close_matches(key, shapes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "one of these names"
        raise ConfigError(f"no array {key!r} in the file", where=path, why=f"it holds {listed}", fix=hint)
    return key


def _read_safetensors(path: str, key: str | None) -> np.ndarray:
    """The format: 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes at its offsets."""
    size = files.size(path)
    with files.open_read(path) as stream, _readable(path):
        tensors, start = _read_header(stream, size)
        shapes = {name: "x".join(map(str, tensor["shape"])) for name, tensor in tensors.items()}
        tensor = tensors[_choose(path, key, shapes)]
        begin, end = tensor["data_offsets"]
        kind = tensor["dtype"]
        if kind not in TENSOR_TYPES:
            raise ValueError(f"numbers of type {kind}, not one of {', '.join(TENSOR_TYPES)}")
        dtype = np.dtype(TENSOR_TYPES[kind])
        count = int(np.prod(tensor["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= size - start or end - begin != count * dtype.itemsize:
            raise ValueError(f"bytes {begin}..{end} cannot hold {shapes[_choose(path, key, shapes)]} numbers")
        stream.seek(start + begin)
        array = np.frombuffer(stream.read(end - begin), dtype=dtype).reshape(tensor["shape"])
    if kind == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(dtype.newbyteorder("="))


def _read_header(stream: IO[bytes], size: int) -> tuple[dict[str, dict], int]:
    """(what the header says of every tensor, where their bytes begin). Raises ValueError for another file."""
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= min(LONGEST_HEADER, size - 8):
        raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
    header = json.loads(stream.read(length))
    return {name: tensor for name, tensor in header.items() if name != "__metadata__"}, 8 + length


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise DataError("this is not a readable safetensors file", where=path, why=str(error)) from error
