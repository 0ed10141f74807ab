"""npy and npz files: numpy's own are read, every other one is a DataError before an array is made of it."""

from __future__ import annotations

import io
import pickle
import random
import struct
import warnings
import zipfile

import numpy as np
import pytest

from xpipe.errors import DataError
from xpipe.ground.npy_header import ArrayHeader, check_npy, check_npz, read_npy, read_npz

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "text": np.array("hello"),
    "none": np.zeros((0, 3), np.int64),
    "flags": np.array([True, False]),
}


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version, allow_pickle=True)
    return buffer.getvalue()


def npy_with(header: bytes, tail: bytes = b"", *, length: int | None = None) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) if length is None else length) + header + tail


def shaped(shape: str, descr: str = "'<f4'", tail: bytes = b"\0" * 8) -> bytes:
    return npy_with(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode(), tail)


def npz(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in members.items():
            archive.writestr(name.rstrip("+"), content)
    return buffer.getvalue()


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_wrote_is_read(write, tmp_path):
    path = tmp_path / "a.npz"
    write(path, **ARRAYS)
    for source in (str(path), io.BytesIO(path.read_bytes())):
        assert check_npz(source) == {name: ArrayHeader(array.shape, array.dtype) for name, array in ARRAYS.items()}
        for name, array in read_npz(source).items():
            np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_each_version_of_npy_is_read(version):
    array = np.asfortranarray(ARRAYS["a"])
    assert check_npy(io.BytesIO(npy(array, version))) == ((2, 3), np.float32)
    np.testing.assert_array_equal(read_npy(io.BytesIO(npy(array, version))), array)


WRONG_NPY = {
    "empty": b"",
    "no magic": b"hello, world, this is text",
    "another version": b"\x93NUMPY\x07\x00" + b"\0" * 100,
    "terabytes": shaped(f"({2**40},)"),
    "a product that wraps": shaped(f"({2**32}, {2**32}, 2)"),
    "2^80": shaped(f"({2**80},)"),
    "thousands of digits": shaped(f"({'9' * 6000},)"),
    "negative": shaped("(-2,)"),
    "two negative lengths": shaped("(-1, -2)"),
    "true": shaped("(True, 2)"),
    "a text": shaped("'ab'"),
    "deep": npy_with(b"(" * 9000, b"\0" * 8),
    "deep lists": npy_with(b"[" * 90 + b"]" * 90, b"\0" * 8),
    "long": npy_with(b" " * 60_000, b"\0" * 8),
    "header cut short": npy_with(b"{'descr'", length=5000),
    "many dimensions": shaped("(" + "1," * 99 + "2)"),
    "numbers missing": npy(ARRAYS["a"])[:-1],
    "numbers left over": npy(ARRAYS["a"]) + b"x",
    "pickles": npy(np.array([{}], dtype=object)),
    "pickle alone": pickle.dumps([1, 2]),
    "structured": npy(np.zeros(2, dtype=[("a", "<f4"), ("b", "<f4")])),
    "dates": npy(np.zeros(2, dtype="datetime64[s]")),
    "void": npy(np.zeros(2, dtype="V4")),
    "no such type": shaped("(2,)", descr="'<f99'"),
    "a type that is no text": shaped("(2,)", descr="[[[]]]"),
}


@pytest.mark.parametrize("content", WRONG_NPY.values(), ids=WRONG_NPY.keys())
def test_every_other_npy_is_a_data_error(content):
    for check in (check_npy, read_npy):
        with pytest.raises(DataError):
            check(io.BytesIO(content), "a.npy")
    with pytest.raises(DataError, match=r"folder/a\.npz"):
        check_npz(io.BytesIO(npz({"a.npy": content})), "folder/a.npz")


def encrypted() -> bytes:
    content = bytearray(npz({"a.npy": npy(ARRAYS["a"])}))
    content[6] |= 1  # flags of the local header
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def declared(size: int) -> bytes:
    """A member whose directory entry names another size."""
    content = bytearray(npz({"a.npy": shaped(f"({2**28},)")}, zipfile.ZIP_DEFLATED))
    at = content.rindex(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", size)
    return bytes(content)


WRONG_NPZ = {
    "empty": b"",
    "an npy": npy(ARRAYS["a"]),
    "text": b"PK\x03\x04 and then text",
    "cut short": npz({"a.npy": npy(ARRAYS["a"])})[:-30],
    "encrypted": encrypted(),
    "twice": npz({"a.npy": npy(ARRAYS["a"]), "a.npy+": npy(ARRAYS["a"])}),
    "not an array": npz({"a.txt": b"hello"}),
    "lzma": npz({"a.npy": npy(ARRAYS["a"])}, zipfile.ZIP_LZMA),
    "a size beyond deflate": declared(2**30 + 82),
}


@pytest.mark.parametrize("content", WRONG_NPZ.values(), ids=WRONG_NPZ.keys())
def test_every_other_npz_is_a_data_error(content):
    for check in (check_npz, read_npz):
        with pytest.raises(DataError, match=r"a\.npz"):
            check(io.BytesIO(content), "a.npz")


def test_missing_files_and_folders_are_data_errors(tmp_path):
    for check in (check_npz, read_npz, check_npy, read_npy):
        with pytest.raises(DataError, match="no such file"):
            check(str(tmp_path / "none.npz"))
        with pytest.raises(DataError):
            check(str(tmp_path))


def test_no_mutation_gives_anything_but_the_arrays_or_a_data_error():
    buffer, rng = io.BytesIO(), random.Random(0)
    np.savez(buffer, **ARRAYS)
    content = buffer.getvalue()
    for _ in range(500):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        cut = bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])])
        try:
            found = read_npz(io.BytesIO(cut), "a.npz")
        except DataError:
            continue
        for name, array in found.items():  # a name may have changed, contents are guarded by the archive's CRC
            assert any(np.array_equal(array, own) for own in ARRAYS.values()), name
