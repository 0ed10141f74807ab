"""Runs that are killed, interrupted or disturbed end, on the same command, with the bytes of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import socket
import time

import pytest

from tests.processes import descendants_of, is_worker
from tests.samples import bytes_below, digests, run_pipeline, run_xpipe, start_xpipe, write_dataset, write_pipeline
from tests.stopping import start_stopping
from tests.waiting import LIMIT, wait_for
from xpipe.engine.store import Store

MOMENTS = 8  # tests/campaigns has every moment


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"), n_train=600, n_test=100)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("undisturbed")
    run_pipeline(write_pipeline(folder, data))  # compiles kernels, so that the next one is timed without
    for path in (folder / "runs").rglob("*"):
        if path.is_file():
            path.unlink()
    started = time.monotonic()
    results = run_pipeline(write_pipeline(folder, data))
    return results, bytes_below(folder / "runs" / "sample"), time.monotonic() - started


def kill(process):
    process.kill()
    process.communicate()


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_kill_of_the_run_at_a_random_moment(tmp_path, data, undisturbed, moment):
    results, content, seconds = undisturbed
    path = write_pipeline(tmp_path, data)
    process = start_xpipe("run", path)
    wait_for((tmp_path / "runs" / ".store").exists)
    time.sleep(random.Random(moment).uniform(0, 1.1 * seconds))
    kill(process)
    again = run_pipeline(path)
    assert digests(again) == digests(results)
    assert bytes_below(tmp_path / "runs" / "sample") == content
    assert not list((tmp_path / "runs").rglob("*.tmp"))
    assert left_over(tmp_path / "runs" / ".store") == []


def left_over(store):
    """What lies in the finished stages of a store beside their artifacts."""
    artifacts = Store(str(store))
    return [path for _, manifest in artifacts.stages() if manifest for path in artifacts.leftovers(manifest)]


def test_a_killed_run_is_resumed_not_repeated(tmp_path, data, undisturbed):
    path = write_pipeline(tmp_path, data)
    kill(start_stopping("receipts/rows", 6, "run", path))
    part = next((tmp_path / "runs").glob(".store/read-*/features/split=train/part-00000.arrow"))
    before = part.stat().st_mtime_ns, part.stat().st_ino
    again = run_pipeline(path)
    assert again["stages"][0]["status"] == "resumed"
    assert (part.stat().st_mtime_ns, part.stat().st_ino) == before
    assert digests(again) == digests(undisturbed[0])


def test_what_a_killed_run_was_writing_beside_its_stages_goes(tmp_path, data, undisturbed):
    """Killed while results.json or the digests of inputs were on their way: their temporary files stay behind."""
    path = write_pipeline(tmp_path, data)
    process = start_stopping("receipts/rows", 1, "run", path)
    kill(process)
    out, store = tmp_path / "runs" / "sample", tmp_path / "runs" / ".store"
    ending = f"{socket.gethostname().replace('.', '-')}.{process.pid}.0a1b2c3d.tmp"
    left = [out / f".results.json.{ending}", store / f".digests.json.{ending}"]
    for file in left:
        file.write_bytes(b"{")
    run_pipeline(path)
    assert not any(file.exists() for file in left)
    assert bytes_below(out) == undisturbed[1]


@pytest.mark.parametrize("victim", ["worker", "run"])
def test_kill_with_worker_processes(tmp_path, data, undisturbed, victim):
    path = write_pipeline(tmp_path, data, cluster="{kind: local, workers: 2, memory_limit: 1GiB, chunk_rows: 100}")
    process = start_stopping("advance", 4, "run", path)  # of `read`: two scans, then rows
    if victim == "run":
        workers = descendants_of(process.pid)
        kill(process)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
        assert digests(run_pipeline(path)) == digests(undisturbed[0])
    else:
        workers = [pid for pid in descendants_of(process.pid) if is_worker(pid)]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, output
    assert bytes_below(tmp_path / "runs" / "sample") == undisturbed[1]


@pytest.mark.parametrize("cluster", ["none", "{kind: local, workers: 2, memory_limit: 1GiB, chunk_rows: 64}"])
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(tmp_path, data, undisturbed, cluster, signal_number):
    path = write_pipeline(tmp_path, data, cluster=cluster)
    process = start_stopping("advance", 4, "run", path, start_new_session=True)
    if signal_number == signal.SIGINT:
        os.killpg(process.pid, signal_number)  # a terminal sends Ctrl-C to the workers too
    else:
        process.send_signal(signal_number)
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, output
    assert output.rstrip().splitlines()[-1] == f"interrupted; finished chunks are kept, to go on: xpipe run {path}"
    assert "Traceback" not in output
    assert digests(run_pipeline(path)) == digests(undisturbed[0])
    assert bytes_below(tmp_path / "runs" / "sample") == undisturbed[1]


def test_two_runs_at_once_in_one_folder(tmp_path, data, undisturbed):
    path = write_pipeline(tmp_path, data)
    first = start_stopping("receipts/rows", 1, "run", path)
    code, output = run_xpipe("run", path)
    assert code == 5, output
    assert f"process {first.pid} on" in output
    assert "--set out=" in output
    first.send_signal(signal.SIGCONT)
    # another folder with the same store: both build the same artifacts side by side
    code, output = run_xpipe("run", path, "--set", f"out={tmp_path / 'runs' / 'other'}")
    assert code == 0, output
    output, _ = first.communicate(timeout=LIMIT)
    assert first.returncode == 0, output
    assert bytes_below(tmp_path / "runs" / "sample") == undisturbed[1]
    assert bytes_below(tmp_path / "runs" / "other") == undisturbed[1]
