"""Tensors and JSON values about them as safetensors bytes, with a digest over both, so that damaged files are refused.

Holds no model. The header is checked against the size of the file before any tensor is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from xpipe.errors import DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.checked_json import parse_json
from xpipe.ground.safetensors_header import parse_header

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)
DIGEST = "sha256"  # over the values and all tensors; files of format 1 have none
FIX = "save it again; if that was done, copy it again: it may be cut short"
# errors of PyTorch and Python that building a module from a file's options can raise
UNBUILDABLE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, ArithmeticError, MemoryError,
)  # fmt: skip


def pack(tensors: dict[str, torch.Tensor], about: dict[str, Any], key: str) -> bytes:
    """A safetensors file with `about` as JSON under one key of its metadata: the order of several keys is not fixed."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return save(plain, {key: json.dumps({**about, DIGEST: _digest(plain, about)}, sort_keys=True)})


def read_packed(path: str, key: str, shape: type[T]) -> tuple[dict[str, torch.Tensor], T]:
    """(tensors by name, values) of a file of `pack`. Raises DataError if it is missing, damaged, or another file.

    shape: the type that the values must have.
    """
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    try:
        content = files.read_bytes(path)
    except OSError as error:  # a folder in its place, or a disk that fails
        raise DataError("the file cannot be read", where=path, why=str(error)) from error
    return unpack(content, key, shape, path)


def unpack(content: bytes, key: str, shape: type[T], where: str) -> tuple[dict[str, torch.Tensor], T]:
    """`read_packed` for the bytes of a file; `where` names it in errors."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    metadata = parse_header(content, where=where, fix=FIX).metadata
    if key not in metadata:
        raise DataError(
            "this safetensors file holds nothing of xpipe", where=where, why=f"its metadata have no {key!r}", fix=FIX
        )
    about: Any = parse_json(metadata[key].encode("utf-8", "surrogatepass"), shape, where=where, fix=FIX)
    try:
        tensors = load(content)
    except (SafetensorError, *UNBUILDABLE) as error:
        raise DataError("this is not a readable safetensors file", where=where, why=str(error), fix=FIX) from error
    written = about.pop(DIGEST, None)
    if written is not None and written != _digest(tensors, about):
        raise DataError(
            "this file is damaged", where=where, why="its content is not what was written", fix="train the model again"
        )
    return tensors, about


def build(make: Callable[[], M], tensors: dict[str, torch.Tensor], where: str) -> M:
    """The module that `make` builds from a file's options, if the file's tensors fit it.

    It is built without memory first, on the meta device, and its shapes are compared with the tensors. So a file whose
    options ask for terabytes is refused. Raises DataError if the module cannot be built or the tensors do not fit.
    """
    try:
        with torch.device("meta"):
            shapes = {name: part.shape for name, part in make().state_dict().items()}
        wrong = [name for name, shape in shapes.items() if name not in tensors or tensors[name].shape != shape]
        wrong += [name for name in tensors if name not in shapes]
        if wrong:
            raise ValueError(f"tensors do not fit the options: {', '.join(wrong[:5])}")
        return make()
    except (XpipeError, *UNBUILDABLE) as error:
        why = (error.what if isinstance(error, XpipeError) else str(error) or type(error).__name__)[:300]
        raise DataError("not a whole model", where=where, why=why, fix="save it again, or train it again") from error


def _digest(tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> str:
    """SHA-256 over the values, and over name, type, shape and bytes of each tensor."""
    found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
