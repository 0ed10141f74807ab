"""npy and npz files: what they declare is checked against the bytes they have, before any array is made.

Holds no meaning of any array. Pickles, encrypted members, duplicate names and sizes that the file cannot hold are
refused; numpy reads a file only after that.
"""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.ground import files

NPY = ".npy"
PLAIN = "?biufcSU"  # kinds of numpy types that are numbers or texts
LARGEST_RATIO = 1100  # one byte of deflate expands to at most 1032
LONGEST_START = 1 << 14  # bytes of a member that may hold its header: numpy itself reads 10,000 characters of it
MOST_DIMENSIONS = 64
MAPPED_FROM = 1 << 16  # bytes: smaller arrays are not worth it
LOCAL_HEADER = 30  # bytes of the header of a member before its name
FIX = "write it again with numpy; if that was done, copy it again: it may be cut short"


class ArrayHeader(NamedTuple):
    """What a file declares of one array."""

    shape: tuple[int, ...]
    dtype: np.dtype


def check_npy(source: str | IO[bytes], where: str = "") -> ArrayHeader:
    """The header of an `.npy` file whose size agrees with it. A stream is left at its start.

    source: path, URL, or a stream that can seek. Raises DataError for a file that is not such a file.
    """
    with _opened(source, where) as (stream, place), _refusing(place, "npy"):
        size = _size(stream)
        found = _read_header(stream, size)
        stream.seek(0)
        return found


def check_npz(source: str | IO[bytes], where: str = "") -> dict[str, ArrayHeader]:
    """The headers of all arrays of an `.npz` file by name; each agrees with the size of its member. As `check_npy`."""
    with _opened(source, where) as (stream, place), _refusing(place, "npz"):
        size = _size(stream)
        with zipfile.ZipFile(stream) as archive:
            members = _check_members(archive, size)
            found = {}
            for name, info in members.items():
                with archive.open(info) as member:
                    found[name] = _read_header(io.BytesIO(member.read(LONGEST_START)), info.file_size)
        stream.seek(0)
        return found


def read_npy(source: str | IO[bytes], where: str = "") -> np.ndarray:
    """The array of a `.npy` file. Raises DataError for every file that is not one."""
    with _opened(source, where) as (stream, place):
        check_npy(stream, place)
        with _refusing(place, "npy"):
            array: np.ndarray = np.load(stream, allow_pickle=False)
            return array


def read_npz(source: str | IO[bytes], where: str = "") -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name. Raises DataError for every file that is not one."""
    with _opened(source, where) as (stream, place):
        names = check_npz(stream, place)
        with _refusing(place, "npz"), np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}


def map_npz(path: str) -> dict[str, np.ndarray]:
    """`read_npz` of a local file whose large arrays stay where they are: they are mapped, and cannot be written.

    Processes of a machine share the pages. Every byte is checked once, as reading does. What is compressed or not
    aligned, as in files of other writers, is read.
    """
    names = check_npz(path)
    with _refusing(path, "npz"), open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
        whole = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        found = {}
        for name, header in names.items():
            mapped = _mapped(whole, archive.getinfo(name + NPY), header)
            if mapped is None:
                with archive.open(name + NPY) as member:
                    mapped = np.lib.format.read_array(member, allow_pickle=False)
            found[name] = mapped
        return found


def _mapped(whole: mmap.mmap, info: zipfile.ZipInfo, header: ArrayHeader) -> np.ndarray | None:
    """A list of numbers where it lies in the file; None where it cannot stay there. Raises ValueError if damaged."""
    size, n_bytes = info.file_size, math.prod(header.shape) * header.dtype.itemsize
    if info.compress_type != zipfile.ZIP_STORED or n_bytes < MAPPED_FROM or len(header.shape) != 1:
        return None
    of_name, of_more = struct.unpack("<2H", whole[info.header_offset + 26 : info.header_offset + LOCAL_HEADER])
    start = info.header_offset + LOCAL_HEADER + of_name + of_more
    first = start + size - n_bytes
    if start + size > len(whole) or first % header.dtype.alignment:
        return None
    if zlib.crc32(memoryview(whole)[start : start + size]) != info.CRC:
        raise ValueError(f"array {info.filename[:80]!r} is not as it was written: its checksum is another one")
    return np.frombuffer(whole, dtype=header.dtype, count=header.shape[0], offset=first)


def _check_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by the names of their arrays. Raises ValueError where one is encrypted, duplicate or too large."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(NPY)
        if name == info.filename:
            raise ValueError(f"member {name[:80]!r} is not an array")
        if name in members:
            raise ValueError(f"array {name[:80]!r} is there twice")
        if info.flag_bits & 0x1:
            raise ValueError(f"array {name[:80]!r} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"array {name[:80]!r} is compressed by another method than deflate")
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else LARGEST_RATIO
        if info.file_size > ratio * info.compress_size:
            raise ValueError(f"array {name[:80]!r} says it has {info.file_size:,} bytes in {info.compress_size:,}")
        members[name] = info
    if sum(info.compress_size for info in members.values()) > size:
        raise ValueError("its members are larger than the file")
    return members


def _read_header(stream: IO[bytes], size: int) -> ArrayHeader:
    """The header of an array at the start of a stream of `size` bytes; the numbers must fill the rest exactly."""
    version = np.lib.format.read_magic(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that Python 2 wrote; numpy warns again when it reads them
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version in ((2, 0), (3, 0)):  # they differ in the encoding of field names, and there are none
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version} of the format")
    if dtype.hasobject:
        raise ValueError("object arrays are pickles, which can run any code when they are loaded")
    if dtype.kind not in PLAIN or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"its entries are {str(dtype)[:80]}, neither numbers nor texts")
    if len(shape) > MOST_DIMENSIONS or any(
        isinstance(length, bool) or not 0 <= length <= np.iinfo(np.int64).max for length in shape
    ):
        raise ValueError("its shape is one that no array has")
    declared, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if declared != there:
        raise ValueError(f"it declares {declared:,} bytes of numbers and has {there:,}")
    return ArrayHeader(shape, dtype)


@contextlib.contextmanager
def _opened(source: str | IO[bytes], where: str) -> Iterator[tuple[IO[bytes], str]]:
    """(a stream at its start, the name for errors)."""
    if not isinstance(source, str | os.PathLike):
        source.seek(0)
        yield source, where or str(getattr(source, "name", "a stream"))
        return
    path = os.fspath(source)
    with _refusing(path, os.path.splitext(path)[1].lstrip(".") or "npz"), files.open_read(path) as stream:
        yield stream, where or path


@contextlib.contextmanager
def _refusing(where: str, kind: str) -> Iterator[None]:
    """Turn every exception inside the block into a DataError that names the file."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError("there is no such file", where=where, fix="check the path") from error
    except Exception as error:  # zip, zlib and Python's parser, which numpy calls, raise many kinds
        why = str(error)[:300] or type(error).__name__
        raise DataError(f"this is not a readable {kind} file", where=where, why=why, fix=FIX) from error


def _size(stream: Any) -> int:
    """The bytes of a stream, which is left at its start."""
    size = int(stream.seek(0, io.SEEK_END))
    stream.seek(0)
    return size
