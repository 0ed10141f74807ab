"""Stores of earlier runs stay cached: what the keys of all stages are made of is written down in ingredients.json.

Digests of data and releases of libraries differ between machines, so they are compared by name only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.every_stage import run_all
from xpipe import __version__

WRITTEN = Path(__file__).with_name("ingredients.json")


def compared(ingredients: dict) -> dict:
    found = {**ingredients, "inputs": sorted(ingredients["inputs"]), "libraries": sorted(ingredients["libraries"])}
    if "xpipe" in found["params"]:
        assert found["params"]["xpipe"] == __version__
        found["params"] = {name: value for name, value in found["params"].items() if name != "xpipe"}
    return found


def test_keys_are_made_of_what_they_were_made_of(tmp_path):
    """Who changes a version, a default or an input of a stage on purpose changes ingredients.json too."""
    pytest.importorskip("safetensors")
    run_all(tmp_path, tmp_path, "none", ["everything"])
    stages = json.loads((tmp_path / "runs" / "everything" / "results.json").read_text())["stages"]
    assert {stage["stage"]: compared(stage["ingredients"]) for stage in stages} == json.loads(WRITTEN.read_text())
