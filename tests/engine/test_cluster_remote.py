"""Schedulers and workers of others: checked when they join, whenever that is; waits end, and losses are errors."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import xpipe
from tests import work
from tests.dask_processes import DaskProcesses, dask_cluster, wait_for
from tests.engine.test_cluster import calls
from tests.engine.test_cluster_local import Heard
from tests.samples import run_xpipe, start_xpipe, write_dataset, write_pipeline
from xpipe.engine.cluster import ClusterParams, connect
from xpipe.engine.cluster import dask_calls as cluster_dask
from xpipe.engine.cluster import remote as cluster_remote
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground.temporary_names import is_abandoned

OTHER_VERSION = """
import xpipe
xpipe.__version__ = "0.0.9"
import xpipe.engine.cluster.check
xpipe.engine.cluster.check.__version__ = "0.0.9"
"""
NO_XPIPE = """
import sys
sys.modules["xpipe.engine.cluster.check"] = None
"""
OTHER_CODE = """
import xpipe.engine.cluster.check
xpipe.engine.cluster.check.code_digest = lambda: "0" * 64
"""


def preload(folder: Path, text: str) -> tuple[str, str]:
    path = folder / f"preload_{abs(hash(text))}.py"
    path.write_text(text)
    return "--preload", str(path)


class Cluster:
    """A connected cluster, what it said, and which processes worked for it."""

    def __init__(self, address, store, **params):
        self.heard, self.store = Heard(), store
        store.mkdir(exist_ok=True)
        self.cluster = connect(ClusterParams(kind=address, **params), self.heard)

    def run(self, n=6, function=work.write_square, on_done=None, shared=None):
        processes = set()

        def done(call, outcome):
            processes.update(receipt.result.process for receipt in outcome.receipts.values())
            if on_done is not None:
                on_done()

        self.cluster.run(calls(function, self.store, n=n, shared=shared), done)
        assert not [path for path in self.store.iterdir() if "probe" in path.name]
        return processes

    def hurry(self):
        """Wait five seconds from now on, not ten minutes: after what takes long on a busy machine is over."""
        if self.cluster._client is None:
            self.cluster._client = self.cluster._open(self.cluster._parts)
        self.cluster.params = self.cluster.params.model_copy(update={"worker_timeout": "5s"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()


def test_workers_of_another_kind_get_no_work_and_are_named_once(tmp_path):
    with dask_cluster(tmp_path) as dask:
        good = dask.start_worker(nanny=False)
        for text in (OTHER_VERSION, NO_XPIPE, OTHER_CODE):
            dask.start_worker(*preload(tmp_path, text), nanny=False)
        wait_for(lambda: dask.count_workers() == 4, "four workers")
        with Cluster(dask.address, tmp_path / "store") as cluster:
            assert cluster.run() == {good.pid}
            wait_for(lambda: cluster.run(2) == {good.pid} and len(cluster.heard.warnings) == 3, "three warnings")
            assert cluster.run() == {good.pid}
            told = "\n".join(sorted(cluster.heard.warnings))
            assert told.count("gets no work") == len(cluster.heard.warnings) == 3
            assert f"has xpipe 0.0.9, this is {xpipe.__version__}" in told
            assert "cannot run this xpipe" in told
            assert "ModuleNotFoundError" in told
            assert "has other code" in told


def test_workers_that_join_later_are_checked_too(tmp_path, monkeypatch):
    """One of another version joins while tasks run, then the good one leaves, then another good one comes."""
    monkeypatch.setattr(cluster_dask, "ANSWER_SECONDS", 2.0)  # for results that were at the worker that left
    with dask_cluster(tmp_path) as dask:
        first = dask.start_worker(nanny=False)
        with Cluster(dask.address, tmp_path / "store") as cluster:
            assert cluster.run() == {first.pid}
            later = []

            def change():
                if not later:
                    later.append(dask.start_worker(*preload(tmp_path, OTHER_VERSION), nanny=False))
                    wait_for(lambda: dask.count_workers() == 2, "the worker of another version")
                    first.kill()
                    first.wait()
                    wait_for(lambda: dask.count_workers() == 1, "the end of the first worker")
                    later.append(dask.start_worker(nanny=False))

            assert cluster.run(8, work.square_slowly, change) <= {first.pid, later[1].pid}
            assert cluster.run() == {later[1].pid}
            assert len(cluster.heard.warnings) == 1
            assert "0.0.9" in cluster.heard.warnings[0]


def test_only_workers_that_do_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_remote, "REFUSED_SECONDS", 1.0)
    with dask_cluster(tmp_path) as dask:
        dask.start_worker(*preload(tmp_path, OTHER_VERSION), nanny=False)
        with Cluster(dask.address, tmp_path / "store") as cluster:
            with pytest.raises(ResourceError, match=r"worker tcp://127.0.0.1:\d+ has xpipe 0.0.9"):
                cluster.run()
            assert len(cluster.heard.warnings) == 1


def test_a_worker_that_hangs_stops_nobody(tmp_path):
    with dask_cluster(tmp_path) as dask:
        hangs = dask.start_worker(nanny=False)
        wait_for(lambda: dask.count_workers() == 1, "a worker")
        hangs.send_signal(signal.SIGSTOP)
        words = r"worker tcp://127.0.0.1:\d+ has not answered for \d+ s"
        with Cluster(dask.address, tmp_path / "store") as cluster:
            cluster.hurry()
            with pytest.raises(ResourceError, match=words):
                cluster.run()
        good = dask.start_worker(nanny=False)
        with Cluster(dask.address, tmp_path / "store") as cluster:
            assert cluster.run() == {good.pid}
            hangs.send_signal(signal.SIGCONT)  # it is checked when it answers, and works from then on
            wait_for(lambda: hangs.pid in cluster.run(8, work.square_slowly), "work of the worker that hung")
            assert all("has not answered" in warning for warning in cluster.heard.warnings)


@pytest.mark.parametrize("action", [signal.SIGKILL, signal.SIGSTOP])
def test_losing_the_scheduler(tmp_path, monkeypatch, action):
    monkeypatch.setattr(cluster_dask, "ANSWER_SECONDS", 2.0)
    with dask_cluster(tmp_path) as dask:
        dask.start_worker(nanny=False)
        with Cluster(dask.address, tmp_path / "store") as cluster:
            cluster.run(1)
            cluster.hurry()
            words = "connection to the Dask scheduler is lost" if action == signal.SIGKILL else "has not answered"
            with pytest.raises(ResourceError, match=words) as caught:
                cluster.run(4, work.square_slowly, lambda: dask.processes[0].send_signal(action))
            assert caught.value.where.startswith("stage test, unit")


def test_losing_the_scheduler_prints_no_traceback(tmp_path):
    (tmp_path / "data").mkdir()
    with dask_cluster(tmp_path) as dask:
        dask.start_worker(nanny=False)
        path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"), cluster=dask.address, part_rows=1)
        process = start_xpipe("run", path)
        wait_for(lambda: any((tmp_path / "runs").glob(".store/read-*/receipts/rows/*.json")), "a finished unit")
        dask.processes[0].kill()
        output, _ = process.communicate()
        assert process.returncode == 5, output
        assert "the connection to the Dask scheduler is lost" in output
        assert "Traceback" not in output
        assert "distributed." not in output  # a logger's name
        left = [path.name for path in (tmp_path / "runs").rglob(".probe*")]
        assert not left or all(map(is_abandoned, left))


def test_a_tls_scheduler_with_and_without_certificates(tmp_path, monkeypatch):
    from distributed import Security

    made = Security.temporary()
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(made.tls_ca_file)
    key.write_text(made.tls_client_key)
    settings = {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path)
        for name, path in [("CA_FILE", certificate)]
        + [(f"{role}__{what}", path) for role in ("CLIENT", "SCHEDULER", "WORKER")
           for what, path in (("CERT", certificate), ("KEY", key))]
    }  # fmt: skip
    (tmp_path / "data").mkdir()
    with open(tmp_path / "dask.log", "w") as log:
        dask = DaskProcesses(tmp_path, log, settings)
        try:
            address = dask.start_scheduler("--protocol", "tls")
            dask.start_worker(nanny=False)
            assert address.startswith("tls://")
            path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"), cluster=address)
            for name, value in settings.items():
                monkeypatch.setenv(name, value)
            code, output = run_xpipe("run", path)
            assert code == 0, output
            monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", str(tmp_path / "dask.log"))
            code, output = run_xpipe("run", path)
            assert (code, "the certificates cannot be used" in output) == (2, True), output
            for name in settings:
                monkeypatch.delenv(name)
            code, output = run_xpipe("run", path)
            assert (code, "needs certificates" in output) == (2, True), output
            assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in output
            assert "Traceback" not in output
        finally:
            dask.stop()


def test_tls_without_certificates_is_said_before_anything_starts():
    with pytest.raises(ConfigError, match="needs certificates"):
        connect(ClusterParams(kind="tls://localhost:8786"))


@pytest.mark.parametrize("host", ["127.0.0.1:9", "no-such-host.invalid:8786"])
def test_nobody_at_the_address(tmp_path, host):
    with Cluster(f"tcp://{host}", tmp_path / "store", worker_timeout="2s") as cluster:
        with pytest.raises(ResourceError, match="no Dask cluster"):
            cluster.run()
        assert any("giving up after 2 s" in note for note in cluster.heard.notes)


@pytest.mark.parametrize(
    "address",
    ["tcp://", "tcp://:8786", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65536", "tcp://host:x",
     "tcp://ho st:1", "tcp://user@host:1", "tcp://host:1/x", "http://host:1", "inproc://x:1", "://", "TCP://host:1",
     "tcp://[::1:8786", "tcp://host:8786\n"],
)  # fmt: skip
def test_addresses_that_cannot_be(address):
    with pytest.raises(ValueError, match="must be local, none or a scheduler's address"):
        ClusterParams(kind=address)


@pytest.mark.parametrize("address", ["tcp://host:8786", "tls://a.b-c:1", "tcp://[::1]:65535", "tcp://10.0.0.1:08786"])
def test_addresses_that_can_be(address):
    assert ClusterParams(kind=address).kind == address
