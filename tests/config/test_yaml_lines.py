"""The YAML of pipeline files: version 1.2, and files that are no YAML, no mapping, or not there."""

from __future__ import annotations

import pytest

from tests.config.small_stages import STAGES, DataParams, failure
from xpipe.config.pipeline_file import load


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
