"""What runs leave for people: results.json and table.json of any shape end in a table or in an error that teaches."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from click.testing import CliRunner

from tests.samples import clean_store, run_pipeline, write_dataset, write_pipeline
from xpipe.cli.main import cli
from xpipe.engine import results
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground.checked_json import dump_json

SHAPES = (
    b"", b"{", b"null", b"3", b"[]", b"[1]", b'"x"', b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000,
    b'{"stages": null}', b'{"stages": 3}', b'{"stages": [3]}', b'{"stages": [{}]}', b'{"stages": {"a": 1}}',
    b'{"stages": [{"stage": 3, "key": 4}]}', b'{"outputs": {"../../x": {}}}', b'{"outputs": [1]}',
    b'{"stages": [], "outputs": {"x": null}}', b'{"seconds": ' + b"9" * 5000 + b"}", b'{"seconds": 1e999}',
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    path = write_pipeline(folder, write_dataset(folder / "data"))
    run_pipeline(path)
    return path, folder / "runs" / "sample"


def changes(content):
    """The same with one value, at any place, replaced by something of another shape."""
    yield from (None, 3, "x", [], {}, -1, True, [[]], {"a": {}})
    if isinstance(content, dict):
        for key in content:
            yield {name: value for name, value in content.items() if name != key}
            for changed in changes(content[key]):
                yield content | {key: changed}
    elif isinstance(content, list) and content:
        for changed in changes(content[0]):
            yield [changed, *content[1:]]


def invoke(*arguments) -> None:
    """Run a command in this process; only errors that teach may come out."""
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if found.exception is not None and not isinstance(found.exception, XpipeError | SystemExit):
        raise found.exception


@pytest.mark.parametrize("shape", SHAPES)
def test_strange_results_are_told_by_show_and_clean_and_rewritten_by_run(finished, shape):
    path, out = finished
    whole = (out / "results.json").read_bytes()
    try:
        (out / "results.json").write_bytes(shape)
        with pytest.raises(DataError) as caught:
            results.read_results(str(out))
        assert caught.value.where == str(out / "results.json")
        invoke("show", out)
        with contextlib.suppress(DataError):  # where the stages it uses cannot be told
            clean_store(str(out.parent), dry_run=True)
        assert {stage["status"] for stage in run_pipeline(path)["stages"]} == {"cached"}
        assert json.loads((out / "results.json").read_bytes())["name"] == "sample"
        assert results.read_results(str(out))["stages"]
    finally:
        (out / "results.json").write_bytes(whole)


def test_show_of_results_with_anything_in_them(finished, tmp_path):
    content = json.loads((finished[1] / "results.json").read_text())
    del content["pipeline"], content["versions"], content["written"]
    for stage in content["stages"]:
        del stage["ingredients"], stage["digests"]
    for changed in changes(content):
        (tmp_path / "results.json").write_bytes(dump_json(changed))
        invoke("show", tmp_path)


@pytest.mark.parametrize("name", ["results.json", "table.json"])
@pytest.mark.parametrize("thing", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/passwd", path)])
def test_show_of_something_else(tmp_path, name, thing):
    thing(tmp_path / name)
    found = CliRunner().invoke(cli, ["show", str(tmp_path)])
    assert isinstance(found.exception, DataError)


def test_show_of_a_matrix(tmp_path):
    table = {
        "name": "mine", "keys": ["group"], "synthetic": False, "out": "runs/mine/table.json",
        "rows": [{"values": {"group": "random 4"}, "labels": {"f1": 0.5, "precision": 0.25, "recall": 0.75},
                  "model": {"name": "tree", "precision": [50.0, 40.0, 30.0]}, "verified": {}}],
    }  # fmt: skip
    (tmp_path / "table.json").write_bytes(dump_json(table))
    shown = CliRunner().invoke(cli, ["show", str(tmp_path)])
    assert shown.exception is None
    for word in ("mine", "random 4", "0.250", "50.00", "table.json"):  # without a format: percent by rank
        assert word in shown.output
    table["format"], table["rows"][0]["model"]["precision"] = results.FORMAT, [0.5, 0.4, 0.3]
    (tmp_path / "table.json").write_bytes(dump_json(table))
    assert CliRunner().invoke(cli, ["show", str(tmp_path)]).output == shown.output
    for changed in changes(table):
        (tmp_path / "table.json").write_bytes(dump_json(changed))
        invoke("show", tmp_path)


def test_no_results_at_all(tmp_path):
    found = CliRunner().invoke(cli, ["show", str(tmp_path)])
    assert isinstance(found.exception, ConfigError)
