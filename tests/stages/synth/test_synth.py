"""Stage synth: the stand-in of the library, made in pieces."""

from __future__ import annotations

from tests.samples import bytes_below, run_pipeline, write_pipeline
from xpipe.synth import synthesize

MISSING = ("data.name=tiny", "data.dir=none", "data.if_missing=synthesize", "data.part_rows=300")


def test_the_stage_writes_the_stand_in_of_the_library(tmp_path):
    path = write_pipeline(tmp_path, tmp_path / "none")
    results = run_pipeline(path, *MISSING)
    made = next(stage for stage in results["stages"] if stage["stage"] == "synth")
    assert made["summary"]["synthetic"]
    assert made["summary"]["rows"] == 800
    (source,) = (tmp_path / "runs" / ".store").glob("synth-*/source")
    synthesize("tiny", tmp_path / "own", seed=results["seed"])
    assert bytes_below(source) == bytes_below(tmp_path / "own")
