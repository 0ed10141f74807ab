"""Clusters with real scheduler and worker processes."""

from __future__ import annotations

import contextlib
import os

import pytest

from tests import work
from tests.dask_processes import dask_processes
from xpipe.engine.cluster import Call, ClusterParams, check, connect
from xpipe.engine.cluster import remote as cluster_remote
from xpipe.engine.cluster.check import code_digest
from xpipe.engine.receipts import read_receipts
from xpipe.errors import DataError, ResourceError, StageError


def calls(function, folder, n=6, shared=None):
    return [
        Call(
            f"stage test, unit {i}", function, str(folder), "step", (work.Numbered(f"u{i}", 1, i),),
            shared or work.Settings(),
        )
        for i in range(n)
    ]  # fmt: skip


def run(params, work_calls):
    outcomes = {}
    with contextlib.closing(connect(params)) as cluster:
        cluster.run(work_calls, lambda call, outcome: outcomes.update(outcome.receipts))
    return outcomes


def test_the_digest_of_the_code_covers_the_whole_package(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "PACKAGE", tmp_path)
    found = set()
    for path in ("__init__.py", "engine/cluster/check.py", "stages/read/work.py", "stages/read/stage.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
        found.add(code_digest.__wrapped__())
    (tmp_path / "stages/read/work.py").write_text("x = 2\n")
    assert len({*found, code_digest.__wrapped__()}) == 5


def test_every_kind_gives_the_same_receipts(tmp_path):
    found = []
    for kind in ("none", "local"):
        folder = tmp_path / kind
        receipts = run(ClusterParams(kind=kind, memory_limit="1GiB"), calls(work.write_square, folder))
        assert {unit: receipt.result.square for unit, receipt in receipts.items()} == {f"u{i}": i * i for i in range(6)}
        processes = {receipt.result.process for receipt in receipts.values()}
        assert (processes == {os.getpid()}) == (kind == "none")
        found.append({name: receipt.files for name, receipt in read_receipts(str(folder), "step", work.Square).items()})
    assert found[0] == found[1]


def test_scheduler_and_two_workers_over_tcp(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_remote, "REFUSED_SECONDS", 1.0)
    with dask_processes(2, tmp_path) as (address, _):
        folder = tmp_path / "store"
        folder.mkdir()
        receipts = run(ClusterParams(kind=address), calls(work.write_square, folder, n=8))
        assert sorted(receipt.result.square for receipt in receipts.values()) == [i * i for i in range(8)]
        missing = tmp_path / "not-shared"
        with pytest.raises(ResourceError, match="does not see"):
            run(ClusterParams(kind=address, worker_timeout="10min"), calls(work.write_square, missing))


def test_all_workers_leaving_ends_with_an_error(tmp_path):
    with dask_processes(1, tmp_path, nanny=False) as (address, processes):
        (tmp_path / "store").mkdir()

        def leave(call, outcome):
            processes[1].kill()

        with contextlib.closing(connect(ClusterParams(kind=address))) as cluster:
            cluster.run(calls(work.write_square, tmp_path / "store", n=1), lambda *_: None)
            cluster.params = ClusterParams(kind=address, worker_timeout="3s")  # a busy machine starts workers slowly
            slow = calls(work.sleep_long, tmp_path / "store", n=2, shared=work.Settings(seconds=1))
            with pytest.raises(ResourceError, match="no Dask worker"):
                cluster.run(slow, leave)


def test_a_worker_that_dies_is_replaced(tmp_path):
    receipts = run(ClusterParams(memory_limit="1GiB"), calls(work.die_once, tmp_path))
    assert len(receipts) == 6
    assert (tmp_path / "died").exists()


def test_a_chunk_that_kills_its_worker_again_and_again(tmp_path):
    with pytest.raises(ResourceError, match="died 4 times") as caught:
        run(ClusterParams(memory_limit="1GiB", workers=1), calls(work.always_die, tmp_path, n=1))
    assert caught.value.where == "stage test, unit 0"
    assert "1.00 GiB" in caught.value.why


def test_memory_limit_names_memory_and_limit(tmp_path):
    with pytest.raises(ResourceError, match="died 4 times") as caught:
        run(ClusterParams(memory_limit="500MB", workers=1), calls(work.take_memory, tmp_path, n=1))
    assert "of a limit of 477 MiB" in caught.value.why
    assert "last memory seen 0 B" not in caught.value.why


@pytest.mark.parametrize("kind", ["none", "local"])
def test_errors_of_users_and_of_ours(tmp_path, kind):
    params = ClusterParams(kind=kind, memory_limit="1GiB", workers=1)
    with pytest.raises(DataError) as caught:
        run(params, calls(work.refuse, tmp_path, n=1))
    assert caught.value.where == "train.txt:7"
    assert caught.value.fix == "correct it"
    with pytest.raises(StageError, match="ZeroDivisionError: by accident") as failed:
        run(params, calls(work.stumble, tmp_path, n=1))
    assert failed.value.where == "stage test, unit 0"


def test_no_wait_is_endless(tmp_path):
    with pytest.raises(ResourceError, match="no task finished"):
        run(ClusterParams(memory_limit="1GiB", workers=1, task_timeout="1s"), calls(work.sleep_long, tmp_path, n=1))


def test_nobody_at_the_address(tmp_path):
    with pytest.raises(ResourceError, match="no Dask cluster"):
        run(ClusterParams(kind="tcp://127.0.0.1:9", worker_timeout="2s"), calls(work.write_square, tmp_path))
