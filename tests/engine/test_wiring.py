"""Wiring: which stage gives what to which, and every artifact without a source told at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from xpipe.engine.wiring import wire
from xpipe.errors import ConfigError
from xpipe.stages import STAGES, Params, Stage


class Switch(Params):
    on: bool = True
    gives: tuple[str, ...] = ()


def stage(name: str, section: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = (), **more) -> Stage:
    return Stage(
        name=name,
        section=section,
        version=1,
        reads=reads,
        writes=writes,
        params=Switch,
        run=lambda context: None,
        **more,
    )


SMALL = (
    stage("synth", "data", (), ("source",), enabled=lambda params: params.on),
    stage("read", "data", ("source?",), ("features", "labels", "groups"), provides=lambda params: params.gives),
    stage("group", "group", ("labels",), ("groups",)),
    stage("emit", "emit", ("features", "assigned|groups+names|labels", "labels?"), ("datasets",)),
)


def pipeline(**sections) -> SimpleNamespace:
    return SimpleNamespace(name="p", **{"data": None, "group": None, "emit": None, **sections})


def takes(steps) -> dict[str, dict]:
    return {step.stage.name: step.takes for step in steps}


def test_each_stage_takes_from_the_latest_that_writes():
    read = Switch(gives=("features", "labels", "groups", "names"))
    steps = wire(pipeline(data=read, group=Switch(), emit=Switch()), SMALL)
    assert takes(steps) == {
        "synth": {},
        "read": {"source": "synth"},
        "group": {"labels": "read"},
        "emit": {"features": "read", "groups": "group", "names": "read", "labels": "read"},
    }
    assert steps[1].gives == ("features", "labels", "groups", "names")
    assert steps[2].gives == ("groups",)
    assert steps[1].params is read


def test_what_is_off_or_optional_may_be_absent():
    steps = wire(pipeline(data=Switch(on=False, gives=("features", "labels")), emit=Switch()), SMALL)
    assert takes(steps) == {"read": {}, "emit": {"features": "read", "labels": "read"}}


def test_an_alternative_needs_all_its_parts():
    """Groups without names are not enough: the next alternative is taken."""
    steps = wire(pipeline(data=Switch(gives=("features", "groups", "labels")), emit=Switch()), SMALL)
    assert takes(steps)["emit"] == {"features": "read", "labels": "read"}


def test_every_missing_artifact_is_told_at_once():
    with pytest.raises(ConfigError, match="pipeline 'p' cannot be wired") as caught:
        wire(pipeline(data=Switch(gives=("names",)), group=Switch(), emit=Switch()), SMALL[1:])
    assert caught.value.why.split("; stage ") == [
        "stage group reads labels, but the stages before it give names; sections that can give it: data",
        "emit reads features, but the stages before it give groups, names; sections that can give it: data",
    ]


def test_what_a_stage_needs_may_depend_on_its_params():
    def needs(params):
        return ("labels",) if params.on else ("heads", "names?")

    verify = stage("verify", "verify", ("labels?", "heads?", "names?"), needs=needs, instead="or give weights")
    read = Switch(gives=("labels", "names"))
    steps = wire(pipeline(data=read, verify=Switch()), (*SMALL, verify))
    assert takes(steps)["verify"] == {"labels": "read"}
    with pytest.raises(ConfigError) as caught:
        wire(pipeline(data=read, verify=Switch(on=False)), (*SMALL, verify))
    assert caught.value.why == "stage verify reads heads, but the stages before it give labels, names, source; " + (
        "or give weights"
    )


def test_a_missing_artifact_that_nobody_gives():
    with pytest.raises(ConfigError) as caught:
        wire(pipeline(emit=Switch()), (stage("emit", "emit", ("moon|sun+stars",)),))
    assert caught.value.why == "stage emit reads moon or sun and stars, but the stages before it give nothing"


def test_a_pipeline_without_stages():
    with pytest.raises(ConfigError) as caught:
        wire(pipeline(), SMALL)
    assert caught.value.why == "it has no stage: add at least a `data` section"


def test_the_real_stages_can_be_told_apart():
    names = [each.name for each in STAGES]
    assert len(set(names)) == len(names)
    for each in STAGES:
        assert issubclass(each.params, Params)
        assert set(each.exports) <= set(each.writes)
        assert each.version >= 1


def test_params_are_closed_and_do_not_change():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Switch(off=True)
    with pytest.raises(ValidationError, match="frozen"):
        Switch().on = False
