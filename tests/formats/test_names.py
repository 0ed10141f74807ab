"""Names, filter pairs, index splits and group ids."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from xpipe.errors import DataError
from xpipe.formats import read_filter_labels, read_group_ids, read_index_split, read_membership, read_names


@pytest.fixture
def write(tmp_path):
    def write_file(content: str | bytes, name: str = "f.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file


def test_names_with_and_without_ids(write):
    assert read_names(write("adhesive\nState trading\n")) == (["adhesive", "State trading"], None)
    assert read_names(write("3\tadhesive\r\n4\tState\ttrading")) == (["adhesive", "State\ttrading"], ["3", "4"])
    assert read_names(write("a\tb\nc\n")).names == ["a\tb", "c"]
    assert read_names(write("a\u2028b\n\nc\x0bd\n")).names == ["a\u2028b", "", "c\x0bd"]  # only \n ends a line
    assert read_names(write(b"\xef\xbb\xbfa\n")).names == ["a"]
    assert read_names(write(gzip.compress(b"a\nb\n"), "f.txt.gz")).names == ["a", "b"]


def test_names_are_counted(write):
    path = write("a\nb\n")
    assert read_names(path, count=2).names == ["a", "b"]
    with pytest.raises(DataError, match="2 names for 3"):
        read_names(path, count=3)


def test_names_in_another_encoding(write):
    path = write("a\ncaf\xe9\n".encode("latin-1"))
    with pytest.raises(DataError, match="byte 0xe9 is not utf-8") as caught:
        read_names(path)
    assert f"{path}:2" in caught.value.where
    assert "latin-1" in caught.value.fix
    assert read_names(path, encoding="latin-1").names == ["a", "café"]


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


def test_group_ids(write):
    Y1 = read_group_ids(write("2\n-1\n\n0\n2"))
    np.testing.assert_array_equal(Y1.toarray(), [[0, 0, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]])
    assert Y1.dtype == np.float32
    assert read_group_ids(write("1\n2\n"), base=1).shape == (2, 2)
    assert read_group_ids(write("1\n"), n_groups=5).shape == (1, 5)
    assert read_group_ids(write("")).shape == (0, 0)
    with pytest.raises(DataError, match="2 group ids for 3 samples"):
        read_group_ids(write("1\n2\n"), n_rows=3)
    for text, options in (
        ("1\nx\n", {}),
        ("1\n-2\n", {}),
        ("1\n1 2\n", {}),
        ("1\n0\n", {"base": 1}),
        ("1\n4\n", {"n_groups": 4}),
    ):
        with pytest.raises(DataError, match=r"f\.txt:2"):
            read_group_ids(write(text), **options)


def test_membership_of_either_kind(write):
    np.testing.assert_array_equal(read_membership(write("1\n0\n")).toarray(), [[0, 1], [1, 0]])
    both = write("2 2\n0:1 1:1\n0:1\n")
    np.testing.assert_array_equal(read_membership(both).toarray(), [[1, 1], [1, 0]])
    np.testing.assert_array_equal(read_membership(both, samples=np.array([1])).toarray(), [[1, 0]])
    with pytest.raises(DataError, match="sample 2 is needed"):
        read_membership(both, samples=np.array([2]))
