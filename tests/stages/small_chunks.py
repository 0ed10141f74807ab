"""Pipelines with small chunks of labels: even a few rows then have several chunks. Holds no assertions."""

from __future__ import annotations

from tests.samples import run_pipeline, write_pipeline

SMALL_CHUNK = 3000  # for `label_chunks.CHUNK_ENTRIES`; the chunks never change the bytes


def run_assign(tmp_path, data, method, *overrides, cluster="none"):
    """Run a pipeline with this method of assignment; gives its results."""
    path = write_pipeline(tmp_path, data, cluster=cluster)
    return run_pipeline(path, f"assign.method={method}", "emit.formats=[parquet]", *overrides)
