"""The JSON Schema of pipeline files: editors accept what `load` accepts, and refuse the usual mistakes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from xpipe import config
from xpipe.cli.main import cli
from xpipe.config.examples import FOLDER, example_pipelines, find_pipeline
from xpipe.config.schema import pipeline_schema
from xpipe.errors import ConfigError
from xpipe.stages import STAGES

TOP = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def errors_of():
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(pipeline_schema())
    return lambda text: [error.message for error in checker.iter_errors(yaml.safe_load(text))]


def test_every_section_and_key_is_there_with_its_meaning():
    schema = pipeline_schema()
    assert {stage.section for stage in STAGES} <= set(schema["properties"])
    data = schema["$defs"]["DataParams"]["properties"]
    assert data["id"]["description"] == "column that names every row"
    assert "number or category" in data["columns"]["description"]
    assert schema["$defs"]["VectorizeParams"]["properties"]["min_df"]["default"] == 3
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("path", sorted((TOP / "pipelines").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_pipeline_fits_the_schema(path, errors_of):
    assert errors_of(path.read_text()) == []


def test_mistakes_do_not_fit(errors_of):
    assert errors_of("name: a\ncluster: local\ndata: {dir: x}") == []
    assert errors_of("name: a\ndta: {dir: x}")
    assert errors_of("name: a\ndata: {train: 3}")
    assert errors_of("name: a\nvectorize: {norm: l3}")
    assert errors_of("data: {dir: x}")


def test_examples_are_found_by_name_where_no_file_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert set(example_pipelines()) == {path.stem for path in (TOP / "pipelines").glob("*.yaml")}
    assert config.load(find_pipeline("tiny")).name == "tiny"
    (tmp_path / "tiny").write_text("name: own")
    assert config.load(find_pipeline("tiny")).name == "own"
    assert find_pipeline("./eurlex") == "./eurlex"


def test_commands_print_the_schema_and_the_examples():
    shown = CliRunner().invoke(cli, ["schema"])
    assert json.loads(shown.output) == json.loads(json.dumps(pipeline_schema()))
    assert "eurlex_methods" in CliRunner().invoke(cli, ["examples"]).output
    assert CliRunner().invoke(cli, ["examples", "tiny"]).output == (TOP / "pipelines" / "tiny.yaml").read_text()
    with pytest.raises(ConfigError, match="did you mean tiny"):
        CliRunner().invoke(cli, ["examples", "tinny"], catch_exceptions=False)


def test_the_wheel_has_the_pipelines():
    targets = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["force-include"] == {"pipelines": f"xpipe/{FOLDER}"}
