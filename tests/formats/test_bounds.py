"""Files that never end: pipes, devices, gzip bombs, lines without an end. Each is refused after a bounded read."""

from __future__ import annotations

import gzip
import os
import socket
import zlib

import pytest

from xpipe.errors import DataError
from xpipe.formats import blocks, read_dataset, read_group_ids, read_names, read_npz, read_sparse, read_xmc
from xpipe.formats import lines as small_files
from xpipe.formats.checking import check_folder
from xpipe.ground import files
from xpipe.metrics.score_files import read_scores

READERS = [
    read_xmc, read_sparse, read_npz, read_names, read_group_ids,
    lambda path: read_scores(path, 3), lambda path: read_sparse(path + ".parquet"), files.read_bytes, files.sha256,
]  # fmt: skip


def make_special(path: str, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.symlink("/dev/zero", path)


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    for name in ("a", "a.parquet"):
        make_special(name, kind)
    for read in READERS:
        with pytest.raises(DataError, match="not a file"):
            read("a")
    make_special("train.txt", kind)
    for read in (read_dataset, check_folder):
        with pytest.raises(DataError, match="not a file"):
            read(".")


def bomb(path, start: bytes, line: bytes, n_lines: int) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(path, "wb") as stream:
        stream.write(packer.compress(start))
        for _ in range(n_lines // 1_000_000):
            stream.write(packer.compress(line * 1_000_000))
        stream.write(packer.flush())
    return str(path)


class Counted:
    """Counts the bytes that are unpacked."""

    def __init__(self, monkeypatch):
        self.n_bytes = 0
        read, readinto = gzip.GzipFile.read, gzip.GzipFile.readinto

        def counting_read(stream, size=-1):
            piece = read(stream, size)
            self.n_bytes += len(piece)
            return piece

        def counting_readinto(stream, buffer):
            got = readinto(stream, buffer)
            self.n_bytes += got
            return got

        monkeypatch.setattr(gzip.GzipFile, "read", counting_read)
        monkeypatch.setattr(gzip.GzipFile, "readinto", counting_readinto)


@pytest.mark.parametrize("line", [b"\n", b"1 1:1\n"])
def test_reading_stops_when_the_header_is_contradicted(tmp_path, monkeypatch, line):
    path = bomb(tmp_path / "train.txt.gz", b"12 9 5\n", line, 60_000_000 // len(line))
    counted = Counted(monkeypatch)
    for read in (read_xmc, lambda _: check_folder(str(tmp_path))):
        with pytest.raises(DataError, match=r"at least .* rows instead of 12"):
            read(path)
    assert counted.n_bytes < 40 << 20  # two readings of 60 MB each


def test_a_header_of_more_rows_than_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("999999999999 9 5\n1 1:1\n")
    with pytest.raises(DataError, match="cannot be in a file of"):
        read_xmc(str(tmp_path / "a.txt"))


def test_a_line_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LONGEST_LINE", 3 << 20)
    monkeypatch.setattr(small_files, "LONGEST", 3 << 20)
    path = bomb(tmp_path / "a.txt.gz", b"12 9 5\n", b"1" * 9, 4_000_000)
    with pytest.raises(DataError, match="a line of more than"):
        read_xmc(path)
    with pytest.raises(DataError, match="a line of more than"):
        read_names(path)
    with pytest.raises(DataError, match="a line of more than"):
        blocks.decompress(path, str(tmp_path / "plain"))
    assert not (tmp_path / "plain").exists()


def test_more_names_and_ids_than_there_can_be(tmp_path, monkeypatch):
    path = bomb(tmp_path / "a.txt.gz", b"", b"0\n", 20_000_000)
    counted = Counted(monkeypatch)
    with pytest.raises(DataError, match="more than 3 names"):
        read_names(path, count=3)
    with pytest.raises(DataError, match="more than 3 group ids"):
        read_group_ids(path, n_rows=3)
    assert counted.n_bytes < 8 << 20


@pytest.mark.parametrize(
    "harm", [lambda raw: raw[:-5], lambda raw: raw + b"garbage", lambda raw: raw[:9] + b"\xff" * 9]
)
def test_broken_gzip(tmp_path, harm):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(harm(gzip.compress(b"1 9 5\n1 1:1\n")))
    with pytest.raises(DataError, match="the gzip file is"):
        read_xmc(str(path))


def test_a_label_after_a_space_is_named(tmp_path):
    path = tmp_path / "a.txt"
    for lead in (" ", "\t", "  "):
        path.write_text(f"2 9 5\n1 1:1\n{lead}3 1:2\n")
        with pytest.raises(DataError, match="a label after a space") as caught:
            read_xmc(str(path))
        assert caught.value.where.endswith("a.txt:3, token '3'")
