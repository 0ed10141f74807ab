"""Weights from files: npy, npz and safetensors, as they are stored.

Holds no choice of a bias (`layer_files`). Reads no pickles, and no more bytes than the file's header declares.
"""

from __future__ import annotations

import os
from typing import IO

import numpy as np
from typing_extensions import TypedDict

from xpipe.argmaxability.stored_rows import StoredRows, stored_rows
from xpipe.errors import ConfigError, DataError, printable
from xpipe.ground import files
from xpipe.ground.checked_json import parse_json
from xpipe.ground.close_match import did_you_mean
from xpipe.ground.npy_header import check_npy, check_npz, read_npy
from xpipe.ground.safetensors_header import Header, TensorPlace, read_header

INDEX = ".safetensors.index.json"  # of a model in several files
KINDS = (".npy", ".npz", ".safetensors")
# numpy has no type for BF16: its two bytes are the upper half of a float32
TENSOR_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


class ShardIndex(TypedDict):
    """The index of a model in several files: the file of each array."""

    weight_map: dict[str, str]


NAMED = 10  # arrays listed in a message
LONGEST_NAME = 80


def tensor_names(path: str) -> list[str]:
    """Names of the arrays in a `.safetensors` file. Raises DataError for another file."""
    return list(_header(path).tensors)


def array_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of a `.npz` or `.safetensors` file by name; empty for `.npy`, whose array has no name."""
    kind = _kind(path)
    if kind == ".npy":
        return {}
    if kind == ".npz":
        return {name: header.shape for name, header in check_npz(path).items()}
    return {name: tensor.shape for name, tensor in _header(path).tensors.items()}


def read_weights(path: str, key: str | None = None) -> np.ndarray:
    """Read one array from a `.npy`, `.npz` or `.safetensors` file.

    Parameters
    ----------
    path : str
        A file or URL.
    key : str, optional
        The name of the array; not needed where the file holds only one.

    Returns
    -------
    ndarray
        With the shape and number type of the file; BF16 becomes float32.

    Raises
    ------
    ConfigError
        If there is no array of that name, or a name is needed.
    DataError
        If the file is missing, damaged, of another kind, or holds pickles.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from xpipe.argmaxability import read_weights
    >>> path = os.path.join(tempfile.mkdtemp(), "layer.npz")
    >>> np.savez(path, W=np.ones((3, 2)), bias=np.zeros(3))
    >>> read_weights(path, "W").shape
    (3, 2)
    """
    path = os.fspath(path)
    kind = _kind(path)
    try:
        if kind == ".safetensors":
            return _read_safetensors(path, key)
        if kind == ".npy":
            if key is not None:
                raise ConfigError("a .npy file holds one array without a name", where=path, fix="leave the key out")
            return read_npy(path)
        with files.open_read(path) as stream:
            chosen = choose_array(path, key, {name: header.shape for name, header in check_npz(stream, path).items()})
            with np.load(stream, allow_pickle=False) as archive:
                return np.asarray(archive[chosen])
    except (ConfigError, DataError):
        raise
    except (
        Exception
    ) as error:  # zip, zlib and numpy raise many kinds; a declared size that is too large raises MemoryError
        why = str(error)[:300] or type(error).__name__
        raise DataError(f"this is not a readable {kind} file", where=path, why=why, fix="write it again") from error


def open_rows(path: str, key: str | None = None) -> StoredRows:
    """Map rows of weights from a file as they are stored: no number is copied.

    Parameters
    ----------
    path : str
        A local `.npy` or `.safetensors` file, the `.safetensors.index.json` of a model in several files, which must be
        in the folder of the index, or such a folder. Arrays of `.npz` files, and of files elsewhere, are read into
        memory.
    key : str, optional
        The name of the array; not needed where the file holds only one.

    Returns
    -------
    StoredRows
        What `verify` takes in modes topk and argmax.

    Raises
    ------
    ConfigError
        If there is no array of that name, or a name is needed.
    DataError
        If the file is missing, damaged or of another kind, or the array is no matrix of finite numbers.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from xpipe.argmaxability import open_rows
    >>> path = os.path.join(tempfile.mkdtemp(), "docs.npy")
    >>> np.save(path, np.ones((3, 2), dtype=np.float16))
    >>> rows = open_rows(path)
    >>> rows.shape, rows.dtype
    ((3, 2), 'float16')
    """
    path = model_file(os.fspath(path))
    if path.endswith(INDEX):
        path = shard_of(path, key)
    kind = _kind(path)
    if not files.is_local(path) or kind == ".npz":
        return stored_rows(read_weights(path, key))
    if kind == ".npy":
        if key is not None:
            raise ConfigError("a .npy file holds one array without a name", where=path, fix="leave the key out")
        header = check_npy(path)
        if len(header.shape) == 2 and header.dtype.kind == "f":
            return stored_rows(StoredRows(np.load(files.local(path), mmap_mode="r", allow_pickle=False)))
        return stored_rows(read_npy(path))
    tensors = _header(path).tensors
    place = tensors[choose_array(path, key, {name: tensor.shape for name, tensor in tensors.items()})]
    if len(place.shape) != 2 or place.dtype not in TENSOR_TYPES or not place.dtype.endswith(("F16", "F32", "F64")):
        return stored_rows(read_weights(path, key))
    dtype = np.dtype(TENSOR_TYPES[place.dtype])
    mapped = np.memmap(files.local(path), dtype, mode="r", offset=place.begin, shape=place.shape)
    return stored_rows(StoredRows(mapped, bfloat=place.dtype == "BF16"))


def model_file(path: str) -> str:
    """The path itself; of a folder that holds a model, its index, or its only `.safetensors` file."""
    if not files.is_local(path) or not os.path.isdir(files.local(path)):
        return path
    names = sorted(os.listdir(files.local(path)))
    found = [name for name in names if name.endswith(INDEX)] or [n for n in names if n.endswith(".safetensors")]
    if len(found) != 1:
        listed = ", ".join(printable(name, LONGEST_NAME) for name in found[:NAMED])
        raise DataError(
            "this folder holds no model" if not found else f"this folder holds {len(found)} models",
            where=path,
            why=listed or f"no file in it ends with {INDEX} or .safetensors",
            fix="give the file itself",
        )
    return os.path.join(path, found[0])


def shard_map(index: str) -> dict[str, str]:
    """The name of the file of each array, by the index of a model in several files."""
    if not files.exists(index):
        raise DataError("there is no such file", where=index)
    return parse_json(files.read_bytes(index), ShardIndex, where=index)["weight_map"]


def shard_of(index: str, key: str | None) -> str:
    """The file that holds an array, by the index of a model in several files."""
    names = shard_map(index)
    if key is None or key not in names:
        hint = did_you_mean(key or "", names, shown=lambda name: repr(printable(name, LONGEST_NAME)))
        what = "the model holds several arrays" if key is None else f"no array {printable(key, LONGEST_NAME)!r}"
        held = f"it holds {list_arrays(dict.fromkeys(names, ()))}"
        raise ConfigError(what, where=index, why=held, fix=hint or "say which: --key NAME")
    shard = names[key]
    if os.path.basename(shard) != shard or not shard.endswith(".safetensors"):
        raise DataError(
            "the index names a place outside its folder",
            where=index,
            why=printable(shard, LONGEST_NAME),
            fix="put all files of the model into one folder",
        )
    return files.join(files.parent(index), shard)


def _kind(path: str) -> str:
    """The ending of the file's name. Raises unless the file exists and is of a kind that can be read."""
    kind = os.path.splitext(path)[1]
    if kind not in KINDS:
        shown = printable(kind, LONGEST_NAME) or "a file without ending"
        raise ConfigError(
            f"weights must be .npy, .npz or .safetensors, not {shown!r}",
            where=path,
            fix="numpy.save('W.npy', layer.weight.detach().numpy())",
        )
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    if files.is_folder(path):
        raise DataError("this is a folder, not a file", where=path)
    return kind


def choose_array(path: str, key: str | None, shapes: dict[str, tuple[int, ...]]) -> str:
    """`key`, or the only name where it is None. Raises ConfigError where that names no array."""
    if key is None and len(shapes) == 1:
        return next(iter(shapes))
    listed = list_arrays(shapes)
    if key is None:
        raise ConfigError(f"the file holds {len(shapes)} arrays", where=path, why=listed, fix="say which: --key NAME")
    if key not in shapes:
        hint = did_you_mean(key, shapes, shown=lambda name: repr(printable(name, LONGEST_NAME)))
        raise ConfigError(
            f"no array {printable(key, LONGEST_NAME)!r} in the file",
            where=path,
            why=f"it holds {listed}",
            fix=hint or "one of these names",
        )
    return key


def list_arrays(shapes: dict[str, tuple[int, ...]]) -> str:
    """The first names with their shapes, for a message."""
    some = list(shapes.items())[:NAMED]
    listed = [f"{printable(name, LONGEST_NAME)} {'x'.join(map(str, shape))}".strip() for name, shape in some]
    return ", ".join(listed) + (", ..." if len(shapes) > NAMED else "")


def _header(path: str) -> Header:
    """The checked header of a safetensors file."""
    try:
        with files.open_read(path) as stream:
            return _read_header(stream, path)
    except (OSError, MemoryError, OverflowError) as error:
        raise DataError("this is not a readable safetensors file", where=path, why=str(error)[:300]) from error


def _read_header(stream: IO[bytes], path: str) -> Header:
    """The checked header from a stream at its start; every error says that the file is not readable."""
    fix = "write it again; if that was done, copy it again"
    try:
        return read_header(stream, files.size(path), where=path, fix=fix)
    except DataError as error:
        why = error.why if "readable" in error.what else f"{error.what}: {error.why}".removesuffix(": ")
        raise DataError("this is not a readable safetensors file", where=path, why=why, fix=fix) from error


def _read_safetensors(path: str, key: str | None) -> np.ndarray:
    """One array of a safetensors file."""
    with files.open_read(path) as stream:
        tensors = _read_header(stream, path).tensors
        name = choose_array(path, key, {name: tensor.shape for name, tensor in tensors.items()})
        return _read_tensor(stream, tensors[name], path)


def _read_tensor(stream: IO[bytes], tensor: TensorPlace, path: str) -> np.ndarray:
    """The numbers of one tensor, in the byte order of the machine."""
    if tensor.dtype not in TENSOR_TYPES:
        raise DataError(
            f"numbers of type {tensor.dtype}, not one of {', '.join(TENSOR_TYPES)}",
            where=path,
            fix="store the weights as float32",
        )
    dtype = np.dtype(TENSOR_TYPES[tensor.dtype])
    stream.seek(tensor.begin)
    array = np.frombuffer(stream.read(tensor.end - tensor.begin), dtype=dtype).reshape(tensor.shape)
    if tensor.dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(dtype.newbyteorder("="))
