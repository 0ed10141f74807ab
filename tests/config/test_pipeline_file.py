"""Pipeline files that are right: defaults, short forms, folders, and the shipped files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.small_stages import STAGES, DataParams, EmitParams, GroupParams
from xpipe.config.pipeline_file import Pipeline, load

ROOT = Path(__file__).parents[2]


def test_defaults(write):
    pipeline = load(write("name: a.b-c_1\n"), stages=STAGES)
    assert isinstance(pipeline, Pipeline)
    assert (pipeline.seed, pipeline.backend, pipeline.out, pipeline.store) == (0, "auto", "runs/a.b-c_1", "runs/.store")
    assert (pipeline.data, pipeline.group, pipeline.emit) == (None, None, None)
    assert pipeline.cluster.kind == "local"


def test_sections_have_the_type_of_their_stage(write):
    pipeline = load(write("name: a\ngroup: {rule: random, size: 4}\ndata:\n  dir: x\nemit:\n"), stages=STAGES)
    assert pipeline.group == GroupParams(rule="random", size=4)
    assert pipeline.data == DataParams(dir="x")
    assert pipeline.emit == EmitParams()  # named but empty: on with its defaults


def test_explicit_null_switches_a_stage_off(write):
    assert load(write("name: a\nemit: null\n"), stages=STAGES).emit is None


@pytest.mark.parametrize(
    ("line", "on"), [("", True), ("report:", True), ("report: none", False), ("report: null", False)]
)
def test_a_usual_stage_is_on_unless_it_is_switched_off(write, line, on):
    pipeline = load(write(f"name: a\ndata: {{dir: x}}\n{line}\n"))
    assert (pipeline.report is not None) is on
    assert (pipeline.to_json()["report"] == "none") is not on


@pytest.mark.parametrize(
    ("line", "kind"),
    [("none", "none"), ("local", "local"), ("tcp://host:8786", "tcp://host:8786"), ("{workers: 3}", "local")],
)
def test_cluster_short_forms(write, line, kind):
    assert load(write(f"name: a\ncluster: {line}\n"), stages=STAGES).cluster.kind == kind


def test_memory_limit_and_time_as_numbers(write):
    cluster = load(write("name: a\ncluster: {memory_limit: 4294967296, task_timeout: 90}\n"), stages=STAGES).cluster
    assert (cluster.memory_limit, cluster.task_timeout) == (4294967296, 90)


@pytest.mark.parametrize(
    ("extra", "out", "store"),
    [
        ("out: /x/y/", "/x/y/", "/x/.store"),
        ("out: s3://bucket/runs/a", "s3://bucket/runs/a", "s3://bucket/runs/.store"),
        ("out: here", "here", ".store"),
        ("store: /s", "runs/a", "/s"),
        ("out:", "runs/a", "runs/.store"),
    ],
)
def test_folders(write, extra, out, store):
    pipeline = load(write(f"name: a\n{extra}\n"), stages=STAGES)
    assert (pipeline.out, pipeline.store) == (out, store)


@pytest.mark.parametrize("name", ["tiny", "eurlex"])
def test_shipped_pipelines(name):
    pipeline = load(ROOT / "pipelines" / f"{name}.yaml")
    assert pipeline.name == name
    assert pipeline.data.if_missing == "synthesize"
    assert pipeline.group.size == 4
    assert pipeline.cluster.kind == {"tiny": "none", "eurlex": "local"}[name]


def test_values_do_not_change_after_checking(write):
    pipeline = load(write("name: a\n"), stages=STAGES)
    with pytest.raises(ValueError, match="frozen"):
        pipeline.seed = 3


def test_import_stays_light():
    heavy = ("numpy", "dask", "numba", "pyarrow", "rich")
    code = f"import sys, xpipe.config.pipeline_file; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
