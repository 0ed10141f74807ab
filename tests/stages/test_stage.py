"""What a key is made of: parameters as they were set, the backend and the libraries where they decide bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import create_model

from tests.samples import run_pipeline, write_dataset, write_pipeline
from xpipe import config
from xpipe.engine import decide
from xpipe.engine.manifest import Artifact, content_key
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Stage
from xpipe.engine.store import Store
from xpipe.engine.wiring import Step
from xpipe.errors import BackendError
from xpipe.ground.backend import Backend, Probe
from xpipe.stages import STAGES, Params
from xpipe.stages.assign.stage import STAGE as ASSIGN
from xpipe.stages.assign.stage import AssignParams
from xpipe.stages.embed.stage import STAGE as EMBED
from xpipe.stages.embed.stage import EmbedParams
from xpipe.stages.emit.stage import STAGE as EMIT
from xpipe.stages.emit.stage import EmitParams
from xpipe.stages.evaluate.stage import STAGE as EVALUATE
from xpipe.stages.evaluate.stage import EvaluateParams
from xpipe.stages.group.stage import GroupParams
from xpipe.stages.read.stage import DataParams
from xpipe.stages.report.params import ReportParams
from xpipe.stages.train_heads.params import HeadParams
from xpipe.stages.train_heads.stage import STAGE as TRAIN_HEADS
from xpipe.stages.train_trees.params import TrainParams, TreeParams
from xpipe.stages.train_trees.stage import STAGE as TRAIN
from xpipe.stages.vectorize.params import VectorizeParams
from xpipe.stages.verify.stage import STAGE as VERIFY
from xpipe.stages.verify.stage import VerifyParams

CPU, GPU = Backend("cpu", "asked for", "cpu"), Backend("gpu", "a stand-in", "gpu")


class OneParams(Params):
    size: int = 4
    cuts: tuple[int, ...] = ()
    file: str | None = None


ONE = Stage("one", "one", 1, (), ("thing",), OneParams, run=lambda context: None)


def ingredients_of(stage, params, tmp_path, backend=CPU, inputs=()):
    made = SimpleNamespace(artifacts=dict(inputs))
    step = Step(stage, params, dict.fromkeys(dict(inputs), "before"), ())
    return decide.decide(step, {"before": made}, Store(str(tmp_path)), 0, {}, backend).ingredients


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_that_exports_names_its_outputs(stage):
    assert bool(stage.exports) == bool(stage.outputs)
    assert set(stage.exports) <= set(stage.writes)
    assert all(name and "/" not in name for name in stage.outputs)


def test_canonical_params_are_sorted_json_without_unset_ones():
    params = canonical_params(OneParams(cuts=(3, 4)))
    assert list(params) == sorted(params)
    assert json.loads(json.dumps(params)) == params
    assert params["cuts"] == [3, 4]
    assert "file" not in params
    assert canonical_params(OneParams(file="x"), leave_out=("file",)) == canonical_params(OneParams())


def test_a_new_option_keeps_the_keys_of_those_who_do_not_set_it(tmp_path):
    grown = create_model("GrownParams", __base__=OneParams, extra=(int | None, None))
    before = ingredients_of(ONE, OneParams(), tmp_path)
    stage = replace(ONE, params=grown)
    assert content_key(ingredients_of(stage, grown(), tmp_path)) == content_key(before)
    assert decide.differences(before, ingredients_of(stage, grown(extra=3), tmp_path)) == ["extra: None -> 3"]


# Every real section, and whatever its stages need for an identity.

ROWS = Artifact("x", "nowhere", "0" * 64, (), {"rows": {"train": 300, "test": 80}, "n_columns": 9, "part_rows": 32})
TABLE = DataParams(train="DATA/table.csv", text="text", labels="labels", label_names="DATA/table.csv", holdout=0.1)
SECTIONS = {
    "data": [DataParams(name="tiny", if_missing="synthesize"), DataParams(dir="DATA", on_bad_row="drop"), TABLE],
    "vectorize": [VectorizeParams()],
    "group": [
        GroupParams(rule="random", size=4),
        GroupParams(rule="kmeans", depth=2),
        GroupParams(rule="given", file="DATA/labels.txt"),
    ],
    "embed": [EmbedParams(), EmbedParams(method="eagle0")],
    "assign": [AssignParams(method=m) for m in ("auto", "baseline", "eagle0", "eagle", "centred", "discriminative")],
    "emit": [EmitParams()],
    "train": [TrainParams(tree=TreeParams(), heads=[HeadParams(layer="bsl")])],
    "verify": [VerifyParams(), VerifyParams(weights="DATA/labels.txt", radius="exact")],
    "evaluate": [EvaluateParams()],
    "report": [ReportParams()],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_dataset(tmp_path_factory.mktemp("data"))
    (folder / "table.csv").write_text("text,labels,name\na b,c,d\n")
    return folder


def grown_twin(params, value):
    """The same parameters of a class that has one more option, also inside `train`, with this value."""
    kind = type(params)
    given = {name: getattr(params, name) for name in kind.model_fields}
    if kind is TrainParams:
        tree, head = grown_twin(params.tree, value), grown_twin(params.heads[0], value)
        return kind.model_construct(tree=tree, heads=[head])
    return create_model("Grown", __base__=kind, extra=(int | None, None))(**given, extra=value)


CASES = [
    (stage, params)
    for stage in STAGES
    for params in SECTIONS[stage.section]
    if stage.section != "data" or (stage.name == "synth") == (params.if_missing == "synthesize")
]


@pytest.mark.parametrize(("stage", "params"), CASES, ids=lambda case: getattr(case, "name", type(case).__name__))
def test_every_identity_leaves_out_what_is_not_set(stage, params, data, tmp_path):
    changed = {
        name: value.replace("DATA", str(data))
        for name in type(params).model_fields
        if isinstance(value := getattr(params, name), str)
    }
    params = params.model_copy(update=changed)
    inputs = dict.fromkeys(("features", "labels", "datasets", "group_labels"), ROWS)
    own = stage.identity(params, inputs, Store(str(tmp_path)))
    assert json.loads(json.dumps(own)) == own
    assert "null" not in json.dumps(own)
    assert str(data) not in json.dumps(own)
    assert stage.identity(grown_twin(params, None), inputs, Store(str(tmp_path))) == own
    found = stage.identity(grown_twin(params, 3), inputs, Store(str(tmp_path)))
    if stage.name != "synth":  # what it writes depends on the dataset's name alone
        assert found != own
        assert "extra" in json.dumps(found)


@pytest.mark.parametrize(
    ("stage", "params", "uses"),
    [
        (EMBED, EmbedParams(), True),
        (ASSIGN, AssignParams(method="auto"), True),
        (ASSIGN, AssignParams(method="eagle"), True),
        (ASSIGN, AssignParams(method="centred"), True),
        (ASSIGN, AssignParams(method="baseline"), False),
        (ASSIGN, AssignParams(method="discriminative"), True),
        (VERIFY, VerifyParams(), True),
        (VERIFY, VerifyParams(radius="exact"), False),
        (EMIT, EmitParams(), False),
        (TRAIN_HEADS, TrainParams(heads=[HeadParams(layer="bsl")]), True),
        (TRAIN, TrainParams(), False),
        (EVALUATE, EvaluateParams(), False),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_the_backend_is_in_the_key_where_it_decides_bytes(stage, params, uses, tmp_path):
    plain = replace(stage, estimate=lambda params, inputs: None)
    on_cpu, on_gpu = (ingredients_of(plain, params, tmp_path, backend) for backend in (CPU, GPU))
    assert decide.differences(on_cpu, on_gpu) == (["backend: cpu -> gpu"] if uses else [])
    assert ("backend" in on_cpu) == uses


def test_plan_and_run_choose_the_same_keys(data, tmp_path, monkeypatch):
    path = write_pipeline(tmp_path, data, "embed: {}\n")
    checked = config.load(path, ["backend=auto"])
    monkeypatch.setattr(decide, "choose", lambda requested: {"auto": GPU, "cpu": CPU}[requested])
    wanted = config.load(path, ["backend=cpu"])
    results = run_pipeline(path)  # on the CPU
    keys = {stage["stage"]: stage["key"] for stage in results["stages"]}
    assert {decision.step.stage.name: decision.key for decision in decide.plan(wanted)} == keys
    why = {decision.step.stage.name: decision.why for decision in decide.plan(checked)}
    assert why["embed"] == "changed: backend: cpu -> gpu"
    assert why["group"] == "same data, parameters and version"
    assert why["emit"] == "embed must run first"


def test_plan_refuses_a_gpu_that_is_not_there_as_run_does(data, tmp_path, monkeypatch):
    monkeypatch.setattr("xpipe.ground.backend.probe", lambda: Probe(False, "none here"))
    with pytest.raises(BackendError, match="no GPU can be used"):
        decide.plan(config.load(write_pipeline(tmp_path, data), ["backend=gpu"]))


def test_another_release_of_a_library_makes_another_key(tmp_path, monkeypatch):
    stage = replace(ONE, libraries=("numpy", "not-installed-here"))
    before = ingredients_of(stage, OneParams(), tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "99")
    after = ingredients_of(replace(stage, libraries=("numpy",)), OneParams(), tmp_path)
    assert list(before["libraries"]) == ["numpy"]
    assert decide.differences(before, after) == [f"libraries.numpy: {before['libraries']['numpy']} -> 99"]


def test_emit_tells_its_release_and_is_keyed_by_it(tmp_path, monkeypatch):
    before = EMIT.identity(EmitParams(), {}, None)
    monkeypatch.setattr("xpipe.ground.release.__version__", "99.0")
    assert EMIT.identity(EmitParams(), {}, None) == {**before, "xpipe": "99.0"}
