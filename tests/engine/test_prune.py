"""Cleaning: what runs use stays, the rest goes, and nothing goes under a run that is going on."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.engine.test_locks import another_process
from tests.engine.test_store import put
from tests.samples import clean_store, run_pipeline, write_dataset, write_pipeline
from xpipe.engine.locks import StoreLock
from xpipe.engine.messages import Finished
from xpipe.engine.receipts import write_receipt
from xpipe.engine.registry import register
from xpipe.engine.store import Store
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json


@pytest.fixture
def runs(tmp_path):
    """Two runs that share a stage, a stage nobody uses, one unfinished, one with a broken manifest."""
    top = tmp_path / "runs"
    artifacts = Store(str(top / ".store"))
    for stage, key in (
        ("read", "shared"),
        ("emit", "first"),
        ("emit", "second"),
        ("emit", "unused"),
        ("emit", "broken"),
    ):
        folder = artifacts.begin(stage, key)
        artifacts.publish(stage, key, {}, {"x": ([put(folder, "x/p", b"12345")], {})}, {})
    files.write_bytes(files.join(artifacts.folder("emit", "broken"), "manifest.json"), b"{")
    folder = artifacts.begin("group", "unfinished")
    write_receipt(folder, "rows", "a", Finished((put(folder, "x/p", b"123"),), None))
    for run in ("first", "second"):
        stages = [{"stage": "read", "key": "shared"}, {"stage": "emit", "key": run}]
        files.write_bytes(str(top / run / "results.json"), dump_json({"stages": stages}))
        files.write_bytes(str(top / run / "tree" / "part"), b"output")
    files.write_bytes(str(top / "never-finished" / ".lock"), b"")
    files.write_bytes(str(top / "notes.txt"), b"mine")
    return top


ALL = ["emit-broken", "emit-first", "emit-second", "emit-unused", "group-unfinished", "read-shared"]


def stages(runs) -> list[str]:
    return sorted(os.listdir(runs / ".store"))


def outside(runs) -> list[str]:
    return [path for path in files.walk(str(runs)) if not path.startswith(".store/")]


def test_what_runs_use_stays(runs):
    before = outside(runs)
    removed = clean_store(str(runs))
    assert {entry.name: entry.why for entry in removed} == {
        "emit-broken": "unfinished",
        "emit-unused": "no run uses it",
        "group-unfinished": "unfinished",
    }
    assert stages(runs) == ["emit-first", "emit-second", "read-shared"]
    assert outside(runs) == before
    assert clean_store(str(runs)) == []


def test_what_only_a_deleted_run_used_goes(runs):
    shutil.rmtree(runs / "first")
    clean_store(f"file://{runs}")
    assert stages(runs) == ["emit-second", "read-shared"]


def test_everything(runs):
    before = outside(runs)
    removed = clean_store(str(runs), everything=True)
    assert [entry.name for entry in removed] == ALL
    assert {entry.why for entry in removed} == {"asked for"}
    assert stages(runs) == []
    assert outside(runs) == before


@pytest.mark.parametrize("everything", [False, True])
def test_a_dry_run_removes_nothing_and_says_the_same(runs, everything):
    told = clean_store(str(runs), everything=everything, dry_run=True)
    assert stages(runs) == ALL
    for entry in told:
        folder = str(runs / ".store" / entry.name)
        assert entry.bytes == sum(files.size(files.join(folder, path)) for path in files.walk(folder)) > 0
    assert clean_store(str(runs), everything=everything) == told


@pytest.mark.parametrize("run", ["second", "never-finished"])
def test_nothing_goes_while_a_run_is_going_on(runs, run):
    with another_process(str(runs / run)) as holder:
        with pytest.raises(ResourceError, match="another run is writing to") as caught:
            clean_store(str(runs), everything=True)
        assert f"process {holder.pid} " in caught.value.where
        assert stages(runs) == ALL
        holder.communicate()
    clean_store(str(runs))
    assert stages(runs) == ["emit-first", "emit-second", "read-shared"]


def test_a_folder_without_a_store(tmp_path):
    with pytest.raises(ConfigError, match="no store below") as caught:
        clean_store(str(tmp_path))
    assert str(tmp_path / ".store") in caught.value.why
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_removed_is_told(runs, monkeypatch):
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)  # as of files owned by somebody else
    with pytest.raises(ResourceError, match="cannot be removed") as caught:
        clean_store(str(runs))
    assert caught.value.where.endswith("emit-broken")


# ---------------------------------------------------------------- runs of a matrix, runs elsewhere, live runs


def finish_run(folder, *stages: tuple[str, str]) -> None:
    content = {"stages": [{"stage": stage, "key": key} for stage, key in stages]}
    files.write_bytes(str(folder / "results.json"), dump_json(content))


@pytest.mark.parametrize("below", ["matrix/combination", "a/b/c"])
def test_runs_at_any_depth_count(runs, below):
    finish_run(runs / below, ("emit", "unused"))
    clean_store(str(runs))
    assert stages(runs) == ["emit-first", "emit-second", "emit-unused", "read-shared"]
    with another_process(str(runs / below)) as holder:
        with pytest.raises(ResourceError, match="another run is writing to"):
            clean_store(str(runs))
        holder.communicate()


def test_links_below_the_runs_are_not_followed(runs, tmp_path):
    (runs / "loop").symlink_to(runs)
    finish_run(tmp_path / "elsewhere", ("emit", "unused"))
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    clean_store(str(runs))
    assert "emit-unused" not in stages(runs)


def test_runs_elsewhere_count_while_they_are_there(runs, tmp_path):
    store, out = str(runs / ".store"), tmp_path / "elsewhere" / "run"
    register(store, str(out))
    register(store, "s3://bucket/run", ["group-unfinished", "emit-broken"])
    finish_run(out, ("emit", "unused"))
    removed = clean_store(str(runs))
    assert [entry.name for entry in removed] == ["emit-broken", "group-unfinished"]
    shutil.rmtree(out)
    assert [entry.name for entry in clean_store(str(runs), dry_run=True)] == ["emit-unused"]
    assert len(os.listdir(runs / ".store" / "users")) == 2
    assert [entry.name for entry in clean_store(str(runs))] == ["emit-unused"]
    assert len(os.listdir(runs / ".store" / "users")) == 1


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b'{"out": 3}', b'{"out": "/x", "stages": [3]}', b"\xff"])
def test_damaged_records_of_users_are_dropped(runs, content):
    path = runs / ".store" / "users" / "a.json"
    files.write_bytes(str(path), content)
    os.mkfifo(path.parent / "b.json")
    clean_store(str(runs))
    assert stages(runs) == ["emit-first", "emit-second", "read-shared"]


def test_nothing_goes_while_a_run_elsewhere_uses_the_store(runs):
    with StoreLock(str(runs / ".store")), pytest.raises(ResourceError, match="a run is using the store"):
        clean_store(str(runs), everything=True)
    assert [name for name in stages(runs) if name != ".lock"] == ALL
    clean_store(str(runs))
    assert stages(runs) == ["emit-first", "emit-second", "read-shared"]


def test_a_stage_that_somebody_builds_stays(runs):
    told = []
    with another_process(str(runs / ".store" / "group-unfinished")) as holder:
        removed = clean_store(str(runs), tell=told.append)
        holder.communicate()
    assert [entry.name for entry in removed] == ["emit-broken", "emit-unused"]
    assert told == ["group-unfinished stays: somebody is building it"]
    assert [entry.name for entry in clean_store(str(runs))] == ["group-unfinished"]


def test_what_killed_runs_left_goes(runs):
    folder = str(runs / ".store" / "read-shared")
    write_receipt(folder, "rows", "a", Finished((), None))
    left = [".digests.json.other-host.1.0a1b2c3d.tmp", "users/.x.json.other-host.1.0a1b2c3d.tmp"]
    for name in left:
        files.write_bytes(str(runs / ".store" / name), b"half")
    removed = {entry.name: entry.why for entry in clean_store(str(runs))}
    assert removed["read-shared"] == "left over from a killed run"
    assert sorted(files.walk(folder)) == ["manifest.json", "x/p"]
    assert stages(runs) == ["emit-first", "emit-second", "read-shared"]


def test_what_is_not_a_stage_stays(runs):
    for name in ("My Documents", "notes", "backup.old", "notes-2"):
        files.write_bytes(str(runs / ".store" / name / "mine.txt"), b"mine")
    files.write_bytes(str(runs / ".store" / "read-me.txt"), b"mine")
    (runs / ".store" / "emit-link").symlink_to(runs / "first")
    clean_store(str(runs), everything=True)
    assert stages(runs) == ["My Documents", "backup.old", "notes", "notes-2", "read-me.txt"]
    assert (runs / "first" / "results.json").exists()


def test_a_store_given_by_its_path(runs, tmp_path):
    os.rename(runs / ".store", tmp_path / "artifacts")
    with pytest.raises(ConfigError, match="no store below") as caught:
        clean_store(str(runs))
    assert "--store" in caught.value.fix
    clean_store(str(runs), store=str(tmp_path / "artifacts"))
    assert sorted(os.listdir(tmp_path / "artifacts")) == ["emit-first", "emit-second", "read-shared"]
    clean_store(str(tmp_path / "no runs"), store=f"file://{tmp_path / 'artifacts'}")
    assert os.listdir(tmp_path / "artifacts") == []


def test_whole_runs_are_on_record(tmp_path):
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"))
    elsewhere = tmp_path / "elsewhere" / "run"
    run_pipeline(path)
    run_pipeline(path, f"out={elsewhere}", f"store={tmp_path / 'runs' / '.store'}", "group.size=5")
    assert clean_store(str(tmp_path / "runs")) == []
    shutil.rmtree(elsewhere)
    assert len(clean_store(str(tmp_path / "runs"))) == 2
