"""`xpipe export mlflow` with the real MLflow and a store of its own; skipped where MLflow is not installed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.samples import bytes_below
from xpipe.cli.main import cli

mlflow = pytest.importorskip("mlflow")


def test_a_run_arrives_once_with_everything(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MLflow puts files
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    before = bytes_below(run)
    words = ["export", "mlflow", str(run), "--out", uri, "--largest", "1MiB"]
    first, second = (CliRunner().invoke(cli, words, catch_exceptions=False).output for _ in range(2))
    assert "sample: sent" in first
    assert "sample: was there already" in second
    client = mlflow.MlflowClient(tracking_uri=uri)
    (found,) = client.search_runs([client.get_experiment_by_name("sample").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "sample"
    assert found.data.params["emit.formats"] == '["parquet"]'
    assert found.data.metrics["emit.datasets.tree.rows.train"] == 80
    assert found.data.tags["xpipe.synthetic"] == "no"
    sent = {entry.path for entry in client.list_artifacts(found.info.run_id)}
    assert {"results.json", "tree", "heads"} <= sent
    card = client.download_artifacts(found.info.run_id, "tree/README.md", str(tmp_path))
    with open(card, "rb") as stream:
        assert stream.read() == (run / "tree" / "README.md").read_bytes()
    assert bytes_below(run) == before
