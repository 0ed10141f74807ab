"""Locks: one run per folder, freed by death, never through a link; runs share a store, cleaning has it alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from xpipe.engine.lock_files import lock_path
from xpipe.engine.locks import RunLock, StoreLock
from xpipe.errors import ResourceError
from xpipe.ground import files, private

HOLD = """
import sys
from xpipe.engine.locks import RunLock
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


def make_link(path, target):
    os.symlink(target, path)


def make_hard_link(path, target):
    os.link(target, path)


def make_folder(path, target):
    os.mkdir(path)


def make_fifo(path, target):
    os.mkfifo(path)


def make_socket(path, target):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [make_link, make_hard_link, make_folder, make_fifo, make_socket])
@pytest.mark.parametrize("kind", [RunLock, StoreLock])
def test_something_else_in_the_place_of_a_lock(tmp_path, make, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious.txt"
    precious.write_text("years of work")
    make(str(tmp_path / ".lock"), str(precious))
    if make is make_hard_link and kind is StoreLock:  # it writes nothing into its lock
        with kind(str(tmp_path)):
            pass
    else:
        with pytest.raises(ResourceError, match="cannot be locked") as caught, kind(str(tmp_path)):
            pass
        assert caught.value.where == str(tmp_path / ".lock")
    assert precious.read_text() == "years of work"


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path):
    os.symlink(tmp_path / "new", tmp_path / ".lock")
    with pytest.raises(ResourceError, match="cannot be locked"), RunLock(str(tmp_path)):
        pass
    assert not (tmp_path / "new").exists()


def test_a_lock_that_was_linked_by_a_backup_stays_a_lock(tmp_path):
    with RunLock(str(tmp_path)):
        os.link(tmp_path / ".lock", tmp_path / "backup")
    with RunLock(str(tmp_path)) as lock:
        assert lock.left_behind is None


@pytest.mark.parametrize("out", ["/proc/nothing/x", "/proc", "/dev/null", "/dev/null/x"])
def test_places_where_no_lock_can_be(out):
    with pytest.raises(ResourceError, match="cannot be locked"), RunLock(out):
        pass


def test_a_folder_removed_under_a_lock_is_locked_anew(tmp_path):
    """Who opened the lock before its folder was removed must not hold a lock that nobody else can see."""
    import fcntl

    folder = tmp_path / "stage"
    folder.mkdir()
    real, removed = fcntl.flock, []

    def flock(stream, how):
        if not removed:
            removed.append(os.remove(folder / ".lock"))
        return real(stream, how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        with RunLock(str(folder)):
            patch.undo()
            with pytest.raises(ResourceError, match="another run"), RunLock(str(folder)):
                pass


def test_runs_share_a_store_and_cleaning_has_it_alone(tmp_path):
    store = str(tmp_path)
    refused = pytest.raises(ResourceError, match="a run is using the store")
    with StoreLock(store), StoreLock(store), refused, StoreLock(store, alone=True):
        pass
    notes, entered = [], threading.Event()

    def run():
        with StoreLock(store, note=notes.append):
            entered.set()

    with StoreLock(store, alone=True):
        thread = threading.Thread(target=run)
        thread.start()
        while not notes:
            entered.wait(0.01)
        assert not entered.is_set()
    thread.join(600)
    assert entered.is_set()
    assert len(notes) == 1
    assert "is being cleaned" in notes[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_is_used_without_a_lock(tmp_path):
    tmp_path.chmod(0o500)
    with StoreLock(str(tmp_path)):
        assert os.listdir(tmp_path) == []
    tmp_path.chmod(0o700)


# ---------------------------------------------------------------- a folder of this user alone


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(private.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "tmp").mkdir(mode=0o1777)
    return tmp_path / "tmp" / f"xpipe-{os.geteuid()}"


def test_the_folder_is_ours_and_closed(temporary):
    assert private.private_folder() == str(temporary)
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    (temporary / "x").touch()
    assert private.private_folder() == str(temporary)
    assert (temporary / "x").exists()


def test_a_folder_others_could_only_read_is_closed(temporary):
    temporary.mkdir(mode=0o755)
    assert private.private_folder() == str(temporary)
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700


def plant_link(folder, elsewhere):
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)


def plant_open_folder(folder, elsewhere):
    folder.mkdir()
    folder.chmod(0o777)


def plant_file(folder, elsewhere):
    folder.write_text("x")


@pytest.mark.parametrize("plant", [plant_link, plant_open_folder, plant_file])
def test_a_folder_that_somebody_planted_is_not_used(temporary, tmp_path, plant):
    plant(temporary, tmp_path / "elsewhere")
    found = private.private_folder()
    assert found == str(tmp_path / "cache" / temporary.name)
    path = lock_path("memory://somewhere")
    assert files.parent(path) == found


def test_a_folder_of_another_user_is_not_used(temporary, tmp_path, monkeypatch):
    real = os.lstat

    def of_another(path):
        status = real(path)
        return os.stat_result([*status[:4], status.st_uid + 1, *status[5:]]) if str(path) == str(temporary) else status

    monkeypatch.setattr(os, "lstat", of_another)
    assert private.private_folder() == str(tmp_path / "cache" / temporary.name)


def test_no_folder_at_all(temporary, tmp_path, monkeypatch):
    temporary.write_text("x")
    (tmp_path / "cache").write_text("x")
    with pytest.raises(ResourceError, match="only this user can write to") as caught:
        private.private_folder()
    assert str(temporary) in caught.value.why


def test_compiled_kernels_are_not_loaded_from_a_planted_folder(temporary, tmp_path):
    from xpipe.ground.kernel_folder import kernel_home

    plant_open_folder(tmp_path / "cache", None)
    plant_open_folder(tmp_path / "cache" / temporary.name, None)
    kernel_home.cache_clear()
    try:
        assert kernel_home() == temporary / "kernels"
    finally:
        kernel_home.cache_clear()
