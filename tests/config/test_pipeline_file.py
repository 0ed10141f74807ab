"""Pipeline files: every kind of mistake with its exact line, all at once; overrides; short forms.

Uses small stages of its own, so that new options of the real ones change nothing here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, field_validator, model_validator

from xpipe.config.pipeline_file import Pipeline, load
from xpipe.errors import ConfigError
from xpipe.stages import Params, Stage

ROOT = Path(__file__).parents[2]


class DataParams(Params):
    name: str | None = None
    dir: str | None = None
    if_missing: Literal["error", "synthesize"] = "error"
    base: Literal[0, 1] = 0
    rate: float = Field(default=0.5, gt=0, lt=1)
    shuffle: bool = False


class GroupParams(Params):
    rule: Literal["random", "given"]
    size: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _size(self):
        if self.rule == "random" and self.size is None:
            raise ValueError("rule random needs `size`, for example size: 4")
        return self


class EmitParams(Params):
    formats: list[Literal["parquet", "xmc"]] = Field(default=["parquet"])
    cuts: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5)
    note: str | int = ""
    extra: dict[str, int] = Field(default={})
    order: str = "id"

    @field_validator("order")
    @classmethod
    def _order(cls, order: str) -> str:
        if order not in ("id", "frequency"):
            raise ValueError("must be id or frequency")
        return order


def _stage(name: str, section: str, params: type[Params]) -> Stage:
    return Stage(name=name, section=section, version=1, reads=(), writes=(), params=params, run=lambda context: None)


STAGES = (_stage("read", "data", DataParams), _stage("group", "group", GroupParams), _stage("emit", "emit", EmitParams))


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write p.yaml into the current directory."""
    monkeypatch.chdir(tmp_path)

    def put(text: str | bytes) -> str:
        (tmp_path / "p.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return "p.yaml"

    return put


def mistakes(path: str, *overrides: str) -> list[str]:
    """The listed lines of the error that loading gives."""
    with pytest.raises(ConfigError) as caught:
        load(path, overrides, STAGES)
    assert caught.value.exit_code == 2
    return [line.strip() for line in caught.value.what.splitlines()[1:]]


def failure(path: str) -> ConfigError:
    """The error of a file that is no mapping of YAML at all."""
    with pytest.raises(ConfigError) as caught:
        load(path, (), STAGES)
    return caught.value


# ---------------------------------------------------------------- right files


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


def test_yaml_of_version_1_2(write):
    text = "name: on\ndata: {name: no, dir: 12:30, rate: 1e-3, shuffle: true, base: 1}\nemit: {note: 2024-01-01}\n"
    pipeline = load(write(text), stages=STAGES)
    assert pipeline.name == "on"
    assert pipeline.data == DataParams(name="no", dir="12:30", rate=0.001, shuffle=True, base=1)
    assert pipeline.emit.note == "2024-01-01"


def test_aliases_bom_and_crlf(write):
    text = "\ufeffname: a\r\ndata: &d {dir: x}\r\nemit: {formats: &f [xmc], note: hi}\r\n"
    assert load(write(text), stages=STAGES).emit.formats == ["xmc"]
    assert load(write("name: &n a\ndata: {name: *n}\n"), stages=STAGES).data.name == "a"


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


# ---------------------------------------------------------------- wrong values, one by one


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
    expected = "p.yaml:1: the pipeline is not right: `store` must be another folder than `out`, which is 'runs/a'"
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


# ---------------------------------------------------------------- all at once, each with its line


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


# ---------------------------------------------------------------- not YAML


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("name: a\ndata: {dir: x\nseed: 0\n", "p.yaml:3:5", "flow mapping"),
        ("name: a\ndata:\n\tdir: x\n", "p.yaml:3:1", "a tab stands where YAML allows only spaces"),
        ("name: 'a\n", "p.yaml:2:1", "quoted scalar"),
        ("name: a\n---\nname: b\n", "p.yaml:2:1", "another document"),
        ("name: *nowhere\n", "p.yaml:1:7", "undefined alias"),
        ("name: a\nout: b\x00c\n", "p.yaml:2:7", r"'\x00' is not allowed"),
        ("name: a\n  seed: 1\n", "p.yaml:2:7", "mapping values are not allowed here"),
        (b"name: a\nout: \xff\xfe\n", "p.yaml:2", "invalid start byte"),
        ("", "p.yaml:1", ""),
        ("# nothing\n", "p.yaml:1", ""),
        ("\n- a\n- b\n", "p.yaml:2", ""),
        ("just words\n", "p.yaml:1", ""),
    ],
)
def test_not_yaml_or_no_mapping(write, text, where, why):
    error = failure(write(text))
    assert error.where == where
    assert why in error.why
    assert error.fix


def test_alias_bombs_and_loops_end(write):
    bomb = "name: a\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    assert "alias" in failure(write(bomb)).why
    assert "alias" in failure(write("name: a\ndata: &d {dir: *d}\n")).why
    assert "levels" in failure(write("name: " + "[" * 20_000)).fix


def test_file_that_is_not_there(write, tmp_path):
    write("name: a\n")
    error = failure("pp.yaml")
    assert error.where == "pp.yaml"
    assert error.why == "No such file or directory; did you mean `p.yaml`?"
    assert "Is a directory" in failure(str(tmp_path)).why
    assert "No such file" in failure("no/such/folder/p.yaml").why


# ---------------------------------------------------------------- overrides


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


# ---------------------------------------------------------------- for others


def test_import_stays_light():
    heavy = ("numpy", "dask", "numba", "pyarrow", "rich")
    code = f"import sys, xpipe.config.pipeline_file; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
