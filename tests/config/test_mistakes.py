"""Mistakes in pipeline files: every kind with its exact line, and all at once."""

from __future__ import annotations

import pytest

from tests.config.small_stages import STAGES, mistakes
from xpipe.config.pipeline_file import load
from xpipe.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("seed: -1", "`seed` must be a whole number of at least 0 and of at most 9223372036854775807, got -1"),
        ("seed: true", "`seed` must be a whole number of at least 0 and of at most 9223372036854775807, got true"),
        ("seed: 1.0", "`seed` must be a whole number of at least 0 and of at most 9223372036854775807, got 1.0"),
        ("backend: gpuu", "`backend` must be one of auto, cpu, gpu, got 'gpuu'; did you mean `gpu`?"),
        ("backend: [gpu]", '`backend` must be one of auto, cpu, gpu, got ["gpu"]'),
        ("data: 5", "`data` must be a section with the keys name, dir, if_missing, base, rate, shuffle, got 5"),
        ("data: {base: 2}", "`data.base` must be one of 0, 1, got 2"),
        ("data: {base: true}", "`data.base` must be one of 0, 1, got true"),
        ("data: {rate: 1}", "`data.rate` must be a number above 0 and below 1, got 1"),
        ("data: {rate: fast}", "`data.rate` must be a number above 0 and below 1, got 'fast'"),
        ("data: {rate: .inf}", "`data.rate` must be a number above 0 and below 1, got '.inf'"),
        ("data: {rate: 1e999}", "`data.rate` must be a value YAML can hold, got '1e999'"),
        ("data: {shuffle: maybe}", "`data.shuffle` must be true or false, got 'maybe'"),
        ("data: {dir: 7}", "`data.dir` must be a text, got 7; quotes make it a text"),
        ('data: {dir: "\\ud800"}', "`data.dir` must be a value YAML can hold, got '\\ud800'"),
        (
            "data: {if_missing: synthesise}",
            "`data.if_missing` must be one of error, synthesize, got 'synthesise'; did you mean `synthesize`?",
        ),
        ("group: {rule: random, size: 0}", "`group.size` must be a whole number of at least 1, got 0"),
        ("group: {size: 2}", "`group.rule` must be given: one of random, given"),
        ("group:", "`group.rule` must be given: one of random, given"),
        ("group: {rule: random}", "`group` is not right: rule random needs `size`, for example size: 4"),
        ("group: {rule: random, siz: 4}", "`group.siz` must be one of the keys rule, size; did you mean `size`?"),
        (
            "sise: 4",
            "`sise` must be one of the keys name, seed, cluster, backend, out, store, matrix, data, group, emit; "
            "did you mean `group.size`?",
        ),
        (
            "grup: {}",
            "`grup` must be one of the keys name, seed, cluster, backend, out, store, matrix, data, group, emit; "
            "did you mean `group`?",
        ),
        (
            "emit: {formats: [xmc, parqet]}",
            "`emit.formats[1]` must be one of parquet, xmc, got 'parqet'; did you mean `parquet`?",
        ),
        ("emit: {formats: xmc}", "`emit.formats` must be a list, each one of parquet, xmc, got 'xmc'"),
        ("emit: {cuts: [3, 0]}", "`emit.cuts[1]` must be a whole number of at least 1, got 0"),
        ("emit: {cuts: 3}", "`emit.cuts` must be a list, each a whole number of at least 1, got 3"),
        ("emit: {note: [1]}", "`emit.note` must be a text or a whole number, got [1]"),
        ("emit: {order: frequncy}", "`emit.order` must be id or frequency, got 'frequncy'; did you mean `frequency`?"),
        ("emit: {<<: x}", "`emit.<<` must be one of the keys formats, cuts, note, extra, order"),
        ("cluster: {workers: 0}", "`cluster.workers` must be a whole number of at least 1, got 0"),
        ("out: !!python/name:os x", "`out` must be a plain value, got the tag 'tag:yaml.org,2002:python/name:os'"),
        ("out: !mine {a: 1}", "`out` must be a plain value, got the tag '!mine'"),
        ("seed: !!int four", "`seed` must be a value YAML can hold, got 'four'"),
        ("? [a, b]\n: c", "the pipeline must have words as keys, got something else"),
    ],
)
def test_wrong_value(write, line, expected):
    assert mistakes(write(f"# a comment\nname: a\n\n{line}\n")) == [f"p.yaml:4: {expected}"]


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "..", "a b", "é", "x" * 101, "a\\n"])
def test_names_that_are_no_folder(write, name):
    (line,) = mistakes(write(f'name: "{name}"\n'))
    assert line.startswith("p.yaml:1: `name` must be up to 100 letters, digits and . _ - that start with a letter")


def test_store_and_out_must_differ(write):
    expected = "p.yaml:2: the pipeline is not right: `store` must be another folder than `out`, which is 'runs/a'"
    assert mistakes(write("name: a\nstore: ./runs/a\n")) == [expected]


def test_name_missing(write):
    (line,) = mistakes(write("\n\nseed: 1\n"))
    assert line.startswith("p.yaml:3: `name` must be given: up to 100 letters")


def test_type_without_words_uses_pydantics(write):
    (line,) = mistakes(write("name: a\nemit:\n  extra: {k: x}\n"))
    assert line.startswith("p.yaml:3: `emit.extra` is not right: Input should be a valid integer")


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("{kind: locl}", "kind"),
        ("locl", "kind"),
        ("{memory_limit: lots}", "memory_limit"),
        ("{task_timeout: -1s}", "task_timeout"),
    ],
)
def test_wrong_cluster(write, section, key):
    (line,) = mistakes(write(f"name: a\ncluster: {section}\n"))
    assert line.startswith(f"p.yaml:2: `cluster.{key}` must be ")
    assert ("did you mean `local`?" in line) == (key == "kind")


def test_long_values_are_cut(write):
    (line,) = mistakes(write(f"name: a\nbackend: {'x' * 5000}\n"))
    assert len(line) < 150


def test_all_mistakes_at_once_in_the_order_of_the_file(write):
    text = """\
name: a
sed: 3
data:
  dirr: x
  if_missing: never
group:
  rule: random
  size:
    -1
emit: {formats:
  [parquet,
   xcm]}
emit: {}
data: {dir: y}
"""
    found = mistakes(write(text), "backend=tpu", "group.sized=3", "nonsense")
    assert [line.split(" ", 2)[:2] for line in found[:7]] == [
        ["p.yaml:2:", "`sed`"],
        ["p.yaml:4:", "`data.dirr`"],
        ["p.yaml:5:", "`data.if_missing`"],
        ["p.yaml:8:", "`group.size`"],
        ["p.yaml:12:", "`emit.formats[1]`"],
        ["p.yaml:13:", "`emit`"],
        ["p.yaml:14:", "`data`"],
    ]
    assert found[5] == "p.yaml:13: `emit` must be given once, got it at p.yaml:10 already"
    assert {line.split(": ")[0] for line in found[7:]} == {"--set backend=tpu", "--set group.sized=3", "--set nonsense"}
    assert len(found) == 10


def test_message_counts_and_ends_with_an_action(write):
    with pytest.raises(ConfigError, match=r"the pipeline p\.yaml has 2 mistakes:\n(.|\n)*try: .*xpipe plan p\.yaml"):
        load(write("name: a\nx: 1\ny: 2\n"), stages=STAGES)
    with pytest.raises(ConfigError, match="has a mistake:"):
        load(write("name: a\n"), ["x=1"], STAGES)


def test_duplicate_key_inside_a_section(write):
    (line,) = mistakes(write("name: a\ndata:\n  dir: x\n  base: 1\n  dir: y\n"))
    assert line == "p.yaml:5: `data.dir` must be given once, got it at p.yaml:3 already"
