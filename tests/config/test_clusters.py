"""clusters.yaml: names of clusters that pipeline files choose by, with every mistake told by its line."""

from __future__ import annotations

import pytest

from xpipe import config
from xpipe.config.clusters import clusters_file, look_up, read_clusters
from xpipe.engine.cluster import ClusterParams, connect
from xpipe.errors import ConfigError

USUAL = """\
lab: tcp://head:8786
farm:
  type: dask_jobqueue.SLURMCluster
  workers: 16
  adapt: {minimum: 2, maximum: 16}
  memory_limit: 2GiB
  worker_timeout: 2h
  options: {cores: 1, queue: normal, job_extra_directives: [--exclusive], quiet: true}
"""
WRONG = """\
local: tcp://head:8786
a: {typ: x.Y}
b:
  type: NoModule
  workers: "3"
  adapt: {minimum: 3}
c: {}
d: {type: a.B, address: "tcp://h:9"}
e: slurm
f:
  type: a.B
  workers: true
  adapt: {minimum: 5, maximum: 2}
json: 3
"""


@pytest.fixture
def clusters(tmp_path, monkeypatch):
    """Writes clusters.yaml to the user's configuration folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("XPIPE_CLUSTERS", raising=False)

    def write(text):
        clusters_file().parent.mkdir(exist_ok=True)
        clusters_file().write_text(text)

    return write


def load(tmp_path, cluster):
    path = tmp_path / "p.yaml"
    path.write_text(f"name: a\n\ncluster: {cluster}\n")
    return config.load(path).cluster


def test_a_name_brings_the_cluster_and_its_usual_settings(clusters, tmp_path):
    clusters(USUAL)
    found = load(tmp_path, "farm")
    assert (found.kind, found.workers, found.memory_limit, found.worker_timeout) == ("farm", 16, "2GiB", "2h")
    assert found.definition.options["job_extra_directives"] == ["--exclusive"]
    own = load(tmp_path, "{kind: farm, workers: 3}")  # what the pipeline sets wins
    assert (own.workers, own.memory_limit) == (3, "2GiB")
    assert "options" not in found.model_dump_json()  # results.json holds the choice and no machine
    assert connect(load(tmp_path, "lab")).address == "tcp://head:8786"
    assert load(tmp_path, "local").definition is None


def test_every_mistake_of_the_file_with_its_line(clusters):
    clusters(WRONG)
    with pytest.raises(ConfigError) as caught:
        read_clusters()
    lines = [line.split("clusters.yaml:")[1] for line in caught.value.what.splitlines()[1:]]
    starts = [
        "1: `local` must have another name",
        "2: `a.typ` must be one of the keys type, address",
        "4: `b.type` must be a class with its module",
        "5: `b.workers` must be a whole number of at least 1, got '3'",
        "6: `b.adapt.maximum` must be given",
        "7: `c` is not right: give `type`",
        "8: `d` is not right: `type` cannot be given with `address`",
        "9: `e.address` must be a scheduler's address",
        "12: `f.workers` must be a whole number of at least 1, got true",
        "13: `f.adapt` is not right: `minimum` (5) is above `maximum` (2)",
        "14: `json` must be a section with the keys",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert "did you mean `type`?" in lines[1]


def test_an_unknown_name_lists_the_known_ones_and_the_closest(clusters, tmp_path):
    clusters(USUAL)
    with pytest.raises(ConfigError, match=r"p.yaml:3: `cluster.kind` .*\(lab, farm\), got 'frm'; did you mean `farm`"):
        load(tmp_path, "frm")
    with pytest.raises(ConfigError, match="no cluster 'frm'"):
        look_up(ClusterParams(kind="frm"))
    with pytest.raises(ConfigError, match="nobody looked this name up"):
        connect(ClusterParams(kind="farm"))


def test_the_variable_names_another_file(clusters, tmp_path, monkeypatch):
    assert read_clusters() == {}
    monkeypatch.setenv("XPIPE_CLUSTERS", str(tmp_path / "mine.yaml"))
    with pytest.raises(ConfigError, match="the file of clusters is not there"):
        read_clusters()
    (tmp_path / "mine.yaml").write_text("near: tls://head:1")
    assert list(read_clusters()) == ["near"]


@pytest.mark.parametrize(
    ("dotted", "words"),
    [
        ("dask_kubernetez.operator.KubeCluster", "pip install dask-kubernetez"),
        ("distributed.LokalCluster", "did you mean LocalCluster"),
        ("distributed.nowhere.X", "No module named 'distributed.nowhere'"),
    ],
)
def test_a_class_that_is_not_there(clusters, tmp_path, dotted, words):
    clusters(f"odd: {{type: {dotted}}}")
    with pytest.raises(ConfigError) as caught:
        connect(load(tmp_path, "odd"))
    assert words in str(caught.value)
