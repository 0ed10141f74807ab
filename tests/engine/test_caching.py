"""What a run finds in the store: nothing is done twice, a change runs only what depends on it, damage is rebuilt."""

from __future__ import annotations

import shutil

import pytest

from tests.samples import bytes_below, digests, run_pipeline, write_pipeline
from xpipe import config
from xpipe.engine import decide


def test_the_second_run_is_cached(undisturbed):
    first, folder, path = undisturbed
    before = bytes_below(folder / "runs" / "sample")
    again = run_pipeline(path)
    assert [stage["status"] for stage in again["stages"]] == ["cached"] * 3
    assert digests(again) == digests(first)
    assert bytes_below(folder / "runs" / "sample") == before


def test_keys_do_not_depend_on_where_files_lie(tmp_path, undisturbed, data):
    moved = tmp_path / "elsewhere" / "copied"
    shutil.copytree(data, moved)
    assert digests(run_pipeline(write_pipeline(tmp_path, moved))) == digests(undisturbed[0])


def test_a_change_runs_only_what_depends_on_it(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    first = run_pipeline(path)
    plans = {d.step.stage.name: d for d in decide.plan(config.load(path, ["group.size=5"]))}
    assert plans["read"].cached
    assert plans["group"].why == "changed: size: 4 -> 5"
    assert plans["emit"].why == "group must run first"
    second = run_pipeline(path, "group.size=5")
    assert [stage["status"] for stage in second["stages"]] == ["cached", "ran", "ran"]
    assert digests(second)["emit"] != digests(first)["emit"]
    assert decide.plan(config.load(path))[1].cached  # the artifacts of size 4 are still there
    seeded = run_pipeline(path, "seed=1")
    assert [stage["status"] for stage in seeded["stages"]] == ["cached", "ran", "ran"]


def test_an_output_no_longer_asked_for_goes(tmp_path, data):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    run_pipeline(path, "emit.formats=[parquet]")
    assert sorted(entry.name for entry in (tmp_path / "runs" / "sample").iterdir()) == [
        ".lock",
        "heads",
        "results.json",
        "tree",
    ]


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "manifest"])
def test_a_damaged_artifact_is_rebuilt(tmp_path, undisturbed, data, harm, capsys):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    folder = next((tmp_path / "runs" / ".store").glob("read-*"))
    victim = folder / ("manifest.json" if harm == "manifest" else "features/split=train/part-00002.arrow")
    content = bytearray(victim.read_bytes())
    if harm == "remove":
        victim.unlink()
    elif harm == "flip":
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
    else:
        victim.write_bytes(content[: len(content) // 2])
    again = run_pipeline(path)
    assert again["stages"][0]["status"] == "ran"
    assert digests(again) == digests(undisturbed[0])
    warning = capsys.readouterr().err
    assert "stage read is damaged" in warning
    assert victim.name in warning


def test_a_damaged_dataset_in_the_run_folder_is_replaced(tmp_path, undisturbed, data):
    path = write_pipeline(tmp_path, data)
    run_pipeline(path)
    victim = tmp_path / "runs" / "sample" / "tree" / "rows" / "split=train" / "part-00000.parquet"
    victim.write_bytes(b"not what it was")
    run_pipeline(path)
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(undisturbed[1] / "runs" / "sample")
