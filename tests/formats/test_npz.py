"""npz: what is refused, what is read, and bytes that never change."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tests.formats import oracles
from xpipe.errors import DataError
from xpipe.formats import read_npz, write_npz
from xpipe.ground.sparse import Triple, to_triple


def test_every_scipy_format_and_type_is_read(tmp_path):
    matrix = sp.random(6, 5, 0.4, random_state=0, format="csr")
    path = str(tmp_path / "m.npz")
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        for make in (sp.csr_matrix, sp.csr_array):
            sp.save_npz(path, make(matrix).asformat(kind))
            oracles.assert_same(read_npz(path), matrix.astype(np.float32))


@pytest.mark.parametrize("kind", ["float16", "float64", ">f4", "longdouble", "bool", "int8", "uint64", ">i2"])
def test_values_of_every_real_type_are_read(tmp_path, kind):
    path = str(tmp_path / "m.npz")
    for form in ("csr", "coo"):
        places = {"indices": [0, 2], "indptr": [0, 1, 2]} if form == "csr" else {"row": [0, 1], "col": [0, 2]}
        np.savez(path, data=np.array([1, 1], kind), shape=(2, 3), format=form.encode(), **places)
        np.testing.assert_array_equal(read_npz(path).toarray(), [[1, 0, 0], [0, 0, 1]])


def test_object_arrays_are_refused(tmp_path):
    path = str(tmp_path / "m.npz")
    np.savez(path, data=np.array([print], dtype=object), indices=[0], indptr=[0, 1], shape=(1, 1), format=b"csr")
    with pytest.raises(DataError, match="object arrays are pickles") as caught:
        read_npz(path)
    assert caught.value.where == path


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(DataError, match="not a sparse matrix in npz"):
        read_npz(str(path))
    sp.save_npz(path, sp.eye(100, format="csr"))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="not a readable npz file"):
        read_npz(str(path))
    path.write_text("2 2\n0:1\n1:1\n")
    with pytest.raises(DataError, match="not a readable npz file"):
        read_npz(str(path))
    with pytest.raises(DataError, match="there is no file"):
        read_npz(str(tmp_path / "none.npz"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"indices": [0, 7]}, "index 7 is outside 0..2"),
        ({"indices": [0, -1]}, "index -1 is outside 0..2"),
        ({"indptr": [0, 2, 1]}, "indptr does not fit"),
        ({"indptr": [1, 1, 2]}, "indptr"),
        ({"data": [1.0, np.nan]}, "not finite as float32: nan"),
        ({"data": [1.0, 1e39]}, "not finite as float32"),
    ],
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_damaged_arrays_are_refused(tmp_path, change, says, kind):
    arrays = {"data": [1.0, 2.0], "indices": [0, 2], "indptr": [0, 1, 2], **change}
    path = str(tmp_path / "m.npz")
    shape = (2, 3) if kind == "csr" else (3, 2)
    np.savez(path, **{name: np.array(array) for name, array in arrays.items()}, shape=shape, format=kind.encode())
    with pytest.raises(DataError) as caught:
        read_npz(path)
    assert says in str(caught.value) or "not a sparse matrix" in str(caught.value)


GOOD = {
    "csr": {"data": [1.0, 2.0], "indices": [0, 2], "indptr": [0, 1, 2], "shape": (2, 3)},
    "csc": {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2, 2], "shape": (2, 3)},
    "bsr": {"data": np.ones((2, 1, 3)), "indices": [0, 0], "indptr": [0, 1, 2], "shape": (2, 3)},
    "coo": {"data": [1.0, 2.0], "row": [0, 1], "col": [0, 2], "shape": (2, 3)},
    "dia": {"data": np.ones((2, 3)), "offsets": [0, 1], "shape": (2, 3)},
}
HUGE = 2**63 - 1
WRONG = [  # (array, its values) that must never reach compiled code, for every format that has the array
    ("indices", [0.5, 0.5]), ("indices", [0.0, 1.0]), ("indices", [True, False]), ("indices", [0]),
    ("indices", [[0], [0]]),
    ("indices", [0, -1]), ("indices", [0, 99]), ("indices", [0, HUGE]), ("indices", [0, 2**64 - 1]), ("indices", 0),
    ("indices", ["a", "b"]), ("indptr", [0.0, 1.0, 2.0]), ("indptr", [0, 1]), ("indptr", [0, HUGE, 2]),
    ("indptr", [0, -5, 2]), ("indptr", [0, 2, 1]), ("indptr", [1, 1, 2]), ("indptr", [0, 1, HUGE]), ("indptr", []),
    ("indptr", [0, 1, 2, 2, 2, 2]), ("row", [0.5, 1.0]), ("row", [0, 2]), ("row", [0, -1]), ("row", [0, 2**32]),
    ("row", [0]), ("col", [0.0, 2.0]), ("col", [0, 3]), ("col", [[0, 2]]), ("offsets", [0.5, 1.0]), ("offsets", [0, 0]),
    ("offsets", [0, HUGE]), ("offsets", [-HUGE, 1]), ("offsets", [0]), ("shape", (-2, 3)), ("shape", (2, -3)),
    ("shape", (2,)), ("shape", (2, 3, 4)), ("shape", (2.0, 3.0)), ("shape", (2**62, 3)), ("shape", (2, 2**62)),
    ("shape", (2**40, 3)), ("shape", (10**9, 3)), ("shape", (2, 2**31)), ("shape", (0, 0)), ("data", [1j, 2j]),
    ("data", ["1", "2"]), ("data", []), ("data", 1.0), ("data", np.ones((2, 2, 2))), ("data", np.ones((2, 0, 3))),
    ("data", np.ones((2, 1, 3), "M8[s]")), ("format", b"csr\\0x"), ("format", b"lil"), ("format", 3),
    ("format", [b"csr"]),
]  # fmt: skip


@pytest.mark.parametrize("form", GOOD)
def test_arrays_that_do_not_fit_are_refused_before_compiled_code_sees_them(tmp_path, form):
    path = str(tmp_path / "m.npz")
    np.savez(path, **GOOD[form], format=form.encode())
    whole = read_npz(path)
    assert whole.shape == (2, 3)
    tried = 0
    for name, value in WRONG:
        if name not in {*GOOD[form], "format"}:
            continue
        array = np.asarray(value)
        if array.dtype == np.float64 and array.size == 0 and name != "data":
            array = array.astype(np.int64)
        np.savez(path, **{**GOOD[form], "format": form.encode(), name: array})
        with pytest.raises(DataError) as caught:
            read_npz(path)
        assert caught.value.where == path, (name, value)
        tried += 1
    assert tried > 15
    for name in GOOD[form]:
        np.savez(path, **{key: array for key, array in GOOD[form].items() if key != name}, format=form.encode())
        with pytest.raises(DataError, match=f"no array '{name}'"):
            read_npz(path)


def test_positions_beyond_int32_and_unused_room_at_the_end(tmp_path):
    path = str(tmp_path / "m.npz")
    places = {"indices": np.array([0, 2, 1], np.uint64), "indptr": np.array([0, 1, 2], ">i8")}
    np.savez(path, data=[1.0, 2.0, 9.0], shape=(2, 3), format="csr", **places)
    np.testing.assert_array_equal(read_npz(path).toarray(), [[1, 0, 0], [0, 0, 2]])


def test_an_entry_twice_is_an_error(tmp_path):
    path = str(tmp_path / "m.npz")
    np.savez(path, data=[1.0, 2.0], indices=[1, 1], indptr=[0, 2], shape=(1, 3), format=b"csr")
    with pytest.raises(DataError, match="has an entry twice"):
        read_npz(path)


def test_the_same_rows_give_the_same_bytes_however_they_are_cut(tmp_path):
    matrix = sp.random(50, 20, 0.2, random_state=1, format="csr", dtype=np.float32)
    written = set()
    for size in (50, 7, 1):
        path = tmp_path / f"{size}.npz"
        write_npz(str(path), matrix.shape, lambda s=size: (to_triple(matrix[i : i + s]) for i in range(0, 50, s)))
        written.add(path.read_bytes())
        oracles.assert_same(read_npz(str(path)), matrix)
    assert len(written) == 1


def test_parts_that_are_views_and_empty_matrices(tmp_path):
    path = str(tmp_path / "m.npz")
    matrix = to_triple(sp.csr_matrix(np.eye(4, dtype=np.float32)))
    view = Triple(matrix.indptr[1:4], matrix.indices, matrix.values)
    write_npz(path, (2, 4), lambda: [view])
    np.testing.assert_array_equal(read_npz(path).toarray(), np.eye(4)[1:3])
    write_npz(path, (0, 4), list)
    assert read_npz(path).shape == (0, 4)


def test_rows_that_do_not_add_up(tmp_path):
    with pytest.raises(DataError, match="the parts have 4 rows, the shape says 5"):
        write_npz(str(tmp_path / "m.npz"), (5, 4), lambda: [to_triple(sp.csr_matrix(np.eye(4, dtype=np.float32)))])
    assert list(tmp_path.iterdir()) == []


def test_writing_takes_the_memory_of_one_part(tmp_path):
    n = 200_000
    indptr = np.array([0, n])

    def parts():
        for _ in range(20):
            yield Triple(indptr, np.arange(n, dtype=np.int32), np.ones(n, np.float32))

    tracemalloc.start()
    write_npz(str(tmp_path / "m.npz"), (20, n), parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * n  # one part is 8 bytes an entry, the file holds 20
