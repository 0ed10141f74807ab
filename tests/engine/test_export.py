"""Outputs in the run folder: laid out whole, taken away when stale, and nothing else is ever touched."""

from __future__ import annotations

import json
import os

import pytest

from tests.engine.test_store import STRANGE, strange_entries
from tests.engine.test_store import put as put_stored
from tests.samples import bytes_below, run_pipeline, write_dataset, write_pipeline
from xpipe.engine import export as exporting
from xpipe.engine.export import export, written
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry
from xpipe.engine.run_record import close_journal, read_record
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json


class Killed(BaseException):
    pass


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def make(tmp_path):
    """Artifacts with these files, {path in the run folder: content}."""
    count = iter(range(1000))

    def artifact(contents: dict[str, bytes]) -> list[Artifact]:
        folder = str(tmp_path / "store" / f"emit-{next(count)}")
        entries = [put_stored(folder, f"datasets/{path}", content) for path, content in contents.items()]
        return [Artifact("datasets", folder, "0" * 64, tuple(entries), {})]

    return artifact


def finish(artifacts, out, tell=print) -> dict:
    """As a run does it."""
    outputs = export(artifacts, str(out), tell)
    content = {"stages": [], "outputs": outputs, "written": [entry.to_json() for entry in written(artifacts)]}
    files.write_bytes(str(out / "results.json"), dump_json(content))
    close_journal(str(out))
    return outputs


def below(folder) -> dict[str, str]:
    return {path: text.decode() for path, text in bytes_below(folder).items()}


FIRST = {"tree/a": b"a1", "tree/deep/b": b"b1", "report.json": b"r1"}
SECOND = {"tree/a": b"a2", "tree/c": b"c2"}


def text(contents) -> dict[str, str]:
    return {path: content.decode() for path, content in contents.items()}


def test_outputs_are_laid_out_and_replaced(out, make):
    outputs = finish(make(FIRST), out)
    assert outputs["tree"] == {"path": str(out / "tree"), "files": 2, "bytes": 4}
    assert below(out) == text(FIRST)
    finish(make(SECOND), out)
    assert below(out) == text(SECOND)
    assert sorted(os.listdir(out)) == ["results.json", "tree"]


def test_what_is_in_place_is_not_touched(out, make):
    artifacts = make(FIRST)
    finish(artifacts, out)
    before = os.stat(out / "tree").st_ino
    finish(artifacts, out)
    assert os.stat(out / "tree").st_ino == before


@pytest.mark.parametrize("name", ["../../x", "..", "/tmp/x", "notes", "results.json", ".lock", "kept", ""])
@pytest.mark.parametrize("value", [{}, None, 3, {"files": 1, "bytes": 1, "path": "x"}, [1]])
def test_results_that_name_anything_remove_nothing(out, make, tmp_path, name, value):
    for folder in (tmp_path / "x", out / "notes", out / "kept"):
        folder.mkdir(parents=True)
        (folder / "mine.txt").write_text("mine")
    (out / "results.json").write_bytes(dump_json({"outputs": {name: value}, "stages": []}))
    finish(make(FIRST), out)
    for folder in (tmp_path / "x", out / "notes", out / "kept"):
        assert (folder / "mine.txt").read_text() == "mine"


def test_a_record_of_any_other_shape_removes_nothing(out, make, tmp_path):
    (tmp_path / "p").write_text("mine")
    (out / "x").mkdir()
    (out / "x" / "p").write_text("mine")
    artifacts = make(FIRST)
    for content in [*STRANGE, *({"written": value} for value in (*STRANGE, *([entry] for entry in strange_entries())))]:
        for name in ("results.json", ".written.json"):
            (out / name).write_bytes(dump_json(content))
        finish(artifacts, out)
        assert (tmp_path / "p").read_text() == (out / "x" / "p").read_text() == "mine"


def test_only_files_as_they_were_written_are_taken_away(out, make):
    finish(make({"notes/a": b"1", "notes/b": b"2", "other": b"3"}), out)
    os.unlink(out / "notes" / "b")
    (out / "notes" / "b").write_bytes(b"my own")
    (out / "notes" / "mine.txt").write_text("mine")
    told = []
    finish(make(SECOND), out, told.append)
    assert below(out) == {**text(SECOND), "notes/b": "my own", "notes/mine.txt": "mine"}
    assert len(told) == 1
    assert "notes/b" in told[0]


def test_own_files_beside_outputs_stay(out, make):
    finish(make(FIRST), out)
    (out / "tree" / "mine.txt").write_text("mine")
    (out / "tree" / "deep" / "link").symlink_to("/etc")
    finish(make(SECOND), out)
    assert below(out) == {**text(SECOND), "tree/mine.txt": "mine"}
    assert (out / "tree" / "deep" / "link").is_symlink()


def test_what_is_in_the_way_is_moved_and_told(out, make):
    (out / "tree" / "a").mkdir(parents=True)
    (out / "tree" / "a" / "mine").write_text("mine")
    (out / "report.json").write_text("my report")
    (out / "kept").mkdir()
    (out / "kept" / "report.json").write_text("my first report")
    told = []
    finish(make(FIRST), out, told.append)
    expected = {"kept/tree/a/mine": "mine", "kept/report.json-2": "my report", "kept/report.json": "my first report"}
    assert below(out) == text(FIRST) | expected
    assert len(told) == 1
    assert "moved to kept/" in told[0]


@pytest.mark.parametrize("name", ["tree", "report.json", "results.json", ".written.json"])
def test_links_are_neither_followed_nor_lost(out, make, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_text("mine")
    (out / name).symlink_to(elsewhere)
    finish(make(FIRST), out, lambda text: None)
    finish(make(SECOND), out, lambda text: None)
    assert (out / "tree" / "a").read_text() == "a2"
    assert below(elsewhere) == {"a": "mine"}
    assert os.readlink(out / "kept" / name) == str(elsewhere)


def test_a_stale_output_behind_a_link_stays(out, make, tmp_path):
    finish(make(FIRST), out)
    os.rename(out / "tree", tmp_path / "moved")
    (out / "tree").symlink_to(tmp_path / "moved")
    finish(make({"other": b"1"}), out)
    assert below(tmp_path / "moved") == {"a": "a1", "deep/b": "b1"}


@pytest.mark.parametrize("thing", [os.mkdir, os.mkfifo])
def test_something_else_in_the_place_of_results(out, make, thing):
    thing(out / "results.json")
    finish(make(FIRST), out, lambda text: None)
    assert below(out) == text(FIRST)
    assert (out / "kept" / "results.json").exists()


@pytest.mark.parametrize("own", [False, True])
def test_a_kill_at_any_step_loses_nothing_and_leaves_nothing(out, make, monkeypatch, own):
    first, second = make(FIRST), make(SECOND)
    finish(first, out)
    mine = {"tree/mine.txt": "mine"} if own else {}
    names = ["rename", "replace", "link", "unlink", "rmdir", "mkdir"]
    steps = 0
    while True:
        finish(first, out)
        if own:
            (out / "tree" / "mine.txt").write_text("mine")
        left = steps

        def dying(real):
            def step(*arguments, **options):
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return real(*arguments, **options)

            return step

        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(os, name, dying(getattr(os, name)))
            # a process that is killed cleans nothing up
            patch.setattr(files.contextlib, "suppress", lambda *_: pytest.MonkeyPatch.context())
            try:
                finish(second, out)
            except Killed:
                pass
            else:
                break
        if own:
            found = [path for path in out.rglob("mine.txt") if ".tmp" not in str(path)]
            assert [path.read_text() for path in found] == ["mine"], steps
        finish(second, out)
        assert below(out) == text(SECOND) | mine, steps
        assert set(os.listdir(out)) == {"results.json", "tree"}, steps
        steps += 1
    assert steps > 5


def test_a_stored_artifact_that_would_overwrite_what_is_not_an_output(out, make):
    for name in ("results.json", ".lock", "kept/x", ".written.json"):
        with pytest.raises(DataError, match="no output"):
            export(make({name: b"1"}), str(out))
    for path in ("x", "y/tree/a", "tree/a", "xx/a"):  # none of them lies below x/
        with pytest.raises(DataError, match="no output"):
            exporting.outputs_of([Artifact("x", "folder", "", (FileEntry(path, 0, ""),), {})])


def test_remote_outputs(make, tmp_path):
    remote = f"memory://{tmp_path.name}/x"
    files.write_bytes(f"{remote}/tree/a", b"mine")
    told = []
    artifacts = make(FIRST)
    export(artifacts, remote, told.append)
    files.write_bytes(
        f"{remote}/results.json", dump_json({"written": [entry.to_json() for entry in written(artifacts)]})
    )
    close_journal(remote)
    assert len(told) == 1
    assert files.read_bytes(f"{remote}/kept/tree/a") == b"mine"
    export(make(SECOND), remote, told.append)
    close_journal(remote)
    found = {path: files.read_bytes(f"{remote}/{path}") for path in files.walk(remote) if path != "results.json"}
    assert found == SECOND | {"kept/tree/a": b"mine"}
    assert len(read_record(remote)) == 3
    files.remove(remote)


def test_a_cached_run_after_results_were_edited(tmp_path):
    """The whole way: the folder that an edited results.json names is still there."""
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"))
    run_pipeline(path)
    out = tmp_path / "runs" / "sample"
    for folder in (tmp_path / "runs" / "precious", tmp_path / "precious", out / "notes"):
        folder.mkdir()
        (folder / "file").write_text("precious")
    results = json.loads((out / "results.json").read_text())
    results["outputs"] = {"../precious": {}, "../../precious": {}, "notes": {}, "": {}, ".": {}}
    results["written"] += [
        {"path": "../precious/file", "bytes": 8, "sha256": files.sha256(str(out / "notes" / "file"))}
    ]
    (out / "results.json").write_bytes(dump_json(results))
    again = run_pipeline(path)
    assert {stage["status"] for stage in again["stages"]} == {"cached"}
    for folder in (tmp_path / "runs" / "precious", tmp_path / "precious", out / "notes"):
        assert (folder / "file").read_text() == "precious"
