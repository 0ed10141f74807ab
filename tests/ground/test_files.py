"""Files: complete or not at all, local and remote (a real S3 server), links."""

from __future__ import annotations

import errno
import gc
import hashlib
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from xpipe.errors import ResourceError
from xpipe.formats.parts import PartedMatrix, write_part
from xpipe.ground import files
from xpipe.ground.sparse import Triple
from xpipe.ground.temporary_names import is_abandoned


@pytest.fixture(params=["plain", "file", "local", "memory"])
def top(request, tmp_path):
    """A folder that does not exist yet, in every way to name one."""
    if request.param == "memory":
        url = f"memory://{tmp_path.name}"
        yield url
        files.remove(url)
    else:
        yield {"plain": "", "file": "file://", "local": "local://"}[request.param] + str(tmp_path / "new")


def write_and_fail(path: str, content: bytes, mistake: BaseException) -> None:
    with files.open_write(path) as stream:
        stream.write(content)
        raise mistake


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("path", "names", "joined"),
    [
        ("a", ["b"], "a/b"), ("a/", ["b", "c"], "a/b/c"), ("/", ["b"], "/b"), ("", ["b"], "b"), ("a", [], "a"),
        ("s3://bucket", ["b"], "s3://bucket/b"), ("s3://bucket/", ["b"], "s3://bucket/b"), ("memory://", ["b"], "memory://b"),
    ],
)  # fmt: skip
def test_join(path, names, joined):
    assert files.join(path, *names) == joined


@pytest.mark.parametrize(
    ("path", "parent", "name"),
    [("a/b", "a", "b"), ("a/b/", "a", "b"), ("b", ".", "b"), ("/b", "/", "b"), ("s3://x/y", "s3://x", "y")],
)
def test_parent_and_basename(path, parent, name):
    assert files.parent(path) == parent
    assert files.basename(path) == name


def test_local_names():
    assert files.local("file:///a/b") == "/a/b"
    assert files.local("s3://a") == "s3://a"
    assert files.is_local("a/b")
    assert not files.is_local("s3://a/b")


# ---------------------------------------------------------------- reading, writing, listing


def test_write_list_read_remove(top):
    assert not files.exists(top)
    assert files.listing(top) == []
    assert list(files.walk(top)) == []
    path = files.join(top, "deep", "er", "b.bin")
    files.write_bytes(path, b"first")
    files.write_bytes(path, b"second!")
    files.write_bytes(files.join(top, "a.bin"), b"")
    assert files.read_bytes(path) == b"second!"
    assert files.size(path) == 7
    assert files.sha256(path) == hashlib.sha256(b"second!").hexdigest()
    assert files.size(files.join(top, "a.bin")) == 0
    assert files.is_folder(top)
    assert files.is_folder(files.join(top, "deep"))
    assert not files.is_folder(path)
    assert files.exists(path)
    assert files.listing(top) == ["a.bin", "deep"]
    assert list(files.walk(top)) == ["a.bin", "deep/er/b.bin"]  # and no temporary file
    files.remove(path)
    files.remove(path)  # a missing one is fine
    assert not files.exists(path)
    files.remove(top)
    assert not files.exists(top)
    files.remove(top)


def test_a_missing_file_is_told(top):
    with pytest.raises(FileNotFoundError):
        files.read_bytes(files.join(top, "none"))


def test_nothing_is_there_before_it_is_complete(top):
    path = files.join(top, "a.bin")
    with files.open_write(path) as stream:
        stream.write(b"half")
        assert not files.exists(path)
        stream.write(b" and half")
    assert files.read_bytes(path) == b"half and half"


def test_readers_see_the_old_file_until_the_new_one_is_complete(top):
    path = files.join(top, "a.bin")
    files.write_bytes(path, b"old")
    with files.open_write(path) as stream:
        stream.write(b"new")
        assert files.read_bytes(path) == b"old"
    assert files.read_bytes(path) == b"new"


@pytest.mark.parametrize("mistake", [ValueError("no"), KeyboardInterrupt(), OSError(errno.EIO, "no")])
def test_an_error_leaves_nothing_behind(top, mistake):
    path = files.join(top, "a.bin")
    expected = ResourceError if isinstance(mistake, OSError) else type(mistake)
    with pytest.raises(expected) as caught:
        write_and_fail(path, b"x" * 100_000, mistake)
    assert mistake in (caught.value, caught.value.__cause__)
    assert list(files.walk(top)) == []
    files.write_bytes(path, b"old")
    with pytest.raises(expected):
        write_and_fail(path, b"new", mistake)
    assert files.read_bytes(path) == b"old"
    assert list(files.walk(top)) == ["a.bin"]


@pytest.mark.parametrize("prefix", ["", "file://"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named(tmp_path, prefix, number):
    path = prefix + str(tmp_path / "a.bin")
    with pytest.raises(ResourceError, match="the disk is full") as caught:
        write_and_fail(path, b"some", OSError(number, os.strerror(number)))
    assert caught.value.where == str(tmp_path / "a.bin")
    assert "same command" in caught.value.fix
    assert os.listdir(tmp_path) == []


def test_a_device_that_is_really_full():
    with pytest.raises(OSError, match="No space left") as caught, open("/dev/full", "wb", buffering=0) as stream:
        stream.write(b"x")
    assert caught.value.errno == errno.ENOSPC  # the number that open_write looks for


def test_a_killed_writer_leaves_only_an_abandoned_temporary_file(tmp_path):
    code = """
import os, signal, sys
from xpipe import files
with files.open_write(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.bin")], check=False)
    assert done.returncode == -9
    (left,) = os.listdir(tmp_path)
    assert left != "a.bin"
    assert is_abandoned(left)


def test_new_files_have_the_usual_mode(tmp_path):
    old = os.umask(0o022)
    try:
        files.write_bytes(str(tmp_path / "a"), b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o644


def test_removing_a_link_keeps_what_it_points_to(tmp_path):
    files.write_bytes(str(tmp_path / "kept/a"), b"1")
    os.symlink(tmp_path / "kept", tmp_path / "link")
    files.remove(str(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["a"]


# ---------------------------------------------------------------- links


def test_link_or_copy_links(tmp_path):
    source, target = str(tmp_path / "a"), str(tmp_path / "deep/b")
    files.write_bytes(source, b"1")
    files.write_bytes(target, b"old")
    for _ in range(2):  # the second time it is the same file already
        files.link_or_copy(source, target)
        assert os.path.samefile(source, target)
    assert sorted(files.walk(str(tmp_path))) == ["a", "deep/b"]


def test_link_or_copy_copies_where_links_cannot_be(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source, target = str(tmp_path / "a"), str(tmp_path / "deep/b")
    files.write_bytes(source, b"1" * 9_000_000)
    files.link_or_copy(source, target)
    assert not os.path.samefile(source, target)
    assert files.sha256(source) == files.sha256(target)
    assert sorted(files.walk(str(tmp_path))) == ["a", "deep/b"]


def test_link_or_copy_between_places(top, tmp_path):
    source = str(tmp_path / "source")
    files.write_bytes(source, b"1")
    files.link_or_copy(source, files.join(top, "b"))
    files.link_or_copy(files.join(top, "b"), str(tmp_path / "back"))
    assert files.read_bytes(str(tmp_path / "back")) == b"1"


def test_link_or_copy_of_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.link_or_copy(str(tmp_path / "none"), str(tmp_path / "b"))
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- a real object store


def test_s3(bucket, tmp_path):
    """One object's life, an error, another process's writes, and a matrix in parts, on a real server."""
    top = f"{bucket}/runs"
    path = files.join(top, "deep", "a.bin")
    large = os.urandom(6 << 20) * 2  # more than one block of an upload
    assert not files.exists(top)
    assert files.listing(top) == []
    files.write_bytes(path, b"old")
    with files.open_write(path) as stream:
        stream.write(large)
        assert files.read_bytes(path) == b"old"
    assert files.sha256(path) == hashlib.sha256(large).hexdigest()
    for start in (b"small", large):
        for target in (path, files.join(top, "never.bin")):
            with pytest.raises(KeyboardInterrupt):
                write_and_fail(target, start, KeyboardInterrupt())
            gc.collect()  # the finaliser of the stream must not upload what there is
    assert files.size(path) == len(large)
    assert list(files.walk(top)) == ["deep/a.bin"]

    # what another process writes is seen, although this one has listed the folder before
    assert files.listing(files.join(top, "deep")) == ["a.bin"]
    code = "import sys; from xpipe.ground import files; files.write_bytes(sys.argv[1], b'1'); files.remove(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, files.join(top, "deep", "b.bin"), path], check=True)
    assert files.exists(files.join(top, "deep", "b.bin"))
    assert not files.exists(path)
    assert files.listing(files.join(top, "deep")) == ["b.bin"]
    files.link_or_copy(files.join(top, "deep", "b.bin"), str(tmp_path / "b.bin"))
    assert (tmp_path / "b.bin").read_bytes() == b"1"

    # a mistyped bucket is an error, not a new bucket
    with pytest.raises(ResourceError, match="bucket"):
        files.write_bytes("s3://xpipe-tset/a.bin", b"1")
    assert not files.exists("s3://xpipe-tset")

    parts = [
        Triple(np.array([0, 1, 3]), np.arange(3, dtype=np.int32), np.ones(3, np.float32) * part) for part in (1, 2)
    ]
    paths = tuple(files.join(top, f"part-{part}.arrow") for part in range(2))
    for part, (where, triple) in enumerate(zip(paths, parts, strict=True)):
        facts = write_part(where, np.arange(2) + 2 * part, triple)
        assert facts["sha256"] == files.sha256(where)
    matrix = PartedMatrix(paths, (0, 2, 4), 3)
    samples, rows = matrix.take(np.array([3, 0, 3]))
    assert samples.tolist() == [3, 0, 3]
    assert rows.indices.tolist() == [1, 2, 0, 1, 2]
    assert rows.values.tolist() == [2, 2, 1, 2, 2]

    files.remove(top)
    assert not files.exists(top)
