"""npz: what is refused, what is read, and bytes that never change."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tests.formats import oracles
from xpipe.errors import DataError
from xpipe.formats import read_npz, write_npz
from xpipe.sparse import Triple, to_triple


def test_every_scipy_format_and_type_is_read(tmp_path):
    matrix = sp.random(6, 5, 0.4, random_state=0, format="csr")
    path = str(tmp_path / "m.npz")
    for kind in ("csr", "csc", "coo"):
        for make in (sp.csr_matrix, sp.csr_array):
            sp.save_npz(path, make(matrix).asformat(kind))
            oracles.assert_same(read_npz(path), matrix.astype(np.float32))


def test_object_arrays_are_refused(tmp_path):
    path = str(tmp_path / "m.npz")
    np.savez(path, data=np.array([print], dtype=object), indices=[0], indptr=[0, 1], shape=(1, 1), format=b"csr")
    with pytest.raises(DataError, match="holds object arrays") as caught:
        read_npz(path)
    assert caught.value.where == path


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(DataError, match="not a sparse matrix in npz"):
        read_npz(str(path))
    sp.save_npz(path, sp.eye(100, format="csr"))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="not a sparse matrix in npz"):
        read_npz(str(path))
    path.write_text("2 2\n0:1\n1:1\n")
    with pytest.raises(DataError, match="not a sparse matrix in npz"):
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
