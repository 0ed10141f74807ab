"""Fixtures that several rooms share."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import HealthCheck, settings

from tests.dask_processes import dask_processes
from tests.s3_server import running_s3
from tests.samples import end_started

# tests/campaigns tries thousands of problems
settings.register_profile("any speed", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


LONGEST_FIRST = [
    "test_same_bytes.py", "test_interruptions.py", "test_sources.py", "test_cluster_remote.py", "test_cluster.py",
    "test_pages.py", "test_commands.py", "test_pipeline.py", "test_full_disk.py", "test_train_heads.py",
    "test_verify.py", "test_cluster_local.py", "test_training.py", "test_embedding.py", "test_site.py",
    "test_typing.py",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: at the end, one process would wait for the other."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))  # a stable sort keeps files together


class Failures:
    """Names every failure when it happens: whoever stops a long session has seen them."""

    def __init__(self, terminal: pytest.TerminalReporter):
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            why = (report.longreprtext.strip().splitlines() or [""])[-1]
            self.terminal.write_line(f"\n{report.nodeid} failed ({report.when}): {why}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # a process that only runs tests for another has none
        config.pluginmanager.register(Failures(terminal), "failures at once")


@pytest.fixture(autouse=True)
def _no_process_left():
    """A process that a failing test leaves behind would be a warning, so an error, in some later test."""
    yield
    end_started()


@pytest.fixture(scope="session")
def workers(tmp_path_factory):
    """The `cluster` of two worker processes over TCP, with any further settings; all tests of a process share them.

    Workers of one run alone are those of test_same_bytes, test_cluster_local and test_interruptions.
    """
    with dask_processes(2, tmp_path_factory.mktemp("workers"), nanny=False) as (address, _):
        yield lambda **settings: "{" + ", ".join(f"{k}: {v}" for k, v in {"kind": address, **settings}.items()) + "}"


@pytest.fixture
def bucket(s3_server, request):
    """s3://NAME, new and empty, on a server of our own."""
    name = "xpipe-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]
    s3_server.create_bucket(Bucket=name)
    return f"s3://{name}"


@pytest.fixture(scope="session")
def s3_server():
    """A client of a server that speaks S3; the environment names it to whoever reads s3://."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    patch = pytest.MonkeyPatch()
    with running_s3("127.0.0.1") as (settings, client):
        for name, value in settings.items():
            patch.setenv(name, value)
        try:
            yield client
        finally:
            patch.undo()
