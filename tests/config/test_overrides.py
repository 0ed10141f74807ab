"""Overrides of pipeline files: `--set group.size=10`."""

from __future__ import annotations

import pytest

from tests.config.small_stages import STAGES, EmitParams, mistakes
from xpipe.config.pipeline_file import load


def test_overrides(write):
    path = write("name: a\ngroup: {rule: random, size: 4}\ncluster: none\n")
    overrides = ["group.size=10", "data.dir=/x=y", "emit.formats=[xmc]", "cluster.workers=3", "name=b", "group.size=11"]
    pipeline = load(path, overrides, STAGES)
    assert pipeline.group.size == 11  # the last one wins
    assert pipeline.data.dir == "/x=y"
    assert pipeline.emit.formats == ["xmc"]
    assert (pipeline.cluster.kind, pipeline.cluster.workers) == ("none", 3)
    assert pipeline.out == "runs/b"


def test_overrides_switch_stages(write):
    path = write("name: a\ngroup: {rule: given}\nemit: null\n")
    assert load(path, ["group=null"], STAGES).group is None
    assert load(path, ["emit="], STAGES).emit == EmitParams()
    assert load(path, ["emit.note=x"], STAGES).emit == EmitParams(note="x")
    assert load(path, ["cluster=tcp://h:1"], STAGES).cluster.kind == "tcp://h:1"
    assert load(path, ["group={rule: random, size: 2}"], STAGES).group.size == 2


def test_override_mends_a_mistake_of_the_file(write):
    path = write("name: a\ngroup: {rule: randm, wrong: 3}\n")
    assert load(path, ["group={rule: given}"], STAGES).group.rule == "given"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("group.size=ten", "`group.size` must be a whole number of at least 1, got 'ten'"),
        ("group.sise=10", "`group.sise` must be one of the keys rule, size; did you mean `size`?"),
        (
            "grup.size=10",
            "`grup` must be one of the keys name, seed, cluster, backend, out, store, matrix, data, group, emit; "
            "did you mean `group`?",
        ),
        ("seed.size=10", "`seed` must be a section to have the key size, got 3"),
        ("emit.formats.0=xmc", '`emit.formats` must be a section to have the key 0, got ["xmc"]'),
        ("group.size", "an override must look like group.size=10"),
        ("=3", "an override must look like group.size=10"),
        ("group..size=3", "an override must look like group.size=10"),
        ("group={rule: random}", "`group` is not right: rule random needs `size`, for example size: 4"),
        ("emit={formats: [no]}", "`emit.formats[0]` must be one of parquet, xmc, got 'no'"),
        ("data.dir=!x y", "`data.dir` must be a plain value, got the tag '!x'"),
        ("data={dir: a, dir: b}", "`data.dir` must be given once, got it at --set data={dir: a, dir: b} already"),
    ],
)
def test_wrong_override_names_itself(write, override, expected):
    path = write("name: a\nseed: 3\ngroup: {rule: random, size: 4}\nemit: {formats: [xmc]}\n")
    assert mistakes(path, override) == [f"--set {override}: {expected}"]


def test_override_that_is_not_yaml(write):
    (line,) = mistakes(write("name: a\n"), "emit.formats=[xmc")
    assert line.startswith("--set emit.formats=[xmc: `emit.formats` must be YAML, got '[xmc': ")


def test_section_made_by_an_override_is_blamed_on_it(write):
    assert mistakes(write("name: a\n"), "group.size=3") == [
        "--set group.size=3: `group.rule` must be given: one of random, given"
    ]
