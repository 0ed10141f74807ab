"""Disks that are full in the middle of a run: said as what they are, at whatever file, and the same command goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.samples import bytes_below, run_pipeline, run_xpipe, write_dataset

STAGES = ["read", "group", "embed", "assign", "emit", "train", "train_heads", "verify", "evaluate", "report"]
WITH_REPORT = "report.groups=2"  # its stage, which writes files as others do; nothing is drawn
EVERY_STAGE = """
    name: sample
    data: {{dir: {data}, part_rows: 100}}
    group: {{rule: random, size: 4}}
    embed: {{steps: 2}}
    assign: {{method: eagle, steps: 2}}
    emit: {{formats: [parquet, npz]}}
    train: {{tree: {{n_trees: 1}}, heads: [{{layer: bsl, dim: 4, epochs: 2, width: 8, calibrate: none}}]}}
    verify: {{split: test, explain: 1}}
    evaluate: {{split: test, k: 3, resamples: 10}}
    report: {{groups: 2}}
    cluster: {cluster}
    out: {out}
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """(data, the bytes of a run that nothing disturbed); it also leaves compiled kernels in their cache."""
    pytest.importorskip("torch")
    top = tmp_path_factory.mktemp("reference")
    data = write_dataset(top / "data", n_train=120, n_test=30)
    run_pipeline(write(top, data), WITH_REPORT, concluding=False)
    return data, bytes_below(top / "runs" / "sample")


def write(folder, data, cluster="none"):
    path = folder / "pipeline.yaml"
    out = folder / "runs" / "sample"
    path.write_text(textwrap.dedent(EVERY_STAGE).format(data=data, out=out, cluster=cluster))
    return path


def on_small_disk(path, *arguments):
    code, output = run_xpipe(path, *arguments, module="tests.small_disk", stderr=None)
    assert code == 0, output
    return [json.loads(line) for line in output.splitlines()]


def test_files_that_may_not_grow(tmp_path, reference):
    data, expected = reference
    runs = on_small_disk(write(tmp_path, data), "limit", 1, 300, 3_000, 12_000, 1 << 30)
    assert [run["code"] for run in runs[:3]] == [5, 5, 5], runs
    assert {run["code"] for run in runs} == {0, 5}, runs
    assert runs[-1]["code"] == 0
    for run in runs:
        assert not run["error"] or "a file would be larger than allowed here" in run["error"]
    assert bytes_below(tmp_path / "runs" / "sample") == expected


def test_a_disk_that_is_full_at_every_file(tmp_path, reference):
    data, expected = reference
    runs = on_small_disk(write(tmp_path, data), "full")
    assert [run["code"] for run in runs] == [5] * (len(runs) - 1) + [0], runs
    assert all("the disk is full" in run["error"] and str(tmp_path) in run["error"] for run in runs[:-1])
    assert bytes_below(tmp_path / "runs" / "sample") == expected


def test_a_disk_that_is_full_in_every_stage(tmp_path, reference):
    """Whatever a stage writes its files with."""
    data, expected = reference
    path = write(tmp_path, data)
    runs = on_small_disk(path, "stages", *STAGES)
    assert [(run["stage"], run["code"]) for run in runs] == [(name, 5) for name in STAGES], runs
    assert all("the disk is full" in run["error"] and str(tmp_path) in run["error"] for run in runs)
    results = run_pipeline(path, WITH_REPORT, concluding=False)
    assert [stage["stage"] for stage in results["stages"]] == STAGES
    assert bytes_below(tmp_path / "runs" / "sample") == expected


def test_workers_on_a_small_disk(tmp_path, reference):
    """Workers inherit the limit of the process that starts them, as they share its disk."""
    data, expected = reference
    path = write(tmp_path, data, "{kind: local, workers: 2, memory_limit: 2GiB}")
    (run,) = on_small_disk(path, "limit", 2_000)
    assert run["code"] == 5, run
    assert "a file would be larger than allowed here" in run["error"]
    run_pipeline(path, "cluster=none", WITH_REPORT, concluding=False)
    assert bytes_below(tmp_path / "runs" / "sample") == expected


def test_what_is_printed_may_meet_a_full_disk():
    with open("/dev/full", "w") as full:
        code, _ = run_xpipe("doctor", stdout=full, stderr=subprocess.PIPE)
    assert code == 5
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "xpipe", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )  # fmt: skip
    assert process.returncode == 5, process.stderr
    assert "the disk is full" in process.stderr
    assert "Traceback" not in process.stderr
