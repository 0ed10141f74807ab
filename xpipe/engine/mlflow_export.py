"""Finished runs to MLflow: one MLflow run each, with params, metrics, tags and files. Holds no reading of runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from xpipe.engine.tracking import TrackedRun, artifact_paths
from xpipe.errors import ConfigError
from xpipe.ground import files

RUN_TAG = "xpipe.run"  # the digest of a run: what was sent once is not sent again
MOST_PARAMS, MOST_METRICS, LONGEST_VALUE = 100, 1000, 6000  # what MLflow takes at once
T = TypeVar("T")


def send_to_mlflow(
    runs: Sequence[TrackedRun], uri: str | None, experiment: str, largest: int
) -> list[tuple[str, bool]]:
    """Send runs to a tracking server or store.

    Parameters
    ----------
    runs : sequence of TrackedRun
        Finished runs.
    uri : str, optional
        The tracking URI, such as sqlite:///mlflow.db or http://host:5000; None: that of MLflow itself.
    experiment : str
        The name of the experiment; it is made where it is missing.
    largest : int
        Larger files, in bytes, are not sent; their digests are in results.json.

    Returns
    -------
    list of (str, bool)
        The id of each MLflow run, and whether it is new.

    Raises
    ------
    ConfigError
        Where MLflow is not installed.
    """
    client = _client(uri)
    found = client.get_experiment_by_name(experiment)
    experiment_id = client.create_experiment(experiment) if found is None else found.experiment_id
    return [_send(client, experiment_id, run, largest) for run in runs]


def _client(uri: str | None) -> Any:
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise ConfigError(
            "MLflow is not installed",
            why=str(error),
            fix="pip install mlflow, or without it: xpipe export RUN --to csv",
        ) from error
    return MlflowClient(tracking_uri=uri)


def _send(client: Any, experiment_id: str, run: TrackedRun, largest: int) -> tuple[str, bool]:
    """Send one run, unless it is there already. The run counts as finished only when all of it is there."""
    from mlflow.entities import Metric, Param, RunTag

    sent = client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{run.digest}' and attributes.status = 'FINISHED'")
    if sent:
        return str(sent[0].info.run_id), False
    now = int(time.time() * 1000)
    tags = {RUN_TAG: run.digest, **run.tags}
    run_id = client.create_run(experiment_id, run_name=run.name).info.run_id
    params = [Param(allowed(name), value[:LONGEST_VALUE]) for name, value in run.params.items()]
    metrics = [Metric(allowed(name), value, now, 0) for name, value in run.metrics.items()]
    for some in chunks(params, MOST_PARAMS):
        client.log_batch(run_id, params=some)
    for some_metrics in chunks(metrics, MOST_METRICS):
        client.log_batch(run_id, metrics=some_metrics)
    for some_tags in chunks([RunTag(name, value) for name, value in tags.items()], MOST_PARAMS):
        client.log_batch(run_id, tags=some_tags)
    for path in artifact_paths(run, largest):
        below = files.parent(path)
        client.log_artifact(run_id, files.join(run.folder, path), None if below == "." else below)
    client.set_terminated(run_id)
    return str(run_id), True


def allowed(name: str) -> str:
    """A name with characters that MLflow allows."""
    return re.sub(r"[^\w.\- /]", "_", name)


def chunks(items: list[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items."""
    yield from (items[start : start + size] for start in range(0, len(items), size))
