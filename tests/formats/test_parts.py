"""Matrices in parts: what is written is read to the last bit, in any order, and damage is told."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, finite_float32
from xpipe.errors import DataError
from xpipe.formats.parts import SCHEMA, PartedMatrix, read_part, write_part
from xpipe.ground.sparse import Triple, to_triple
from xpipe.ground.sparse_rows import slice_rows

on_disk = settings(deadline=None, max_examples=40)
ANY = Triple(np.array([0, 2, 2, 3]), np.array([1, 5, 0], np.int32), np.array([1, -0.0, 3], np.float32))


def assert_same(found: Triple, wanted: Triple) -> None:
    assert [array.dtype for array in found] == [np.int64, np.int32, np.float32]
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.values.view(np.uint32), wanted.values.view(np.uint32))  # -0.0 too


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that examples of one property test may share."""
    return tmp_path_factory.mktemp("parts")


@on_disk
@given(csr_matrices(values=finite_float32), st.integers(0, 2**40))
def test_written_is_read_and_twice_the_same_bytes(place, matrix, first):
    triple, path = to_triple(matrix), str(place / "part.arrow")
    samples = np.arange(matrix.shape[0]) * 3 + first
    facts = write_part(path, samples, triple)
    found_samples, found = read_part(path)
    assert found_samples.dtype == np.int64
    np.testing.assert_array_equal(found_samples, samples)
    assert_same(found, triple)
    content = (place / "part.arrow").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert facts == {"rows": matrix.shape[0], "entries": matrix.nnz, "bytes": len(content), "sha256": digest}
    assert write_part(str(place / "other.arrow"), samples, triple) == facts


def test_the_bytes_of_a_slice_are_those_of_a_copy(tmp_path):
    sliced = slice_rows(ANY, 1, 3)
    copied = Triple(*(array.copy() for array in sliced))
    assert write_part(str(tmp_path / "a"), np.arange(2), sliced) == write_part(
        str(tmp_path / "b"), np.arange(2), copied
    )


def test_local_parts_are_mapped_not_loaded(tmp_path):
    path = str(tmp_path / "part.arrow")
    n = 8 << 20
    write_part(path, np.zeros(1), Triple(np.array([0, n]), np.zeros(n, np.int32), np.zeros(n, np.float32)))
    before = pa.total_allocated_bytes()
    _, triple = read_part(path)
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert not triple.values.flags.owndata
    assert not triple.values.flags.writeable


@st.composite
def parted(draw):
    """(matrix, cuts): cuts begin with 0 and end with n_rows, with empty parts between."""
    matrix = draw(csr_matrices(most=10))
    n_rows = matrix.shape[0]
    cuts = [0, *sorted(draw(st.lists(st.integers(0, n_rows), max_size=4))), n_rows]
    return matrix, cuts


def write_parts(folder, matrix, cuts) -> PartedMatrix:
    paths = []
    for index, (start, stop) in enumerate(pairwise(cuts)):
        paths.append(str(folder / f"part-{index}.arrow"))
        write_part(paths[-1], np.arange(start, stop) + 1000, slice_rows(to_triple(matrix), start, stop))
    return PartedMatrix(tuple(paths), tuple(cuts), matrix.shape[1])


@on_disk
@given(parted(), st.data())
def test_take_gives_rows_in_any_order_with_repeats(place, both, data):
    matrix, cuts = both
    stored = write_parts(place, matrix, cuts)
    n_rows = matrix.shape[0]
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=12)) if n_rows else []
    samples, found = stored.take(np.array(rows, dtype=np.int64))
    assert samples.tolist() == [row + 1000 for row in rows]
    assert [array.dtype for array in found] == [np.int64, np.int32, np.float32]
    assert oracles.rows_of(found) == oracles.take_rows(matrix, rows)


@on_disk
@given(parted())
def test_all_parts_together_are_the_matrix(place, both):
    matrix, cuts = both
    stored = write_parts(place, matrix, cuts)
    assert stored.n_rows == matrix.shape[0]
    assert_same(stored.load(), to_triple(matrix))
    assert stored.samples().tolist() == [row + 1000 for row in range(matrix.shape[0])]


def test_no_parts_at_all():
    empty = PartedMatrix((), (0,), 5)
    assert empty.n_rows == 0
    assert empty.load().n_rows == 0
    assert empty.samples().tolist() == []
    samples, found = empty.take([])
    assert len(samples) == found.n_rows == 0


def test_rows_that_are_not_there(tmp_path):
    stored = PartedMatrix((str(tmp_path / "p"),), (0, 3), 6)
    write_part(stored.paths[0], np.arange(3), ANY)
    for row in (3, -1):
        with pytest.raises(IndexError):
            stored.take(np.array([0, row]))


def test_a_part_rebuilt_under_its_name_is_seen_anew(tmp_path):
    path = str(tmp_path / "part.arrow")
    stored = PartedMatrix((path,), (0, 3), 6)
    for number in range(5):
        values = np.full(3, number, np.float32)
        write_part(path, np.arange(3), ANY._replace(values=values))
        mapped = stored.load()
        assert mapped.values.tolist() == values.tolist()
        if number == 0:
            first = mapped
    assert first.values.tolist() == [0, 0, 0]  # who mapped the old part keeps it


def test_an_unchanged_part_is_opened_once(tmp_path):
    stored = PartedMatrix((str(tmp_path / "p"),), (0, 3), 6)
    write_part(stored.paths[0], np.arange(3), ANY)
    assert stored.part(0)[1].values is stored.part(0)[1].values


def test_mapped_parts_do_not_use_up_the_open_files(tmp_path):
    paths = [str(tmp_path / str(index)) for index in range(64)]
    for path in paths:
        write_part(path, np.arange(3), ANY)
    before = len(os.listdir("/proc/self/fd"))
    held = [read_part(path) for path in paths]
    assert len(os.listdir("/proc/self/fd")) - before < 8
    assert len(held) == 64


@pytest.mark.parametrize(
    "harm", [lambda raw: b"", lambda raw: raw[:100], lambda raw: raw[:-1], lambda raw: raw[8:], lambda raw: b"\0" * 900]
)
def test_what_is_no_part(tmp_path, harm):
    path = tmp_path / "part.arrow"
    write_part(str(path), np.arange(3), ANY)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(DataError, match="a stored part cannot be read") as caught:
        read_part(str(path))
    assert caught.value.where == str(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_part(str(tmp_path / "none"))


def test_a_part_with_other_columns(tmp_path):
    path = str(tmp_path / "part.arrow")
    schema = pa.schema([*list(SCHEMA)[:2], ("values", pa.large_list(pa.float64()))])
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([[0], [[1]], [[1.0]]], schema=schema))
    with pytest.raises(DataError, match="other columns"):
        read_part(path)


FLIP = """
import sys
from xpipe.errors import DataError
from xpipe.formats.parts import read_part
path = sys.argv[1]
content = open(path, "rb").read()
refused = 0
for position in range(len(content)):
    changed = bytearray(content)
    changed[position] ^= 0x80
    with open(path + ".changed", "wb") as stream:
        stream.write(changed)
    try:
        samples, triple = read_part(path + ".changed")
        assert len(samples) == triple.n_rows and len(triple.indices) == len(triple.values) == triple.indptr[-1]
    except DataError:
        refused += 1
print(refused)
"""


def test_no_flipped_byte_leads_outside_the_file(tmp_path):
    """In a process of its own: a wrong length once made it crash."""
    path = str(tmp_path / "part.arrow")
    write_part(path, np.arange(3), ANY)
    done = subprocess.run([sys.executable, "-c", FLIP, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
