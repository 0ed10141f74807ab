"""The header of a safetensors file, read within bounds and checked before anything it declares is used.

Holds no tensors and needs no torch. The format: 8 bytes of header length (little-endian), a JSON header that names each
tensor's type, shape and bytes, then those bytes, back to back.
"""

from __future__ import annotations

import io
import math
from typing import IO, Annotated, Any, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground.checked_json import Count, parse_json

LONGEST_HEADER = 100_000_000  # bytes, as in the reference implementation
MOST_DIMENSIONS = 64
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


class _Tensor(TypedDict):
    """One tensor in the header."""

    dtype: str
    shape: Annotated[list[Count], Field(max_length=MOST_DIMENSIONS)]
    data_offsets: Annotated[list[Count], Field(min_length=2, max_length=2)]


_Found = dict[str, _Tensor | dict[str, str]]  # dict[str, str]: the metadata


class TensorPlace(NamedTuple):
    """What a header says about one tensor. begin, end: its bytes, counted from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """A checked header: tensors by name, in the order of the header, and the file's own metadata."""

    tensors: dict[str, TensorPlace]
    metadata: dict[str, str]


def read_header(stream: IO[bytes], size: int, *, where: str, fix: str = "") -> Header:
    """The header of a file of `size` bytes, from a stream at its start.

    The shape and type of every tensor fit its bytes. The bytes of the tensors follow each other without overlap or gap
    up to the end of the file. where: the file's name, for errors. Raises DataError for any other file.
    """

    def refuse(why: str) -> DataError:
        return DataError("this is not a readable safetensors file", where=where, why=why, fix=fix)

    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= size - 8:
        raise refuse(f"its first bytes declare a header of {length:,} bytes, the file has {size:,}")
    if length > LONGEST_HEADER:
        raise refuse(f"its header is {length:,} bytes long, more than {LONGEST_HEADER:,}")
    content = stream.read(length)
    if len(content) < length:
        raise refuse("it is cut short")
    found: dict[str, Any] = parse_json(content, _Found, where=where, fix=fix)
    metadata = found.pop(METADATA, {})
    if not all(isinstance(value, str) for value in metadata.values()):
        raise refuse("its metadata are not texts")
    try:
        return Header(_checked_places(found, 8 + length, size), metadata)
    except ValueError as error:
        raise refuse(str(error)) from None


def _checked_places(found: dict[str, Any], begin: int, size: int) -> dict[str, TensorPlace]:
    """Where each tensor is; their bytes go from `begin` to `size`. Raises ValueError where they do not fit."""
    places = {}
    for name, tensor in found.items():
        if not isinstance(tensor.get("shape"), list):  # metadata under another name has texts only
            raise ValueError(f"{name[:80]!r} is not a tensor")
        kind, shape = tensor["dtype"], tuple(tensor["shape"])
        first, last = (begin + offset for offset in tensor["data_offsets"])
        if kind not in BITS:
            raise ValueError(f"tensor {name[:80]!r} has the unknown type {kind[:80]!r}")
        if not first <= last <= size or math.prod(shape) * BITS[kind] != 8 * (last - first):
            raise ValueError(
                f"tensor {name[:80]!r}: bytes {first - begin}..{last - begin} cannot hold {list(shape)} {kind}"
            )
        places[name] = TensorPlace(kind, shape, first, last)
    ordered = sorted((place.begin, place.end) for place in places.values())
    ends = [begin, *(end for _, end in ordered)]
    if any(first != end for (first, _), end in zip(ordered, ends, strict=False)) or ends[-1] != size:
        raise ValueError("its tensors overlap, or do not fill the file")
    return places


def parse_header(content: bytes, *, where: str, fix: str = "") -> Header:
    """`read_header` of a file that is in memory."""
    return read_header(io.BytesIO(content), len(content), where=where, fix=fix)
