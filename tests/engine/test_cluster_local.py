"""Local workers: nobody else reaches them, they start on a bad day, and leave nothing behind."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests import work
from tests.engine.test_cluster import calls
from tests.processes import descendants_of, is_fork, is_worker, parent_of
from tests.samples import start_xpipe, write_dataset, write_pipeline
from xpipe.engine.cluster import ClusterParams, connect, fork_server, local
from xpipe.engine.cluster.fork_server import start_method
from xpipe.errors import ResourceError
from xpipe.ground.library_threads import ONE_THREAD

SMALL = {"memory_limit": "1GiB", "workers": 1}
INTRUDER = """
import os, sys
from distributed import Client, Security
for address in sys.argv[1:]:
    for target, security in (
        (address.replace("tls", "tcp"), None), (address, None), (address, Security.temporary()),
    ):
        try:
            with Client(target, security=security, timeout=3) as client:
                print("connected", client.run_on_scheduler(os.getpid), client.submit(os.getpid).result())
        except Exception as error:
            print("refused", target, type(error).__name__)
"""
LISTENING = "0A"


def listening_addresses(pids):
    """Addresses, as /proc writes them, at which these processes listen."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    inodes.add(os.readlink(descriptor.path))
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes:
                    found.append(fields[1].split(":")[0])
    return found


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    start_method()  # its socket lies elsewhere, as long as this process lives
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_nobody_else_gets_in_and_nothing_is_left(tmp_path, temporary, method, monkeypatch):
    monkeypatch.setattr(local, "start_method", lambda: method)
    before = descendants_of(os.getpid())
    with contextlib.closing(connect(ClusterParams(**SMALL))) as cluster:
        cluster.run(calls(work.write_square, tmp_path / "store", n=2), lambda *_: None)
        workers = cluster._look()
        scheduler = cluster._client.scheduler.address
        assert scheduler.startswith("tls://127.0.0.1:")
        addresses = listening_addresses({os.getpid()} | descendants_of(os.getpid()) - before)
        assert len(addresses) >= 3  # scheduler, nanny, worker
        (worker,) = filter(is_worker, descendants_of(os.getpid()) - before)
        assert is_fork(worker) == (method == "forkserver")
        if is_fork(worker):
            names = [
                Path(task, "comm").read_text().strip() for task in Path(f"/proc/{parent_of(worker)}/task").iterdir()
            ]
            # a fork has no other thread, whatever those were at; Arrow's allocator is made for it
            assert len([name for name in names if name != "jemalloc_bg_thd"]) == 1, names
        assert set(addresses) <= {"0100007F", "0" * 24 + "01000000"}
        tried = subprocess.run(
            [sys.executable, "-c", INTRUDER, scheduler, *workers],
            env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [line.split()[0] for line in tried.stdout.splitlines()] == ["refused"] * 6, tried
        secret = cluster._client.security.tls_client_key.splitlines()[1]
        for pid in (os.getpid(), *descendants_of(os.getpid())):
            for table in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    assert secret not in Path(f"/proc/{pid}/{table}").read_text(errors="replace")
        (scratch,) = temporary.iterdir()
        assert scratch.stat().st_mode & 0o077 == 0
        for folder, _, names in os.walk(scratch):
            for name in names:
                with contextlib.suppress(OSError):
                    assert secret.encode() not in Path(folder, name).read_bytes()
    assert not os.listdir(temporary)


class Watcher(threading.Thread):
    """Does something to worker processes that this one starts, as they appear, at most `times` times."""

    def __init__(self, action, times):
        super().__init__(daemon=True)
        self.action, self.left, self.met = action, times, set()
        self.before = descendants_of(os.getpid())
        self.over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        while not self.over.is_set() and self.left:
            for pid in descendants_of(os.getpid()) - self.before - self.met:
                if self.left and is_worker(pid):
                    self.met.add(pid)
                    self.left -= 1
                    os.kill(pid, self.action)
            time.sleep(0.02)


class Heard:
    def __init__(self):
        self.notes, self.warnings = [], []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)


def test_a_worker_killed_while_it_starts_is_started_again(tmp_path):
    heard = Heard()
    closing = contextlib.closing(connect(ClusterParams(**SMALL), heard))
    with Watcher(signal.SIGKILL, times=1) as watcher, closing as cluster:
        cluster.run(calls(work.write_square, tmp_path, n=2), lambda *_: None)
    assert len(watcher.met) == 1
    assert any("starting them again" in note for note in heard.notes)


@pytest.mark.parametrize(("action", "timeout"), [(signal.SIGKILL, "10min"), (signal.SIGSTOP, "2s")])
def test_workers_that_never_start_end_in_an_error(tmp_path, temporary, action, timeout):
    closing = contextlib.closing(connect(ClusterParams(**SMALL, worker_timeout=timeout)))
    failing = pytest.raises(ResourceError, match="did not start, 3 times")
    with Watcher(action, times=10**6) as watcher, closing as cluster, failing:
        cluster.run(calls(work.write_square, tmp_path / "store", n=2), lambda *_: None)
    assert len(watcher.met) >= 3
    deadline = time.monotonic() + 600
    while any(map(is_worker, watcher.met)):
        assert time.monotonic() < deadline, "a worker process is left"
        time.sleep(0.1)
    assert not os.listdir(temporary)


def test_what_a_killed_run_left_in_the_temporary_folder_goes(tmp_path, temporary):
    (tmp_path / "data").mkdir()
    local = "{kind: local, workers: 1, memory_limit: 1GiB}"
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"), cluster=local)
    process = start_xpipe("run", path)
    deadline = time.monotonic() + 600
    while not list(temporary.glob("xpipe-dask-*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate()
    process = start_xpipe("run", path)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert not list(temporary.glob("*dask*"))


def environment_of_worker(tmp_path):
    """What a worker that is started now sees, and whether it is a fork."""
    with contextlib.closing(connect(ClusterParams(**SMALL))) as cluster:
        cluster.run(calls(work.write_square, tmp_path, n=1), lambda *_: None)
        ((number, found),) = cluster._client.run(work.process_and_environment).values()
        return is_fork(number), found


def test_forks_have_the_environment_of_now_and_one_thread_per_library(tmp_path, monkeypatch):
    start_method()
    monkeypatch.setattr(fork_server, "environment_of_server", functools.partial(dict, os.environ))
    monkeypatch.setenv("AWS_PROFILE", "of a user who has just set it")
    forked, found = environment_of_worker(tmp_path / "store")
    assert forked
    assert found["AWS_PROFILE"] == "of a user who has just set it"
    assert ONE_THREAD.items() <= found.items()


@pytest.mark.parametrize("changed", [{"XDG_CACHE_HOME": "/elsewhere"}, {"NUMBA_DISABLE_JIT": "1"}])
def test_workers_are_spawned_where_imports_may_depend_on_a_variable(monkeypatch, changed):
    monkeypatch.setattr(fork_server, "environment_of_server", functools.partial(dict, os.environ))
    assert start_method() == "forkserver"
    monkeypatch.setattr(os, "environ", {**os.environ, **changed})
    assert start_method() == "spawn"


def test_workers_are_spawned_where_a_variable_is_gone(monkeypatch):
    monkeypatch.setattr(fork_server, "environment_of_server", lambda: {**os.environ, "GONE": "1"})
    assert start_method() == "spawn"


def test_no_fork_server_no_problem(tmp_path, monkeypatch):
    """As where the path of the temporary folder is too long for a socket."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    program = "from xpipe.engine.cluster.fork_server import start_method; print(start_method())"
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(folder)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "spawn\n"
    assert not os.listdir(folder)


def test_a_file_of_the_current_folder_is_no_module(tmp_path):
    """The process that workers are forked from imports from where this one does, and its folder goes with it."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "numba.py").write_text("raise SystemExit('a file of the user')")
    (tmp_path / "data").mkdir()
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"), cluster="{kind: local, workers: 1}")
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-P", "-m", "xpipe", "run", str(path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "starting them again" not in done.stderr
    assert not os.listdir(tmp_path / "temporary")
