"""npz files whose arrays are written piece by piece, maybe by several processes: where each byte of such a file goes.

Holds no files and no meaning of any array. The whole is a file as `numpy.savez` writes it, but that numbers begin at a
multiple of 64 bytes: they can be used where they lie (`map_npz`). A zip file wants the CRC-32 of each member, which is
put together from those of its pieces.
"""

from __future__ import annotations

import functools
import io
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

import numpy as np

from xpipe.ground.npy_header import NPY, ArrayHeader

MADE = (1980, 1, 1, 0, 0, 0)  # the date of every member, as numpy has it
READABLE = 0o600 << 16  # for its owner: what zipfile says of a member that is written to a stream
UNIX = 3  # the system that it says so of
LIMIT = (1 << 31) - 1  # larger numbers stand in fields of zip64
FULL = 0xFFFFFFFF  # what stands in the field of 32 bits then
ZIP64 = 45  # the version of the format that has these fields
NPY_START = 10  # bytes of an npy file before its text: magic, version 1.0, length of the text
LOCAL, CENTRAL, END, END_64, LOCATOR_64 = (
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07",
)  # fmt: skip
ALIGNED = 64
POLYNOMIAL = 0xEDB88320  # that of CRC-32, lowest bit last


class Place(NamedTuple):
    """Where an array is in its file."""

    begins: int  # the first byte of its member
    header: bytes  # of the array, as npy files have it
    numbers: int  # the first byte of its numbers
    n_bytes: int  # of its numbers

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.numbers + self.n_bytes


def lay_out(arrays: Mapping[str, ArrayHeader]) -> dict[str, Place]:
    """The place of each array, in the order given. What comes later moves nothing that comes before.

    Parameters
    ----------
    arrays : mapping of str to ArrayHeader
        Shapes and types, by name.

    Returns
    -------
    dict of str to Place
        By name.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.ground.npy_header import ArrayHeader
    >>> from xpipe.ground.npz_layout import lay_out
    >>> lay_out({"a": ArrayHeader((3,), np.dtype(np.int64))})["a"].numbers
    192
    """
    places: dict[str, Place] = {}
    at = 0
    for name, (shape, dtype) in arrays.items():
        stream = io.BytesIO()
        about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, about)
        n_bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        before = at + len(_local_header(name, 0, 0))
        header = _padded(stream.getvalue(), before)
        numbers = before + len(header)
        places[name] = Place(at, header, numbers, n_bytes)
        at = numbers + n_bytes
    return places


def _padded(header: bytes, before: int) -> bytes:
    """The header of an array with so many more spaces at its end that the numbers after it are aligned."""
    more = -(before + len(header)) % ALIGNED
    start, text = header[:NPY_START], header[NPY_START:]
    length = struct.pack("<H", len(text) + more)
    return start[: -len(length)] + length + text[:-1] + b" " * more + text[-1:]


def header_of(name: str, place: Place, crc: int) -> bytes:
    """What stands before the numbers of an array. crc: the CRC-32 of its member, as `member_crc` gives it."""
    return _local_header(name, crc, len(place.header) + place.n_bytes) + place.header


def _local_header(name: str, crc: int, size: int) -> bytes:
    """The header of a member, which always has fields for large sizes."""
    file = (name + NPY).encode("ascii")
    fields = (ZIP64, 0, 0, *_date(), crc, FULL, FULL, len(file), 20)
    return LOCAL + struct.pack("<5H3L2H", *fields) + file + struct.pack("<2H2Q", 1, 16, size, size)


def _date() -> tuple[int, int]:
    """(time, date) as zip files have them."""
    year, month, day, hour, minute, second = MADE
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def directory_of(places: Mapping[str, Place], crcs: Mapping[str, int]) -> bytes:
    """What stands after the last array: the list of all members. crcs: those of the members, by name."""
    start = max((place.end for place in places.values()), default=0)
    listed = b"".join(_listed(name, place, crcs[name]) for name, place in places.items())
    count, size, offset = len(places), len(listed), start
    more = b""
    if start > LIMIT:
        more = END_64 + struct.pack("<Q2H2L4Q", 44, ZIP64, ZIP64, 0, 0, count, count, size, start)
        more += LOCATOR_64 + struct.pack("<LQL", 0, start + size, 1)
        offset = min(start, FULL)
    return listed + more + END + struct.pack("<4H2LH", 0, 0, count, count, size, offset, 0)


def _listed(name: str, place: Place, crc: int) -> bytes:
    """The entry of a member in the list of all members."""
    file = (name + NPY).encode("ascii")
    size, begins = len(place.header) + place.n_bytes, place.begins
    large = [size, size] if size > LIMIT else []
    large += [begins] if begins > LIMIT else []
    extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    shown, offset = (FULL if size > LIMIT else size), (FULL if begins > LIMIT else begins)
    fields = (
        ZIP64,
        UNIX,
        ZIP64,
        0,
        0,
        0,
        *_date(),
        crc,
        shown,
        shown,
        len(file),
        len(extra),
        0,
        0,
        0,
        READABLE,
        offset,
    )
    return CENTRAL + struct.pack("<4B4H3L5H2L", *fields) + file + extra


def member_crc(place: Place, pieces: Iterable[tuple[int, int]]) -> int:
    """The CRC-32 of a member. pieces: (CRC-32, bytes) of the pieces of its numbers, in order."""
    crc = zlib.crc32(place.header)
    for piece, n_bytes in pieces:
        crc = combine_crcs(crc, piece, n_bytes)
    return crc


def combine_crcs(first: int, second: int, n_bytes: int) -> int:
    """The CRC-32 of two pieces, from those of both. n_bytes: of the second piece.

    Examples
    --------
    >>> import zlib
    >>> from xpipe.ground.npz_layout import combine_crcs
    >>> combine_crcs(zlib.crc32(b"la"), zlib.crc32(b"bel"), 3) == zlib.crc32(b"label")
    True
    """
    return _times(_power(8 * n_bytes), first) ^ second


def _times(a: int, b: int) -> int:
    """The product of two polynomials over 0 and 1, modulo that of CRC-32; the highest bit is the number 1."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product


def _power(n: int) -> int:
    """x to the power of n."""
    found, square = 1 << 31, 1 << 30  # 1, and x
    while n:
        if n & 1:
            found = _times(found, square)
        square, n = _squared(square), n >> 1
    return found


@functools.lru_cache(maxsize=64)
def _squared(a: int) -> int:
    return _times(a, a)


def write_npz(stream: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write an npz file from its first byte to its last."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    places = lay_out({name: ArrayHeader(array.shape, array.dtype) for name, array in arrays.items()})
    crcs: dict[str, int] = {}
    for name, array in arrays.items():
        numbers = bytes_of(array)
        crcs[name] = zlib.crc32(numbers, zlib.crc32(places[name].header))
        stream.write(header_of(name, places[name], crcs[name]))
        stream.write(numbers)
    stream.write(directory_of(places, crcs))


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array, which is not copied."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
