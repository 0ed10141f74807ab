"""Names of labels and features."""

from __future__ import annotations

import gzip

import pytest

from xpipe.errors import DataError
from xpipe.formats import read_names


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
