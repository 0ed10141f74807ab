"""Local workers: nobody else reaches them, they start on a bad day, and leave nothing behind."""

from __future__ import annotations

import contextlib
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
from tests.processes import children_of, is_worker
from tests.samples import start_xpipe, write_dataset, write_pipeline
from xpipe.engine.cluster import ClusterParams, connect
from xpipe.errors import ResourceError

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
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_nobody_else_gets_in_and_nothing_is_left(tmp_path, temporary):
    before = children_of(os.getpid())
    with contextlib.closing(connect(ClusterParams(**SMALL))) as cluster:
        cluster.run(calls(work.write_square, tmp_path / "store", n=2), lambda *_: None)
        workers = cluster._look()
        scheduler = cluster._client.scheduler.address
        assert scheduler.startswith("tls://127.0.0.1:")
        addresses = listening_addresses({os.getpid()} | children_of(os.getpid()) - before)
        assert len(addresses) >= 3  # scheduler, nanny, worker
        assert set(addresses) <= {"0100007F", "0" * 24 + "01000000"}
        tried = subprocess.run(
            [sys.executable, "-c", INTRUDER, scheduler, *workers],
            env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [line.split()[0] for line in tried.stdout.splitlines()] == ["refused"] * 6, tried
        secret = cluster._client.security.tls_client_key.splitlines()[1]
        for pid in (os.getpid(), *children_of(os.getpid())):
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
        self.before = children_of(os.getpid())
        self.over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        while not self.over.is_set() and self.left:
            for pid in children_of(os.getpid()) - self.before - self.met:
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
