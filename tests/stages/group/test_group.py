"""Stage group, rule kmeans: what it stores, its keys, its mistakes; the same bytes whoever computes."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
from pydantic import ValidationError

from tests.samples import bytes_below, digests, run_pipeline, write_dataset, write_pipeline
from xpipe import config
from xpipe.engine import decide
from xpipe.errors import ConfigError
from xpipe.formats import read_xmc
from xpipe.formats.parquet import read_split
from xpipe.grouping import kmeans_groups, spread_labels
from xpipe.grouping.clustering import MOST_NOISE
from xpipe.stages.group.stage import GroupParams
from xpipe.stages.matrices import MatrixRef, open_matrix

KMEANS = "group={rule: kmeans, depth: 5, noise: 0.2}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write_pipeline(folder, data)
    return run_pipeline(path, KMEANS), folder, path


def test_the_stage_stores_what_the_room_gives(undisturbed, data):
    results, folder, _ = undisturbed
    X, Y = read_xmc(str(data / "train.txt"))
    Y1, Y2 = kmeans_groups(X, Y, depth=5, seed=0, noise=0.2)
    stage = results["stages"][1]
    stored = f"{results['store']}/group-{stage['key']}"
    assert open_matrix(MatrixRef(stored, "membership"), "train").load().indices.tolist() == Y1.indices.tolist()
    assert open_matrix(MatrixRef(stored, "group_labels"), "train").load().indices.tolist() == Y2.indices.tolist()
    assert stage["summary"]["groups"] == 32
    assert stage["summary"]["largest_group"] == 10  # 300 / 32 = 9.4
    _, emitted = read_split(str(folder / "runs" / "sample" / "tree"), "train")
    spread = spread_labels(Y1, Y2)
    assert (emitted.toarray() == spread.toarray()[:, spread.getnnz(axis=0) > 0]).all()


def test_parts_of_membership_are_those_of_the_features(undisturbed):
    results, _, _ = undisturbed
    manifests = []
    for stage in results["stages"][:2]:
        with open(f"{results['store']}/{stage['stage']}-{stage['key']}/manifest.json") as stream:
            manifests.append(json.load(stream)["artifacts"])
    rows = [
        [entry["rows"] for entry in artifacts[name]["files"] if entry["split"] == "train"]
        for artifacts, name in zip(manifests, ("features", "membership"), strict=True)
    ]
    assert rows[0] == rows[1]


def test_workers_change_no_byte(tmp_path, undisturbed, data, workers):
    results, folder, _ = undisturbed
    found = run_pipeline(write_pipeline(tmp_path, data, cluster=workers()), KMEANS)
    assert digests(found) == digests(results)
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(folder / "runs" / "sample")


def test_how_features_are_cut_into_parts_changes_no_group(tmp_path, undisturbed, data):
    found = run_pipeline(write_pipeline(tmp_path, data, part_rows=1000), KMEANS)
    members = [
        open_matrix(MatrixRef(f"{results['store']}/group-{results['stages'][1]['key']}", "membership"), "train").load()
        for results in (found, undisturbed[0])
    ]
    np.testing.assert_array_equal(*(found.indices for found in members))


def test_the_section_and_the_library_agree_on_noise():
    library = inspect.signature(kmeans_groups).parameters["noise"].default
    assert GroupParams(rule="kmeans", depth=1).kmeans_noise == library
    assert GroupParams(rule="kmeans", depth=1, noise=MOST_NOISE).kmeans_noise == MOST_NOISE
    with pytest.raises(ValueError, match="less than or equal"):
        GroupParams(rule="kmeans", depth=1, noise=2 * MOST_NOISE)


def test_depth_noise_and_seed_are_in_the_key(undisturbed):
    _, _, path = undisturbed

    def why(*overrides):
        return decide.plan(config.load(path, [KMEANS, *overrides]))[1].why

    assert why() == "same data, parameters and version"
    assert why("group.depth=4") == "changed: depth: 5 -> 4"
    assert why("group.noise=0.3") == "changed: noise: 0.2 -> 0.3"
    assert why("seed=1") == "changed: seed: 0 -> 1"


def test_too_deep_is_said_before_anything_is_clustered(undisturbed):
    _, _, path = undisturbed
    with pytest.raises(ConfigError, match="depth 9 is too deep for 300 samples") as caught:
        decide.plan(config.load(path, ["group={rule: kmeans, depth: 9}"]))
    assert caught.value.fix == "a depth of at most 8"


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"rule": "kmeans"}, "rule kmeans needs `depth`"),
        ({"rule": "kmeans", "depth": 3, "size": 4}, "rule kmeans takes no `size`"),
        ({"rule": "kmeans", "depth": 3, "file": "x"}, "rule kmeans takes no `file`"),
        ({"rule": "random", "size": 4, "depth": 3}, "rule random takes no `depth`"),
        ({"rule": "random", "size": 4, "noise": 0.5}, "rule random takes no `noise`"),
        ({"rule": "given", "file": "x", "noise": 0.0}, "rule given takes no `noise`"),
        ({"rule": "given", "size": 4}, "rule given takes no `size`"),
        ({"rule": "kmeans", "depth": -1}, "greater than or equal to 0"),
        ({"rule": "kmeans", "depth": 3, "noise": -0.1}, "greater than or equal to 0"),
        ({"rule": "kmeans", "depth": 3, "noise": float("nan")}, "noise"),
    ],
)
def test_options_go_with_their_rule(params, says):
    with pytest.raises(ValidationError, match=says):
        GroupParams(**params)
