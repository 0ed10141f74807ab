"""Texts and ids of rows, from parts as tables leave them: one row per training row, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry
from xpipe.stages.report import work
from xpipe.stages.report.stage import _texts

ROWS = ["zero", "one\n  with   lines", None, "three", "long " * 200]


@pytest.fixture
def artifact(tmp_path):
    entries = []
    for split, first, last in (("test", 0, 1), ("train", 0, 2), ("train", 2, 5)):
        path = f"texts/split={split}/part-{len(entries):05d}.parquet"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": pa.array(ROWS[first:last], pa.string())}), tmp_path / path)
        entries.append(FileEntry(path, 1, "0" * 64, split=split, rows=last - first))
    return Artifact("texts", str(tmp_path), "", tuple(entries), {})


def test_texts_of_places_in_any_part(artifact):
    where = _texts({"texts": artifact}, "texts", "text")
    found = work._take_texts(where, np.array([1, 2, 3, 4]))
    assert found[1] == "one with lines"
    assert 2 not in found  # it has none
    assert found[3] == "three"
    assert found[4].startswith("long long")
    assert found[4].endswith("…")
    assert len(found[4]) == work.MOST_LETTERS + 1


def test_what_the_data_does_not_have_is_nothing(artifact):
    assert _texts({}, "texts", "text") is None
    assert work._take_texts(_texts({"texts": artifact}, "texts", "id"), np.array([0])) == {}
