"""Stage report in whole runs: figures that are right, report.html on record, made anew with the same bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.report.runs import write_run
from tests.samples import run_pipeline, write_dataset, write_pipeline
from xpipe import report
from xpipe.cli.main import cli
from xpipe.cli.progress import Progress
from xpipe.engine import execute
from xpipe.errors import ConfigError, XpipeError
from xpipe.formats import read_dataset

EXTRA = "assign: {method: discriminative}\ntrain: {tree: {n_trees: 1}}\nevaluate: {resamples: 0}\n"
ON = ("report.groups=2", "emit.formats=[parquet]")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(pipeline file, folder of the run, results) of a run with a report."""
    folder = tmp_path_factory.mktemp("report")
    path = write_pipeline(folder, write_dataset(folder / "data"), EXTRA + "report: {groups: 3}\n")
    return path, folder / "runs" / "sample", run_pipeline(path, *ON)


def invoke(*arguments) -> str:
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_figures_are_those_of_the_data(run):
    path, out, _ = run
    figures = json.loads((out / "figures.json").read_text())
    data = read_dataset(str(path.parent / "data"))
    lengths = np.diff(data.train.Y.indptr)
    found = figures["splits"]["train"]["labels"]
    assert found["mean"] == pytest.approx(lengths.mean(), abs=1e-4)
    assert {each["low"]: each["count"] for each in found["bins"]} == {
        int(value): int((lengths == value).sum()) for value in range(lengths.max() + 1)
    }
    assert figures["splits"]["test"]["rows"] == 80
    most = figures["labels"]["most"][0]
    frequency = np.asarray(data.train.Y.sum(axis=0)).ravel()
    assert (most["count"], most["name"]) == (frequency.max(), f"label {frequency.argmax()}")
    assert figures["labels"]["unused"] == 1  # label 3
    assert figures["groups"]["groups"] == 75
    assert figures["groups"]["sizes"]["bins"] == [{"low": 4, "high": 4, "count": 75}]


def test_chances_and_examples_are_those_of_the_owners(run):
    path, out, results = run
    found = json.loads((out / "figures.json").read_text())["assignment"]
    summary = next(stage["summary"] for stage in results["stages"] if stage["stage"] == "assign")
    assert found["scores"] == "posterior"
    assert found["pairs"] == sum(each["pairs"] for each in found["chances"]) == summary["assigned"]
    right = sum(each["right"] for each in found["chances"])
    assert right / found["pairs"] == pytest.approx(summary["precision"], abs=1e-4)
    assert len(found["easy"]) == len(found["doubtful"]) == 2
    assert max(each["chance"] for each in found["doubtful"]) <= min(each["chance"] for each in found["easy"])
    truth = read_dataset(str(path.parent / "data")).train.Y
    for group in (*found["easy"], *found["doubtful"]):
        assert len(group["members"]) == 4
        for label in group["labels"]:
            assert label["name"] == f"label {label['label']}"
            for owner in label["owners"]:
                assert owner["right"] == bool(truth[owner["row"], label["label"]])


def test_the_report_is_an_output_and_its_stages_have_costs(run):
    _, out, results = run
    text = (out / "report.html").read_text()
    assert "cannot be shown" not in text
    assert results["outputs"]["report.html"]["bytes"] == len(text.encode())
    assert "report.html" in [entry["path"] for entry in results["written"]]
    assert json.loads((out / "results.json").read_text()) == results
    assert not (out / ".written.json").exists()
    for stage in results["stages"]:
        assert stage["cost"]["peak_memory"] > 2**20
        assert stage["cost"]["seconds"] >= 0


def test_made_anew_it_has_the_same_bytes(run):
    _, out, _ = run
    before = (out / "report.html").read_bytes()
    assert "elsewhere.html" in invoke("report", out, "--out", out.parent / "elsewhere.html")
    assert (out.parent / "elsewhere.html").read_bytes() == before


def test_without_a_report_nothing_is_drawn_and_the_old_one_goes_and_the_verb_counts_anew(run):
    path, out, _ = run
    figures = json.loads((out / "figures.json").read_text())
    again = run_pipeline(path, ON[1], "report=none")
    assert not (out / "report.html").exists()
    assert not (out / "figures.json").exists()
    assert again["pipeline"]["report"] == "none"
    assert {stage["status"] for stage in again["stages"]} == {"cached"}
    invoke("report", out)  # with the figures of the store
    text = (out / "report.html").read_text()
    assert "no figures of its data" not in text
    assert f"{figures['groups']['groups']} groups" in text
    assert f"{len(again['stages'])} of them were in the store already" in text
    record = json.loads((out / "results.json").read_text())
    assert record["outputs"]["report.html"]["bytes"] == len(text.encode())
    assert not (out / ".written.json").exists()


def test_a_file_of_somebody_else_is_moved_aside_and_an_own_one_replaced(run, monkeypatch):
    path, out, _ = run
    run_pipeline(path, ON[1], "report=none")
    (out / "report.html").write_text("mine")
    for text in ("ours", "ours again"):
        monkeypatch.setattr(report, "run_report", lambda *_, text=text: text)
        run_pipeline(path, *ON)
        assert (out / "kept" / "report.html").read_text() == "mine"
        assert (out / "report.html").read_text() == text
    assert len(list((out / "kept").iterdir())) == 1


def test_a_run_that_is_killed_after_its_report_knows_it_again(run, monkeypatch):
    path, out, _ = run

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(report, "run_report", lambda *_: "of the killed run")
        patch.setattr(execute, "dump_json", killed)  # of results.json
        with pytest.raises(KeyboardInterrupt):
            run_pipeline(path, *ON)
    assert (out / "report.html").read_text() == "of the killed run"
    monkeypatch.setattr(report, "run_report", lambda *_: "of the next run")
    told = []
    monkeypatch.setattr(Progress, "warn", lambda self, text: told.append(text))
    run_pipeline(path, *ON)
    assert (out / "report.html").read_text() == "of the next run"
    assert told == []
    assert not [path for path in (out / "kept").rglob("report.html*") if path.read_text().startswith("of the")]


def test_a_report_that_fails_costs_no_run(run, monkeypatch):
    path, out, _ = run
    monkeypatch.setattr(report, "run_report", lambda *_: {}["no such key"])
    results = run_pipeline(path, *ON)
    assert "report.html" not in results["outputs"]
    assert json.loads((out / "results.json").read_text()) == results


def test_data_alone_has_a_report(tmp_path):
    path = tmp_path / "data.yaml"
    path.write_text(f"name: alone\ncluster: none\nbackend: cpu\ndata: {{dir: {write_dataset(tmp_path / 'data')}}}\n")
    results = run_pipeline(path, "report.groups=1", f"out={tmp_path}/runs/alone")
    assert [stage["stage"] for stage in results["stages"]] == ["read", "report"]
    text = (tmp_path / "runs" / "alone" / "report.html").read_text()
    assert "Labels per row, train" in text
    assert "The assignment" not in text


@pytest.mark.parametrize(
    "change",
    [{"stages": [{"stage": "read"}]}, {"versions": 3, "name": None}, {"out": 4}, {"cluster": None, "outputs": {}}],
)
def test_strange_results_end_in_a_report_or_in_an_error_that_teaches(tmp_path, change):
    write_run(tmp_path)
    content = json.loads((tmp_path / "results.json").read_text()) | change
    (tmp_path / "results.json").write_text(json.dumps(content))
    found = CliRunner().invoke(cli, ["report", str(tmp_path), "--out", str(tmp_path / "page.html")])
    assert found.exception is None or isinstance(found.exception, XpipeError), found.exception


def test_no_run_is_told(tmp_path):
    found = CliRunner().invoke(cli, ["report", str(tmp_path / "nothing")])
    assert isinstance(found.exception, ConfigError)
    assert "no results of a run" in str(found.exception)
