"""Arrays in files of the store: rows of an array that lies in parts."""

from __future__ import annotations

import numpy as np
import pytest

from xpipe.stages.arrays import take_rows_of_arrays, write_array


@pytest.mark.parametrize("where", ["local", "remote"])
@pytest.mark.parametrize("rows", [[], [0], [4], [2, 3, 4, 9], range(10)])
def test_rows_of_parts_are_those_of_the_whole_array(tmp_path, where, rows):
    folder = str(tmp_path) if where == "local" else f"memory://arrays-{tmp_path.name}"
    whole = np.random.default_rng(0).random((10, 3)).astype(np.float32)
    starts = (0, 4, 4, 9, 10)  # the second part is empty
    paths = [f"rows/part-{part}.npy" for part in range(4)]
    for part, path in enumerate(paths):
        write_array(folder, path, whole[starts[part] : starts[part + 1]])
    taken = take_rows_of_arrays(folder, paths, starts, np.array(rows, dtype=np.int64))
    assert taken.dtype == np.float32
    assert taken.tobytes() == whole[list(rows)].tobytes()
    assert taken.shape == (len(rows), 3)
