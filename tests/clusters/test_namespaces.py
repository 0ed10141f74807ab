"""Workers at other addresses than this machine's: the same bytes, and a cut link costs the chunk at hand only."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import work
from tests.clusters.namespaces import NET, bridged, cut, impossible, namespaced_dask
from tests.engine.test_cluster import calls
from tests.engine.test_cluster_local import Heard
from tests.s3_server import running_s3
from tests.samples import bytes_below, run_xpipe, write_dataset, write_pipeline
from xpipe.engine.cluster import ClusterParams, connect
from xpipe.engine.cluster import dask_calls as cluster_dask

pytestmark = pytest.mark.skipif(bool(impossible()), reason=impossible())


def run(folder, data, cluster, store=""):
    path = write_pipeline(folder, data, f"store: {store}\n" if store else "", cluster=cluster)
    code, output = run_xpipe("run", path)
    assert code == 0, output
    return bytes_below(folder / "runs" / "sample"), output


def test_a_shared_folder_gives_the_same_bytes(tmp_path):
    data = write_dataset(tmp_path / "data")
    with bridged(3) as names, namespaced_dask(tmp_path, names) as dask:
        assert dask.address == f"tcp://{NET}.10:8786"
        found, output = run(tmp_path / "apart", data, dask.address)
        assert output.count("workers  on") == 1
    assert found == run(tmp_path / "here", data, "none")[0]


def test_s3_gives_the_same_bytes(tmp_path, monkeypatch):
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    data = write_dataset(tmp_path / "data")
    with bridged(3) as names, running_s3(f"{NET}.1") as (settings, client):
        client.create_bucket(Bucket="store")
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        with namespaced_dask(tmp_path, names, **settings) as dask:
            found, _ = run(tmp_path / "apart", data, dask.address, "s3://store/artifacts")
    assert found == run(tmp_path / "here", data, "none")[0]


def test_a_worker_that_is_cut_off_costs_its_chunk_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_dask, "ANSWER_SECONDS", 2.0)
    store = tmp_path / "store"
    store.mkdir()
    done: list[tuple[str, int]] = []

    def on_done(call, outcome):
        done.extend((name, receipt.result.process) for name, receipt in outcome.receipts.items())
        if len(done) == 4:
            cut(2)

    with bridged(3) as names, namespaced_dask(tmp_path, names) as dask:
        cluster = connect(ClusterParams(kind=dask.address), Heard())
        cluster.wanted = 2
        try:
            cluster.run(calls(work.square_and_count, store, n=12, shared=work.Settings()), on_done)
        finally:
            cluster.close()
    assert len(done) == 12
    lost = dask.processes[2].pid
    survivor = dask.processes[1].pid
    assert {process for _, process in done[6:]} == {survivor}  # one outcome may have been under way
    begun = Counter(tuple(path.name.split("-")[1:3]) for path in store.glob("begun-*"))
    assert max(begun.values()) == 1  # no process did a unit twice
    handed_over = {name for name, process in done[:4] if process == lost}
    assert handed_over
    assert not handed_over & {name for name, process in begun if process == str(survivor)}
