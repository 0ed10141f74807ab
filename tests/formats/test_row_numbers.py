"""Filter pairs and index splits."""

from __future__ import annotations

import numpy as np
import pytest

from xpipe.errors import DataError
from xpipe.formats import read_filter_labels, read_index_split


def test_filter_labels(write):
    path = write("0 3\n2 1\n")
    found = read_filter_labels(path, n_rows=3, n_labels=4)
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 3], [2, 1]]
    assert read_filter_labels(write("")).shape == (0, 2)
    with pytest.raises(DataError, match=r"row 2 is beyond the last one, 1") as caught:
        read_filter_labels(write("0 3\n2 1\n"), n_rows=2)
    assert caught.value.where.endswith("f.txt:2")
    with pytest.raises(DataError, match=r"label 3 is beyond the last one, 2"):
        read_filter_labels(write("0 3\n2 1\n"), n_labels=3)


@pytest.mark.parametrize("line", ["1", "1 2 3", "a 2", "-1 2", "1,2", ""])
def test_bad_filter_lines(write, line):
    with pytest.raises(DataError, match="cannot be read") as caught:
        read_filter_labels(write(f"0 0\n{line}\n1 1\n"))
    assert "f.txt:2" in caught.value.where


def test_index_splits(write):
    path = write("1 5\n3 6\n")
    assert read_index_split(path, base=1).tolist() == [0, 2]
    assert read_index_split(path, base=0, column=1, n_rows=7).tolist() == [5, 6]
    for options, says in (
        ({"base": 1, "n_rows": 2}, "row 3 is out of range"),
        ({"base": 2}, "base must be 0 or 1"),
        ({"base": 0, "column": 2}, "there is no column 2"),
    ):
        with pytest.raises(DataError, match=says):
            read_index_split(path, **options)
    with pytest.raises(DataError, match="row 0 is out of range"):
        read_index_split(write("0\n"), base=1)
    with pytest.raises(DataError, match="row 4 comes twice") as caught:
        read_index_split(write("4\n2\n4\n"), base=0)
    assert caught.value.where.endswith("f.txt:3")
    with pytest.raises(DataError, match=r"f\.txt:2"):
        read_index_split(write("4 1\n2\n"), base=0)
    with pytest.raises(DataError, match="19 digits"):
        read_index_split(write("1" * 19), base=0)
