"""`xpipe export`: what a tracker of experiments gets of a finished run. MLflow itself is in tests/ecosystem."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from click.testing import CliRunner

from tests.samples import bytes_below
from xpipe.cli.main import cli
from xpipe.engine.tracking import artifact_paths, tracked_runs

SUMMARY = {
    "split": "test",
    "rows": 200,
    "models": [
        {"name": "tree", "precision": [66.0, 58.25], "ece": 0.075, "parameters": {"all": 5}, "calibrated": True},
        {"name": "bsl-8", "precision": [46.5, 24.25], "ece": 0.094, "layer": "bsl"},
    ],
}


def write_run(folder, name="mine", **more):
    """results.json and a file, as a run leaves them."""
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<html></html>")
    stages = [
        {"stage": "read", "status": "cached", "seconds": 0.1, "key": "k1", "summary": {"rows": 9, "splits": ["train"]},
         "cost": {"seconds": 2.5, "peak_memory": 100}},
        {"stage": "evaluate", "status": "ran", "seconds": 1.5, "key": "k2", "summary": SUMMARY, "peak_memory": 7},
    ]  # fmt: skip
    results = {
        "name": name, "synthetic": True, "stages": stages, "outputs": {}, "seconds": 4, "out": str(folder),
        "backend": {"name": "cpu"}, "versions": {"numpy": "2.0"}, "seed": 3,
        "pipeline": {"name": name, "seed": 3, "out": "runs/mine", "group": {"rule": "random", "size": 4},
                     "train": {"heads": [{"layer": "bsl", "dim": 8}]}},
        "written": [{"path": "report.html", "bytes": 9, "sha256": "a"}, {"path": "big", "bytes": 10**9, "sha256": "b"}],
        **more,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_a_run_as_a_tracker_knows_it(tmp_path):
    (run,) = tracked_runs(str(write_run(tmp_path / "mine")))
    assert run.params["group.size"] == "4"
    assert run.params["train.heads"] == '[{"dim": 8, "layer": "bsl"}]'
    assert (run.params["seed"], run.params["version.numpy"], run.params["backend"]) == ("3", "2.0", "cpu")
    assert "out" not in run.params
    assert run.metrics == {
        "read.rows": 9, "seconds.read": 2.5, "peak_memory.read": 100, "evaluate.rows": 200, "seconds.evaluate": 1.5,
        "peak_memory.evaluate": 7, "tree.precision_at_1": 0.66, "tree.precision_at_2": 0.5825, "tree.ece": 0.075,
        "tree.parameters.all": 5, "bsl-8.precision_at_1": 0.465, "bsl-8.precision_at_2": 0.2425, "bsl-8.ece": 0.094,
        "seconds": 4,
    }  # fmt: skip
    assert run.tags == {"xpipe.synthetic": "SYNTHETIC", "xpipe.key.read": "k1", "xpipe.key.evaluate": "k2"}
    assert artifact_paths(run, 1000) == ["results.json", "report.html"]


def test_csv_of_a_matrix_leaves_its_folder_alone(tmp_path):
    for combination in ("size=4", "size=10"):
        write_run(tmp_path / "runs" / "sizes" / combination, "sizes")
    (tmp_path / "runs" / "sizes" / "table.json").write_text("{}")
    before = bytes_below(tmp_path / "runs")
    folder = str(tmp_path / "runs" / "sizes")
    printed = CliRunner().invoke(cli, ["export", folder, "--to", "csv"], catch_exceptions=False).stdout
    rows = list(csv.DictReader(printed.splitlines()))
    assert {row["run"] for row in rows} == {"sizes/size=4", "sizes/size=10"}
    assert {row["kind"] for row in rows} == {"param", "metric", "tag", "artifact"}
    (value,) = {row["value"] for row in rows if row["name"] == "tree.precision_at_1"}
    assert float(value) == 0.66
    out = tmp_path / "sizes.csv"
    CliRunner().invoke(cli, ["export", "csv", folder, "--out", str(out)], catch_exceptions=False)
    assert out.read_text() == printed
    inside = CliRunner().invoke(cli, ["export", "csv", folder, "--out", f"{folder}/x.csv"])
    assert "lies in the folder of the run" in str(inside.exception)
    assert bytes_below(tmp_path / "runs") == before


@pytest.mark.parametrize("words", [["mine"], ["tensorboard", "mine"], ["csv", "mine", "--to", "mlflow"]])
def test_words_that_say_nothing(words):
    assert "xpipe export mlflow RUN" in CliRunner().invoke(cli, ["export", *words]).output


def test_without_mlflow_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    found = CliRunner().invoke(cli, ["export", "mlflow", str(write_run(tmp_path / "mine"))])
    assert "MLflow is not installed" in str(found.exception)
    assert "--to csv" in str(found.exception)
