"""Cleaning: what runs use stays, the rest goes, and nothing goes under a run that is going on."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.test_store import another_process, put
from xpipe import files
from xpipe.cleaning import clean_store
from xpipe.errors import ConfigError, ResourceError
from xpipe.store import Store, dump_json, write_receipt


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
    write_receipt(folder, "rows", "a", [put(folder, "x/p", b"123")], {})
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
