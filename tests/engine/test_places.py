"""Places that users name, looked at before any work: what can be written, what can be read, what must lie apart."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from xpipe.engine import places
from xpipe.engine.places import file_problem, folder_problem, input_problem, relation_problems, try_folder
from xpipe.errors import ConfigError, DataError, ResourceError
from xpipe.ground import files


def test_folders_that_can_be_written(tmp_path):
    for path in (tmp_path, tmp_path / "new" / "deep", tmp_path / "n" / ("n" * 255)):
        assert folder_problem("out", str(path)) is None
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert folder_problem("out", str(link / "new")) is None
    assert folder_problem("out", "file://" + str(tmp_path / "new")) is None
    assert folder_problem("out", "memory://places/new") is None
    assert not (tmp_path / "new").exists()


def test_folders_that_cannot(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    cases = {
        str(tmp_path / "file"): "is a file",
        str(tmp_path / "pipe"): "is a file",
        str(tmp_path / "file" / "x" / "y"): "below a file",
        str(tmp_path / "nowhere"): "no such file or folder",
        str(tmp_path / "round" / "x"): "circle",
        "/proc/x": "kernel",
        "/proc/self/x": "kernel",
        "/sys/x": "kernel",
        "/dev/x": "kernel",
        "/dev/null": "is a file",
        str(tmp_path / ("n" * 256)): "more than 255 bytes",
        str(tmp_path / ("ü" * 128)): "more than 255 bytes",
        str(tmp_path) + "/n" * 2000: "too long",
        str(tmp_path / "a\0b"): "printable",
        str(tmp_path / "a\nb"): "printable",
        "nothing://x": "cannot be opened",
        "memory://x/*": "without",
    }
    for path, words in cases.items():
        problem = folder_problem("out", path)
        assert isinstance(problem, ConfigError | ResourceError), path
        assert words in problem.what, (path, problem.what)


def test_a_read_only_file_system(tmp_path, monkeypatch):
    """Root may write everywhere, so the system's answer is made up here."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "denied" in folder_problem("out", str(tmp_path)).what

    class Status:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "statvfs", lambda _: Status)
    assert "read-only" in folder_problem("out", str(tmp_path)).what


def test_trying_a_folder_leaves_nothing(tmp_path, monkeypatch):
    try_folder(str(tmp_path / "new"))
    assert os.listdir(tmp_path / "new") == []
    try_folder("memory://places-trial")
    assert files.listing("memory://places-trial") == []
    monkeypatch.setattr(places.tempfile, "TemporaryFile", _refuse)
    with pytest.raises(ResourceError, match="read-only") as caught:
        try_folder(str(tmp_path / "new"))
    assert caught.value.where == str(tmp_path / "new")


def _refuse(**_):
    raise OSError(errno.EROFS, "Read-only file system")


def test_files_to_write(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for path in ("file", "new", "deep/new", "n" * 255):
        assert file_problem("--out", str(tmp_path / path)) is None
    assert "is a folder" in file_problem("--out", str(tmp_path)).what
    assert "pipe" in file_problem("--out", str(tmp_path / "pipe")).what
    assert "below a file" in file_problem("--out", str(tmp_path / "file" / "a" / "b")).what
    assert "is a file" in file_problem("--out", str(tmp_path / "file" / "b")).what
    assert "255" in file_problem("--out", str(tmp_path / ("n" * 256))).what
    assert "name of a file" in file_problem("--out", "").what
    with files.open_write(str(tmp_path / ("n" * 255))) as stream:  # its temporary name must not be too long
        stream.write(b"1")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"1"


def test_files_to_read(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert input_problem("group.file", str(tmp_path / "file"), DataError) is None
        for name, words in {
            "": "folder",
            "none": "no such",
            "pipe": "pipe",
            "socket": "pipe",
            "a\0b": "no such",
        }.items():
            problem = input_problem("group.file", str(tmp_path / name) if name else str(tmp_path), DataError)
            assert isinstance(problem, DataError)
            assert words in problem.what


def test_folders_that_must_lie_apart(tmp_path):
    def problems(out, store, data=None):
        inputs = {} if data is None else {"data.dir": str(tmp_path / data)}
        found = relation_problems(str(tmp_path / out), str(tmp_path / store), inputs, ("tree", "heads"))
        return [problem.what for problem in found]

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert problems("runs/a", "runs/.store", "data") == []
    assert problems("runs/a", "runs/a/.store", "runs/b/tree") == []
    assert problems("real", "link", "data") == ["`store` must be another folder than `out`"]
    assert problems("runs/a", "runs", "data") == ["`out` must not be inside `store`"]
    assert problems("runs", "runs/tree/x", "data") == ["`store` must not be an output of the run"]
    assert problems("real", "s", "link") == ["`out` must be another folder than data.dir"]
    assert problems("runs", "s", "s") == ["`store` must be another folder than data.dir"]
    assert problems("runs", "s", "runs/tree") == ["data.dir must not be an output of this run"]
