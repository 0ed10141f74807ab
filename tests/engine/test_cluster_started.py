"""Clusters that a Dask class starts: checked like others, prepared once per machine, and closed whatever happens."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import replace

import pytest

from tests import work
from tests.engine.test_cluster import calls
from tests.engine.test_cluster_local import Heard
from xpipe.engine.cluster import ClusterParams, Preparation, connect
from xpipe.engine.cluster import remote as cluster_remote
from xpipe.engine.cluster.definition import Adapt, ClusterDefinition
from xpipe.engine.cluster.facts import MOST_ROWS, differences, facts_here, table
from xpipe.engine.cluster.started import adaptation
from xpipe.engine.cluster.trial import try_cluster
from xpipe.errors import ResourceError

THREADS = {"n_workers": 0, "processes": False, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
COMPILED: list[str] = []
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning"
)


@pytest.fixture(autouse=True)
def _sockets_of_dask():
    """A cluster in this process leaves a socket to the garbage collector: its warning belongs to these tests."""
    yield
    gc.collect()


def compile_kernels():
    COMPILED.append("once")


def threads(**settings):
    """Two workers in threads of this process: the class, the checks and the connections are those of any cluster."""
    definition = ClusterDefinition(type="distributed.LocalCluster", workers=2, options=THREADS, **settings)
    return ClusterParams(kind="threads", memory_limit="1TiB").defined(definition)


def test_workers_are_told_of_prepared_and_closed(tmp_path):
    COMPILED.clear()
    heard = Heard()
    with contextlib.closing(connect(threads(), heard)) as cluster:
        cluster.wanted = 2
        done = []
        for stage in ("first", "second"):
            cluster.prepare(Preparation(stage, compile_kernels))
            cluster.run(calls(work.write_square, tmp_path, n=4), lambda call, outcome: done.append(call))
        assert len(done) == 8
        assert COMPILED == ["once"] * 2  # for two workers of one machine, for two stages
        started = cluster._cluster
        assert started.scheduler_address.startswith("tls://")  # nobody asked for it: the class takes `security`
        assert cluster.describe() == {"kind": "distributed.LocalCluster", "name": "threads", "workers": 2}
    assert started.status.name == "closed"
    (shown,) = [note for note in heard.notes if "\n" in note]
    assert [line.split()[0] for line in shown.splitlines()] == ["workers", "here", "2"]
    (warned,) = heard.warnings  # though both workers have less memory, in both stages
    assert "less than cluster.memory_limit (1024.00 GiB)" in warned
    assert not list(tmp_path.glob(".probe*"))


def test_other_releases_than_the_key_names_get_no_work(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_remote, "REFUSED_SECONDS", 0.1)
    with contextlib.closing(connect(threads(), Heard())) as cluster:
        cluster.prepare(Preparation("first", compile_kernels, {"numpy": "0.9", "no-such-package": "1"}))
        with pytest.raises(ResourceError, match=r"has numpy .*, no no-such-package, this is numpy 0.9, no-such-pack"):
            cluster.run(calls(work.write_square, tmp_path), lambda *_: None)


def test_a_trial_needs_no_pipeline(tmp_path):
    found = try_cluster(threads(), str(tmp_path), Heard())
    assert (found.pieces, found.hosts, len(found.digests)) == (8, 1, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_does_not_start_says_why(tmp_path):
    params = ClusterParams(kind="odd").defined(
        ClusterDefinition(type="distributed.LocalCluster", options={"no_such_option": 1})
    )
    with contextlib.closing(connect(params)) as cluster, pytest.raises(ResourceError, match="odd did not start"):
        cluster.run(calls(work.write_square, tmp_path), lambda *_: None)


def test_what_differs_is_said_once_and_never_cut():
    here = facts_here(2**30)
    many = [replace(here, address=f"tcp://{n}:1", host=f"node{n:04d}") for n in range(200)]
    many[150] = replace(many[150], versions={**here.versions, "python": "3.99.0"}, clock=60.0, doubt=0.1)
    many[151] = replace(many[151], clock=60.0, doubt=58.0)  # the question itself took two minutes
    shown = table(many, here).splitlines()
    assert len(shown) == MOST_ROWS + 3  # the head, this process, the end
    assert "node0150" in "".join(shown)
    assert shown[-1] == f"and {200 - MOST_ROWS} more rows without differences"
    told: set[str] = set()
    said = differences(many, here, told)
    assert len(said) == 2
    assert all("workers on node0150 have" in text for text in said)
    assert differences(many, here, told) == []


def test_adapt_gives_idle_workers_time_where_the_class_can():
    wanted = Adapt(minimum=2, maximum=9, idle="1min")
    assert adaptation(lambda minimum, maximum: None, wanted) == {"minimum": 2, "maximum": 9}
    assert adaptation(lambda **options: None, wanted)["wait_count"] == 12
