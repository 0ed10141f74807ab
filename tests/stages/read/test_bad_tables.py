"""Bad tables: each is refused with what is wrong, the file, the row and the column; none becomes a matrix."""

from __future__ import annotations

import json

import pytest

from tests.samples import run_pipeline
from tests.stages.read.bad_tables import BAD_TABLES, BRANDS, BY_GROUP, GOOD, GOOD_SETTINGS, Bad
from xpipe.errors import ConfigError, DataError


def run_table(folder, files, settings):
    """Run stage read on tables."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = {key: value for key, value in {**GOOD_SETTINGS, **settings}.items() if value is not None}
    pipeline = folder / "page.yaml"
    pipeline.write_text(f"name: bad\ndata: {json.dumps(data)}\ncluster: none\nbackend: cpu\n")
    return run_pipeline(pipeline)


def test_there_are_sixty_of_them():
    assert len({bad.name for bad in BAD_TABLES}) == len(BAD_TABLES) >= 60


@pytest.mark.parametrize("bad", BAD_TABLES, ids=lambda bad: bad.name)
def test_a_bad_table_is_refused(bad: Bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DataError)) as refused:
        run_table(tmp_path, bad.files, bad.settings)
    told = str(refused.value)
    assert [part for part in bad.said if part not in told] == [], told
    assert not list(tmp_path.glob("runs/.store/read-*/manifest.json"))


@pytest.mark.parametrize("settings", [{}, BY_GROUP], ids=["labels", "group labels"])
def test_the_table_they_differ_from_is_read(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = run_table(tmp_path, {"items.csv": GOOD, "brands.csv": BRANDS}, settings)
    assert results["stages"][0]["summary"]["n_labels"] == 3
