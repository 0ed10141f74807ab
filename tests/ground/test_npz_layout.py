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

from xpipe.errors import DataError
from xpipe.ground import files, npy_header, npz_layout
from xpipe.ground.npy_header import ArrayHeader, map_npz, read_npz
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


def test_numpy_reads_what_it_would_have_written():
    with np.load(io.BytesIO(written(ARRAYS)), allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert written({}) == saved({})


def test_only_spaces_differ_from_the_bytes_of_numpy(monkeypatch):
    plain = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in ARRAYS.items()}
    places = lay_out({name: ArrayHeader(array.shape, array.dtype) for name, array in plain.items()})
    assert all(place.numbers % 64 == 0 for place in places.values())
    monkeypatch.setattr(npz_layout, "ALIGNED", 1)
    assert written(ARRAYS) == saved(plain)


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


@pytest.fixture
def mapped_from(monkeypatch):
    monkeypatch.setattr(npy_header, "MAPPED_FROM", 1)


def test_a_file_is_mapped_where_its_numbers_lie_aligned(tmp_path, mapped_from):
    path = str(tmp_path / "a.npz")
    with files.open_write(path) as stream:
        write_npz(stream, ARRAYS)
    found = map_npz(path)
    for name, array in read_npz(path).items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert not found["numbers"].flags.writeable  # its pages are those of the file
    assert found["numbers"].flags.aligned
    assert found["table"].flags.writeable  # was read


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_other_writers_are_read(tmp_path, mapped_from, save):
    path = str(tmp_path / "a.npz")
    arrays = {
        "x" * extra: np.arange(100 + extra, dtype=np.int64) for extra in range(1, 9)
    }  # some are aligned by chance
    save(path, **arrays)
    for name, array in map_npz(path).items():
        np.testing.assert_array_equal(array, arrays[name])


def test_a_changed_byte_of_a_mapped_array_is_refused(tmp_path, mapped_from):
    path = tmp_path / "a.npz"
    large = {"numbers": np.arange(100_000)}  # the headers of small members are read with all of their numbers
    content = bytearray(written(large))
    content[400_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a readable npz file") as caught:
        map_npz(str(path))
    assert "checksum" in caught.value.why
