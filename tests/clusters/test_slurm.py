"""`cluster: NAME` on a real SLURM: the same bytes as in one process, jobs that are killed, and none left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.clusters.slurm import missing, running_slurm
from tests.dask_processes import wait_for
from tests.samples import bytes_below, run_xpipe, start_xpipe

TOP = Path(__file__).parent.parent.parent
TINY = TOP / "pipelines" / "tiny.yaml"
CLUSTERS = """\
slurm-test:
  type: dask_jobqueue.SLURMCluster
  workers: 2
  memory_limit: 1GiB
  options:
    cores: 1
    memory: 1GiB
    processes: 1
    queue: main
    walltime: "00:30:00"
    interface: lo
    log_directory: {folder}
    local_directory: {folder}
    job_extra_directives: ["--requeue"]
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if reason := missing():
        pytest.skip(reason)
    pytest.importorskip("dask_jobqueue")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "clusters.yaml").write_text(CLUSTERS.format(folder=folder))
    patch = pytest.MonkeyPatch()
    with running_slurm(folder) as found, contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(patch.undo)
        for name, value in found.environment.items():
            patch.setenv(name, value)
        patch.setenv("XPIPE_CLUSTERS", str(folder / "clusters.yaml"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("none")
    code, output = run_xpipe(*command(folder, "none"), cwd=folder)
    assert code == 0, output
    return bytes_below(folder / "run")


def command(folder: Path, cluster: str) -> list[str]:
    settings = [f"out={folder}/run", f"cluster={cluster}", "report=none", "backend=cpu"]
    return ["run", str(TINY), *(word for text in settings for word in ("--set", text))]


def test_the_same_bytes_as_in_one_process(slurm, undisturbed, tmp_path):
    code, output = run_xpipe(*command(tmp_path, "slurm-test"), cwd=tmp_path)
    assert code == 0, output
    assert "starting cluster slurm-test (dask_jobqueue.SLURMCluster)" in output
    assert output.count("workers  on") == 1  # one table
    assert bytes_below(tmp_path / "run") == undisturbed
    wait_for(lambda: not slurm.jobs(), "the end of all jobs")


def test_a_killed_job_is_replaced_and_costs_no_byte(slurm, undisturbed, tmp_path):
    process = start_xpipe(*command(tmp_path, "{kind: slurm-test, workers: 1, chunk_rows: 1}"), cwd=tmp_path)
    receipts = tmp_path / ".store"
    wait_for(lambda: any(receipts.glob("*/receipts/*/*.json")) or process.poll() is not None, "a finished unit")
    (first,) = slurm.jobs("RUNNING")
    slurm.command("scancel", "--full", "--signal=KILL", first)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert bytes_below(tmp_path / "run") == undisturbed
    assert "joined on" in output  # the job that came instead


def test_an_interrupted_run_leaves_no_job_and_no_key(slurm, tmp_path):
    process = start_xpipe(*command(tmp_path, "slurm-test"), cwd=tmp_path)
    wait_for(lambda: slurm.jobs("RUNNING") or process.poll() is not None, "a job")
    keys = list((slurm.folder / "cache" / "xpipe").glob(".dask-jobqueue*"))
    assert keys
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    wait_for(lambda: not slurm.jobs(), "the end of all jobs")
    assert not list((slurm.folder / "cache" / "xpipe").iterdir())


def test_a_trial_tells_of_every_worker(slurm, tmp_path):
    code, output = run_xpipe("cluster", "slurm-test", "--store", tmp_path / "store", cwd=tmp_path)
    assert code == 0, output
    assert "2 processes on 1 machine did 8 pieces of work" in output
    assert os.listdir(tmp_path / "store") == []
    wait_for(lambda: not slurm.jobs(), "the end of all jobs")
