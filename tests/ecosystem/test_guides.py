"""The guides that speak of other tools: every block runs where these tools are installed (`make test-ecosystem`)."""

from __future__ import annotations

import pytest

from tests.docs.reader import TOP, Reader, is_missing
from tests.markdown import blocks_of
from tests.samples import run_pipeline, write_dataset, write_pipeline


@pytest.mark.parametrize("guide", ["datasets", "tracking"])
def test_every_block_runs(guide, tmp_path, monkeypatch):
    page = TOP / "docs" / "guides" / f"{guide}.md"
    pytest.importorskip("datasets")  # elsewhere tests/docs runs the blocks that need nothing
    monkeypatch.chdir(tmp_path)
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data" / "mine", n_train=80, n_test=20))
    run_pipeline(path, "name=eurlex", "group=null", "emit.formats=[parquet]", f"out={tmp_path}/runs/eurlex")
    reader = Reader(page, tmp_path, {})
    blocks = blocks_of(page)
    assert {word for block in blocks if is_missing(block) for word in block.words} <= {"needs", "torch"}
    for block in blocks:
        reader.follow(block)
