"""Every stage gives the same bytes, however many threads, workers and cores there are, and wherever it runs.

OpenBLAS takes at most as many threads from the environment as there are cores; `four threads` are really four.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from threadpoolctl import threadpool_limits

from tests.every_stage import PIPELINES, run_all, write_wide_data
from tests.samples import bytes_below
from xpipe.engine.cluster.calls import Call, execute
from xpipe.engine.messages import Unit
from xpipe.heads.training import fixed_threads
from xpipe.stages import STAGES

pytest.importorskip("safetensors")
LONGEST = 600
IN_ENVIRONMENT = {  # the rest changes what must not matter either
    "environment-1": {"PYTHONHASHSEED": "1"},
    "environment-2": {"PYTHONHASHSEED": "2", "TZ": "Asia/Kolkata", "LC_ALL": "C"},
    "environment-4": {"PYTHONHASHSEED": "3"},
}
CLUSTERS = {
    "local-1": "{kind: local, workers: 1}",
    "local-2": "{kind: local, workers: 2, memory_limit: 1GiB, chunk_rows: 37}",
    "local-3": "{kind: local, workers: 3, memory_limit: 2GiB, chunk_rows: 1000}",
}


# Every stage is in `everything`; `wide` shows threads of BLAS, of which every worker has one, however many workers.
WITH_WORKERS = {"local-1": ["everything"], "local-3": ["everything"]}


def in_environment(folder, data, name):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), name[-1])
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), **threads, **IN_ENVIRONMENT[name]}
    command = [sys.executable, "-m", "tests.every_stage", str(folder), str(data), "none"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "wide"
    write_wide_data(folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """{setting: (keys and digests, exported files)}; those in processes of their own run beside the others."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("none", "four-threads", *CLUSTERS, *IN_ENVIRONMENT)}
    found = {}
    found["none"] = run_all(folders["none"], data, "none")  # first: the others find its kernels compiled
    processes = {name: in_environment(folders[name], data, name) for name in IN_ENVIRONMENT}
    try:
        with threadpool_limits(4), fixed_threads(4), pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)  # xpipe's own threads
            found["four-threads"] = run_all(folders["four-threads"], data, "none")
        for name, cluster in CLUSTERS.items():
            found[name] = run_all(folders[name], data, cluster, WITH_WORKERS.get(name, list(PIPELINES)))
        for name, process in processes.items():
            _, complaints = process.communicate(timeout=LONGEST)
            assert process.returncode == 0, complaints
            found[name] = json.loads((folders[name] / "found.json").read_text())
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()
    return {name: (keys, exported_files(folders[name])) for name, keys in found.items()}


def exported_files(folder):
    return {
        f"{name}/{path}": content for name in PIPELINES for path, content in bytes_below(folder / "runs" / name).items()
    }


def test_every_stage_and_format_is_there(runs):
    keys, exported = runs["none"]
    stages = {stage for found in keys.values() for stage in found}
    assert stages == {
        "synth", "read", "vectorize", "group", "embed", "assign", "emit", "train", "train_heads", "verify", "evaluate",
        "report",
    }  # fmt: skip
    assert keys.keys() == PIPELINES.keys()
    for name in ("heads/dataset.json", "xmc/train.txt", "npz/X.trn.npz", "svmlight/test.svm", "models/tree.npz"):
        assert f"everything/{name}" in exported
    outputs = {path.split("/")[1] for path in exported if path.startswith("everything/")}
    declared = {name for stage in STAGES for name in stage.outputs}
    # bad rows are dropped elsewhere; only tables have a vectorizer; report.html tells times, and is not drawn here
    assert outputs == declared - {"rejects.parquet", "vectorizer", "report.html"}
    assert "table/vectorizer/vocabulary.parquet" in exported


@pytest.mark.parametrize("setting", ["four-threads", *CLUSTERS, *IN_ENVIRONMENT])
def test_the_same_keys_and_the_same_bytes(runs, setting):
    keys, exported = runs[setting]
    expected, files = runs["none"]
    names = WITH_WORKERS.get(setting, list(PIPELINES))
    assert list(keys) == names
    for name in names:
        for stage, made in expected[name].items():
            assert keys[name][stage] == made, (name, stage)
    files = {path: content for path, content in files.items() if path.split("/")[0] in names}
    assert files.keys() == exported.keys()
    assert [path for path in files if files[path] != exported[path]] == []


def train_two(folder, dataset, numbers):
    from tests.work import Settings, train_small_head

    units = tuple(Unit(f"head-{number}", 1) for number in numbers)
    return Call("stage test", train_small_head, str(folder), "step", units, Settings(dataset=dataset))


def test_heads_trained_at_the_same_time_in_one_process(tmp_path, tmp_path_factory, runs, data):
    """As at a remote worker with several threads: first weights and dropout come from the process's random state."""
    dataset = str(tmp_path_factory.getbasetemp() / "none0" / "runs" / "everything" / "heads")
    assert os.path.exists(dataset)
    alone = execute(train_two(tmp_path / "alone", dataset, [0])).receipts["head-0"].result
    outcomes = {}

    def work(number):
        outcomes[number] = execute(train_two(tmp_path / "together", dataset, [number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    before = torch.get_num_threads()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert [outcomes[number].receipts[f"head-{number}"].result for number in range(3)] == [alone] * 3
    assert torch.get_num_threads() == before
