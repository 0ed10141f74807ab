"""The command line as a user meets it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tests.samples import run_pipeline, run_xpipe, write_dataset, write_pipeline
from tests.waiting import LIMIT
from xpipe.formats import read_dataset, read_xmc


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['xpipe', '--help']\n"
        "from xpipe.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'numba', 'dask', 'distributed', 'pyarrow', 'pydantic', 'rich', 'yaml', 'cupy',\n"
        "         'jinja2', 'matplotlib'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "HEAVY []" in output
    for command in ("run", "plan", "check", "convert", "synth", "evaluate", "verify", "show", "clean", "doctor"):
        assert f"\n  {command}" in output
    assert "\n  owners" in output
    assert "\n  predict" in output


def test_run_show_plan_and_clean(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    code, output = run_xpipe("plan", path)
    assert code == 0
    assert "not run yet" in output
    code, output = run_xpipe("run", path)
    assert code == 0, output
    assert "heads/" in output
    assert "read: done, " in output
    code, quiet = run_xpipe("run", path, "-q")  # before the command it means the same
    assert code == 0
    assert "everything was cached" in quiet
    assert "read: done" not in quiet
    code, shown = run_xpipe("show", tmp_path / "runs" / "sample")
    assert code == 0
    assert "75 groups of 4.0 samples" in shown
    run_xpipe("-q", "run", path, "--set", "group.size=5")
    code, output = run_xpipe("clean", tmp_path / "runs", "--dry-run")
    assert code == 0
    assert output.count("would remove") == 2  # group and emit of size 4
    run_xpipe("clean", tmp_path / "runs")
    code, output = run_xpipe("-q", "run", path, "--set", "group.size=5")
    assert "everything was cached" in output
    code, output = run_xpipe("clean", tmp_path / "runs", "--all")
    assert not list((tmp_path / "runs" / ".store").glob("*-*"))
    assert (tmp_path / "runs" / "sample" / "tree" / "dataset.json").exists()


def test_results_json_has_what_ran(tmp_path, data):
    run_pipeline(write_pipeline(tmp_path, data))
    results = json.loads((tmp_path / "runs" / "sample" / "results.json").read_text())
    assert [stage["stage"] for stage in results["stages"]] == ["read", "group", "emit"]
    for stage in results["stages"]:
        assert {"status", "seconds", "peak_memory", "summary", "key", "digests"} <= stage.keys()
    assert results["stages"][2]["summary"]["labels"] == 11
    assert {"xpipe", "numpy", "numba", "pyarrow", "distributed"} <= results["versions"].keys()
    assert results["backend"]["name"] == "cpu"
    assert results["synthetic"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "nowhere.yaml"], 2, "cannot be read"),
        (["run", "{pipeline}", "--set", "group.sise=4"], 2, "did you mean `size`"),
        (["run", "{pipeline}", "--set", "data.dir=nowhere"], 3, "no folder nowhere"),
        (["run", "{pipeline}", "--set", "backend=gpu"], 6, "no GPU can be used"),
        (
            ["run", "{pipeline}", "--set", "cluster=tcp://127.0.0.1:9", "--set", "cluster.worker_timeout=2s"],
            5,
            "no Dask cluster",
        ),
        (["show", "nothing"], 2, "no results of a run"),
        (["clean", "nothing"], 2, "no store below"),
        (["check", "nothing"], 3, "no folder nothing"),
        (["synth", "eurlex-4", "out"], 2, "eurlex-4k"),
        (["convert", "a", "b"], 2, "--to"),
    ],
)
def test_errors_and_exit_codes(tmp_path, data, arguments, code, words):
    pipeline = write_pipeline(tmp_path, data)
    found, output = run_xpipe(*[text.format(pipeline=pipeline) for text in arguments])
    assert (found, words in output) == (code, True), output
    assert "Traceback" not in output


def test_gpu_asked_for_and_not_there_writes_nothing(tmp_path, data):
    run_xpipe("run", write_pipeline(tmp_path, data), "--set", "backend=gpu")
    assert not (tmp_path / "runs").exists()


def test_doctor_examines_this_machine():
    code, output = run_xpipe("doctor")
    assert code in (0, 5)
    for word in ("numpy", "memory", "cores", "GPU"):
        assert word.lower() in output.lower()


def test_synth_then_check(tmp_path):
    code, output = run_xpipe("synth", "tiny", tmp_path / "tiny")
    assert code == 0, output
    assert "SYNTHETIC" in output
    code, output = run_xpipe("check", tmp_path / "tiny")
    assert "SYNTHETIC" in output
    assert "600" in output
    assert code == 0
    code, output = run_xpipe("check", tmp_path / "tiny", "--name", "eurlex-4k")
    assert code == 3
    assert "differs" in output


@pytest.mark.parametrize("form", ["xmc", "split", "npz", "svmlight", "parquet"])
def test_convert_there_and_back(tmp_path, data, form):
    code, output = run_xpipe("convert", data, tmp_path / "out", "--to", form)
    assert code == 0, output
    options = {"n_features": 40, "n_labels": 12, "index_base": 1} if form == "svmlight" else {}
    again = read_dataset(str(tmp_path / "out"), **options)
    for split in ("train", "test"):
        X, Y = read_xmc(str(data / f"{split}.txt"))
        assert (again.splits[split].X != X).nnz == 0
        assert (again.splits[split].Y != Y).nnz == 0
    assert again.label_names.names[3] == "label 3"
    code, output = run_xpipe("convert", data, tmp_path / "out", "--to", form)
    assert code == 3
    assert "not empty" in output


def test_convert_one_file(tmp_path, data):
    code, output = run_xpipe("convert", data / "train.txt", tmp_path / "out", "--to", "npz")
    assert code == 0, output
    X, _ = read_xmc(str(data / "train.txt"))
    assert (sp.load_npz(tmp_path / "out" / "X.trn.npz") != X).nnz == 0
    assert np.array_equal(sp.load_npz(tmp_path / "out" / "X.trn.npz").data, X.data)


def test_bars_on_a_terminal(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-m", "xpipe", "run", str(path)], stdout=slave, stderr=slave, stdin=slave, env=environment
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert process.wait(LIMIT) == 0
    assert b"\x1b[" in seen
    assert b"380" in seen


def test_brackets_are_shown_as_they_are(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    code, output = run_xpipe(
        "-q", "run", path, "--set", f"out={tmp_path}/runs/[bold]/sample", "--set", "emit.formats=[xmc]"
    )
    assert code == 0, output
    assert "/runs/[bold]/sample/xmc" in output.replace("\n", "")
