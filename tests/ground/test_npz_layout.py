"""npz files that are written piece by piece: the bytes of numpy's own, wherever the pieces are cut."""

from __future__ import annotations

import io
import zipfile
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpipe.ground import npz_layout
from xpipe.ground.npy_header import ArrayHeader
from xpipe.ground.npz_layout import (
    bytes_of,
    combine_crcs,
    directory_of,
    header_of,
    lay_out,
    member_crc,
    write_npz,
)

ARRAYS = {
    "text": np.array("xpipe label tree 2"),
    "numbers": np.arange(1000, dtype=np.float32),
    "table": np.arange(6, dtype=np.int64).reshape(2, 3),
    "wide": np.arange(4, dtype=np.int64).reshape(1, 4),
    "nothing": np.empty(0, np.int32),
    "turned": np.arange(6, dtype=np.int16).reshape(2, 3).T,
}


def saved(arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def written(arrays) -> bytes:
    stream = io.BytesIO()
    write_npz(stream, arrays)
    return stream.getvalue()


def test_the_bytes_are_those_of_numpy():
    plain = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in ARRAYS.items()}
    assert written(ARRAYS) == saved(plain)
    assert written({}) == saved({})


def test_pieces_in_any_order_make_the_same_file():
    arrays = {name: np.asarray(array, order="C") for name, array in ARRAYS.items()}
    places = lay_out({name: ArrayHeader(array.shape, array.dtype) for name, array in arrays.items()})
    content, crcs = bytearray(), {}
    for name in sorted(arrays, key=len):  # another order than in the file
        numbers, place = bytes_of(arrays[name]), places[name]
        cuts = [0, len(numbers) // 3, len(numbers) // 2, len(numbers)]
        pieces = [numbers[start:stop] for start, stop in pairwise(cuts)]
        crcs[name] = member_crc(place, [(zlib.crc32(piece), len(piece)) for piece in pieces])
        content.extend(bytes(max(0, place.end - len(content))))
        content[place.begins : place.numbers] = header_of(name, place, crcs[name])
        content[place.numbers : place.end] = numbers
    assert bytes(content) + directory_of(places, crcs) == written(arrays)


@given(st.binary(max_size=70), st.binary(max_size=70))
def test_the_crc_of_two_pieces(first, second):
    assert combine_crcs(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@pytest.mark.parametrize("shapes", [[2**31 - 129, 4, 2**30], [2**31 - 128, 4], [2**32 + 5, 2**33], [3, 4]])
def test_large_files_are_listed_as_zipfile_lists_them(shapes):
    """zipfile is told sizes of files that are not there: only the list of members is compared."""
    places = lay_out({f"a{number}": ArrayHeader((size,), np.dtype(np.uint8)) for number, size in enumerate(shapes)})
    crcs = {name: 7 + number for number, name in enumerate(places)}
    stream = io.BytesIO()
    archive = zipfile.ZipFile(stream, "w")
    for name, place in places.items():
        info = zipfile.ZipInfo(f"{name}.npy")
        info.CRC, info.file_size = crcs[name], len(place.header) + place.n_bytes
        info.compress_size, info.header_offset = info.file_size, place.begins
        info.external_attr, info.create_system = npz_layout.READABLE, npz_layout.UNIX
        assert header_of(name, place, crcs[name]) == info.FileHeader(zip64=True) + place.header
        archive.filelist.append(info)
    end = max(place.end for place in places.values())
    archive.start_dir = end
    parts: list[bytes] = []

    class Listing:
        """Where zipfile writes the list to."""

        def write(self, part):
            parts.append(bytes(part))

        def tell(self):
            return end + sum(map(len, parts))

        def flush(self):
            pass

    archive.fp = Listing()
    archive._write_end_record()
    archive.fp = None  # or its finaliser would write again
    assert directory_of(places, crcs) == b"".join(parts)
