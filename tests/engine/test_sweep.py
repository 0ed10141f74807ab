"""Pipelines with a matrix: every combination and the oracle, shared stages once, one table."""

from __future__ import annotations

import json

import pytest

from tests.samples import clean_store, combinations, run_xpipe, write_dataset
from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.engine import sweep as matrix
from xpipe.engine.sweep_table import close_gaps
from xpipe.errors import ConfigError
from xpipe.ground import backend

PIPELINE = """
name: table
data: {{dir: {data}, part_rows: 64}}
matrix:
  group: [{{rule: random, size: 2}}, {{rule: random, size: 4}}]
  assign.method: [baseline, centred]
emit: {{datasets: [tree]}}
train: {{tree: {{n_trees: 1}}}}
evaluate: {{resamples: 0}}
cluster: none
out: {out}/table
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    path = folder / "table.yaml"
    path.write_text(PIPELINE.format(data=write_dataset(folder / "data"), out=folder / "runs"))
    return path


def test_every_combination_then_the_oracle(pipeline):
    found = combinations(pipeline)
    assert [list(member.values.values()) for member in found] == [
        ["random 2", "baseline"],
        ["random 2", "centred"],
        ["random 4", "baseline"],
        ["random 4", "centred"],
        ["oracle", "oracle"],
    ]
    assert found[2].pipeline.group.size == 4
    assert found[2].pipeline.assign.method == "baseline"
    assert found[-1].pipeline.group is None
    assert found[-1].pipeline.assign is None
    assert len({member.pipeline.out for member in found}) == 5
    assert len({member.pipeline.store for member in found}) == 1
    assert not any(member.pipeline.matrix for member in found)


def test_shared_stages_run_once_and_one_table_has_all(pipeline):
    base, members = config.load(pipeline), combinations(pipeline)
    with Progress(mode="quiet") as progress:
        table = matrix.run(members, base, progress, backend.choose("cpu"))
    assert json.loads((pipeline.parent / "runs" / "table" / "table.json").read_text()) == table
    statuses = [
        {stage["stage"]: stage["status"] for stage in json.loads(path.read_text())["stages"]}
        for path in sorted((pipeline.parent / "runs" / "table").glob("*/results.json"))
    ]
    assert sum(made["read"] == "ran" for made in statuses) == 1
    assert sum(made.get("group") == "ran" for made in statuses) == 2
    rows = {tuple(row["values"].values()): row for row in table["rows"]}
    assert rows["random 4", "baseline"]["labels"]["recall"] == 1.0
    assert len(rows["random 4", "centred"]["model"]["precision"]) == 5
    assert rows["oracle", "oracle"]["labels"] == {}
    reports = list((pipeline.parent / "runs" / "table").rglob("report.html"))
    assert reports == [pipeline.parent / "runs" / "table" / "report.html"]  # one over all runs
    assert [entry["path"] for entry in table["written"]] == ["report.html"]


def test_gaps_are_between_the_baseline_of_the_same_groups_and_the_oracle():
    def row(group, method, precision, model="tree"):
        values = {"group": group, "assign.method": method}
        return {"values": values, "model": {"name": model, "precision": [90.0, precision]}}

    rows = [
        row("4", "baseline", 40.0),
        row("4", "eagle", 55.0),
        row("10", "eagle", 50.0),
        row("oracle", "oracle", 60.0),
        row("4", "baseline", 10.0, "bsl"),
        row("4", "eagle", 15.0, "bsl"),
        row("oracle", "oracle", 20.0, "bsl"),
    ]
    close_gaps(rows)
    assert [made.get("gap_closed") for made in rows] == [0.0, 0.75, None, None, 0.0, 0.5, None]


def test_from_the_command_line(pipeline):
    code, printed = run_xpipe("run", str(pipeline))
    assert code == 0, printed
    for text in ("random 4", "centred", "oracle", "P@1", "gap closed", "table.json"):
        assert text in printed
    code, planned = run_xpipe("plan", str(pipeline))
    assert code == 0, planned
    assert planned.count("cached") >= 5 * 4
    runs = pipeline.parent / "runs"
    code, shown = run_xpipe("show", runs / "table")
    assert code == 0, shown
    for text in ("random 4", "centred", "oracle", "P@1", "gap closed", "table.json"):
        assert text in shown
    assert clean_store(str(runs)) == []  # every stage is of a combination


def test_a_mistake_in_one_combination_is_told_before_any_runs(pipeline):
    with pytest.raises(ConfigError, match=r"assign\.method"):
        combinations(pipeline, ['matrix={"assign.method": [baseline, eagel]}'])
    with pytest.raises(ConfigError, match="matrix"):
        config.load(pipeline, ["matrix={seed: []}"])
