"""The store: damage is noticed, publishing is last, receipts are believed only with their files, one run a folder."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.test_files import dead_process
from xpipe import files, store
from xpipe.errors import ResourceError
from xpipe.store import MANIFEST, RECEIPTS, RunLock, Store, content_key, read_receipts, write_receipt

INGREDIENTS = {"stage": "read", "version": 1, "params": {"b": [1, 2.5, None], "a": "ä"}, "seed": 0}
KEY = "e0b1d7a6b4f9b0d0"


def put(folder: str, path: str, content: bytes, **facts) -> dict:
    """Write a file of an artifact; gives its entry."""
    full = files.join(folder, path)
    files.write_bytes(full, content)
    return {"path": path, "bytes": len(content), "sha256": files.sha256(full), **facts}


@pytest.fixture
def artifacts(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def finished(artifacts):
    """A published stage with two artifacts."""
    folder = artifacts.begin("read", KEY)
    entries = [put(folder, f"features/part-{index}", b"0123456789" * index, rows=index) for index in (1, 2)]
    labels = [put(folder, "labels/part-0", b"abc")]
    made = {"features": (entries, {"n_columns": 5, "widths": {7: "x", 10: "y"}}), "labels": (labels, {})}
    return artifacts.publish("read", KEY, INGREDIENTS, made, {"rows": 3})


# ---------------------------------------------------------------- keys and manifests


def test_content_key_is_golden_and_knows_no_order():
    assert content_key(INGREDIENTS) == "3f9100c8799c2975a320"
    assert content_key(dict(reversed(INGREDIENTS.items()))) == "3f9100c8799c2975a320"
    assert content_key(INGREDIENTS | {"seed": 1}) != "3f9100c8799c2975a320"


def test_a_published_stage_is_found_as_it_was(artifacts, finished):
    found = artifacts.find("read", KEY)
    assert found == finished
    assert artifacts.damage(found) == ""
    assert found.ingredients == INGREDIENTS
    assert found.summary == {"rows": 3}
    assert found.artifacts["features"].about == {"n_columns": 5, "widths": {"7": "x", "10": "y"}}
    assert [entry["rows"] for entry in found.artifacts["features"].files] == [1, 2]
    assert found.folder == files.join(artifacts.path, f"read-{KEY}")
    assert artifacts.stages() == [(found.folder, found)]
    assert artifacts.find("read", "other") is None
    assert artifacts.find("group", KEY) is None


def test_the_digest_of_an_artifact_is_of_content_only(tmp_path):
    digests = []
    for name, content, about in (("a", b"1", {}), ("b", b"1", {}), ("c", b"2", {}), ("d", b"1", {"x": 1})):
        other = Store(str(tmp_path / name))
        folder = other.begin("read", name)
        manifest = other.publish("read", name, {}, {"x": ([put(folder, "x/p", content)], about)}, {})
        digests.append(manifest.artifacts["x"].digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (os.unlink, "features/part-2 is missing"),
        (lambda path: os.truncate(path, 19), "features/part-2 has 19 bytes instead of 20"),
        (lambda path: files.write_bytes(path, b"0123456789" * 3), "features/part-2 has 30 bytes instead of 20"),
        (
            lambda path: files.write_bytes(path, b"0123456789012345678X"),
            "features/part-2 has another digest than when it was written",
        ),
    ],
)
def test_damage_of_a_file_is_named(artifacts, finished, harm, reason):
    harm(files.join(finished.folder, "features/part-2"))
    assert artifacts.damage(artifacts.find("read", KEY)) == reason


def test_every_flipped_byte_of_a_manifest_is_noticed(artifacts, finished):
    path = files.join(finished.folder, MANIFEST)
    content = files.read_bytes(path)
    unnoticed = []
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1
        with open(path, "wb") as stream:
            stream.write(changed)
        found = artifacts.find("read", KEY)
        if not artifacts.damage(found):
            assert found == finished  # it was white space
            unnoticed.append(bytes([content[position]]))
    assert set(unnoticed) <= {b" ", b"\n"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"sha256": "x"}', b"null", b"\xff\xfe"])
def test_what_is_no_manifest(artifacts, finished, content):
    files.write_bytes(files.join(finished.folder, MANIFEST), content)
    assert artifacts.damage(artifacts.find("read", KEY)) == "manifest.json is not as it was written"
    assert artifacts.stages() == [(finished.folder, None)]


def test_the_receipts_go_only_when_the_manifest_is_there(artifacts):
    folder = artifacts.begin("read", KEY)
    entry = put(folder, "x/p", b"1")
    write_receipt(folder, "rows", "part-0", [entry], {})
    in_the_way = files.join(folder, MANIFEST)
    os.mkdir(in_the_way)
    with pytest.raises(IsADirectoryError):
        artifacts.publish("read", KEY, {}, {"x": ([entry], {})}, {})
    assert list(read_receipts(folder, "rows")) == ["part-0"]
    os.rmdir(in_the_way)
    artifacts.publish("read", KEY, {}, {"x": ([entry], {})}, {})
    assert sorted(files.walk(folder)) == [MANIFEST, "x/p"]


def test_begin_clears_what_dead_writers_left_and_nothing_else(artifacts, finished):
    host = socket.gethostname().replace(".", "-")
    dead, alive = (f".part-1.{host}.{pid}.00000000.tmp" for pid in (dead_process(), os.getpid()))
    for name in (dead, alive):
        files.write_bytes(files.join(finished.folder, "features", name), b"half")
    folder = artifacts.begin("read", KEY)
    assert folder == finished.folder
    assert sorted(files.walk(folder)) == sorted(
        [f"features/{alive}", "features/part-1", "features/part-2", "labels/part-0"]  # and no manifest
    )
    assert artifacts.find("read", KEY) is None


def test_a_store_elsewhere(tmp_path):
    """The same through fsspec, where there is no file system of our own."""
    other = Store(f"memory://{tmp_path.name}")
    folder = other.begin("read", KEY)
    write_receipt(folder, "rows", "part-0", [put(folder, "x/p", b"1")], {"n": 1})
    assert list(read_receipts(folder, "rows")) == ["part-0"]
    manifest = other.publish("read", KEY, {}, {"x": ([put(folder, "x/p", b"1")], {})}, {})
    assert other.find("read", KEY) == manifest
    assert other.damage(manifest) == ""
    files.write_bytes(files.join(folder, "x/p"), b"2")
    assert other.damage(manifest) == "x/p has another digest than when it was written"
    files.remove(other.path)


# ---------------------------------------------------------------- receipts


def test_receipts_of_damaged_files_are_not_believed(artifacts):
    folder = artifacts.begin("read", KEY)
    for unit in ("a", "b", "c", "d", "e"):
        write_receipt(folder, "rows", unit, [put(folder, f"x/{unit}", b"123")], {"unit": unit})
    write_receipt(folder, "other", "a", [], {})
    os.unlink(files.join(folder, "x/a"))
    os.truncate(files.join(folder, "x/b"), 1)
    files.write_bytes(files.join(folder, "x/c"), b"124")
    receipt = files.join(folder, RECEIPTS, "rows", "d.json")
    changed = files.read_bytes(receipt).replace(b'"unit": "d"', b'"unit": "f"')
    files.write_bytes(receipt, changed)
    files.write_bytes(files.join(folder, RECEIPTS, "rows", "g.json"), b"{")
    files.write_bytes(files.join(folder, RECEIPTS, "rows", ".h.json"), b"{}")
    files.write_bytes(files.join(folder, RECEIPTS, "rows", "notes.txt"), b"")
    found = read_receipts(folder, "rows")
    assert list(found) == ["e"]
    assert found["e"]["result"] == {"unit": "e"}
    assert found["e"]["files"][0]["path"] == "x/e"
    assert read_receipts(folder, "none") == {}


# ---------------------------------------------------------------- digests of inputs


def aged(path, content: bytes, seconds: float = 10) -> str:
    """Write a file (in place) that says it was changed some seconds ago."""
    path.write_bytes(content)
    when = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(when, when))
    return str(path)


def change_secretly(path, content: bytes) -> None:
    """Other content under the same size, time and inode: who still gives the old digest did not hash again."""
    status = os.stat(path)
    assert status.st_size == len(content)
    with open(path, "r+b") as stream:
        stream.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_hashed_once(artifacts, tmp_path):
    a, b = aged(tmp_path / "a", b"1"), aged(tmp_path / "b", b"2")
    first = artifacts.digest_inputs([a, b])
    assert first == {a: sha256(b"1"), b: sha256(b"2")}
    change_secretly(a, b"3")
    assert Store(artifacts.path).digest_inputs([a, b]) == first


def test_the_same_file_by_another_name(artifacts, tmp_path, monkeypatch):
    path = aged(tmp_path / "a", b"1")
    artifacts.digest_inputs([path])
    change_secretly(path, b"2")
    monkeypatch.chdir(tmp_path)
    assert artifacts.digest_inputs(["a", f"file://{path}"]) == {"a": sha256(b"1"), f"file://{path}": sha256(b"1")}


def test_other_content_of_the_same_size_is_noticed_by_its_time(artifacts, tmp_path):
    path = aged(tmp_path / "a", b"1", seconds=20)
    artifacts.digest_inputs([path])
    aged(tmp_path / "a", b"2", seconds=10)
    assert artifacts.digest_inputs([path]) == {path: sha256(b"2")}


def test_a_file_put_in_the_place_of_another_is_noticed(artifacts, tmp_path):
    path, other = aged(tmp_path / "a", b"1"), aged(tmp_path / "b", b"2")
    os.utime(other, ns=(os.stat(path).st_mtime_ns,) * 2)  # same size, same time
    artifacts.digest_inputs([path])
    os.replace(other, path)
    assert artifacts.digest_inputs([path]) == {path: sha256(b"2")}


@pytest.mark.parametrize("seconds", [0, -60])
def test_a_file_that_may_still_change_is_not_remembered(artifacts, tmp_path, seconds):
    path = aged(tmp_path / "a", b"1", seconds=seconds)
    artifacts.digest_inputs([path])
    change_secretly(path, b"2")
    assert artifacts.digest_inputs([path]) == {path: sha256(b"2")}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"x": 1}', b"\xff"])
def test_a_corrupt_cache_is_ignored(artifacts, tmp_path, content):
    path = aged(tmp_path / "a", b"1")
    artifacts.digest_inputs([path])
    cache = files.join(artifacts.path, "digests.json")
    whole = files.read_bytes(cache)
    files.write_bytes(cache, content)
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}
    assert files.read_bytes(cache) == whole
    files.write_bytes(cache, whole.replace(sha256(b"1").encode(), b"0" * 64))
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}


def test_a_name_that_is_not_utf8(artifacts, tmp_path):
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xff.txt"))
    with open(path, "wb") as stream:
        stream.write(b"1")
    os.utime(path, (1e9, 1e9))
    artifacts.digest_inputs([path])
    change_secretly(path, b"2")
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}


# ---------------------------------------------------------------- one run at a time

HOLD = """
import sys
from xpipe.store import RunLock
with RunLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(out):
    """A process that holds the lock of a folder until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("remote", [False, True])
def test_a_second_run_is_told_who_holds_the_folder(tmp_path, remote):
    out = f"memory://{tmp_path.name}" if remote else str(tmp_path / "out")
    with another_process(out) as holder:
        with pytest.raises(ResourceError, match="another run is writing to") as caught, RunLock(out):
            pass
        assert out in caught.value.what
        assert caught.value.where.startswith(f"process {holder.pid} on {socket.gethostname()}, since 20")
        with RunLock(out + "-other"):  # another folder is free
            pass
        holder.communicate()
        assert holder.returncode == 0
    with RunLock(out) as lock:
        assert lock.left_behind is None


def test_the_lock_of_a_killed_run_is_free_and_told(tmp_path):
    out = str(tmp_path / "out")
    with another_process(out) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with RunLock(out) as lock:
            assert lock.left_behind["pid"] == holder.pid
            assert lock.left_behind["host"] == socket.gethostname()
            content = json.loads((tmp_path / "out" / ".lock").read_text())
            assert content["pid"] == os.getpid()
    with RunLock(out) as lock:
        assert lock.left_behind is None


def test_a_run_that_fails_or_finishes_leaves_an_empty_lock(tmp_path):
    out = tmp_path / "out"
    with RunLock(str(out)):
        assert (out / ".lock").stat().st_size > 0
    assert (out / ".lock").read_text() == ""
    with pytest.raises(KeyError), RunLock(f"file://{out}"):
        raise KeyError
    with RunLock(str(out)) as lock:
        assert lock.left_behind is None


def test_a_lock_file_with_anything_in_it(tmp_path):
    for content in ("[1]", "{", "\0\0"):
        (tmp_path / ".lock").write_text(content)
        with RunLock(str(tmp_path)) as lock:
            assert lock.left_behind is None


def test_a_folder_that_cannot_be_locked(tmp_path, monkeypatch):
    import fcntl

    def refuse(stream, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ResourceError, match="cannot be locked") as caught, RunLock(str(tmp_path)):
        pass
    assert "No locks available" in caught.value.why


def test_dump_json_is_for_people_and_the_same_every_time():
    assert store.dump_json({"b": 1, "a": "ä"}) == '{\n "a": "ä",\n "b": 1\n}\n'.encode()
