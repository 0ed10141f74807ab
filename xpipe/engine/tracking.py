"""A finished run as trackers of experiments know it: params, metrics, artifacts. Reads results.json; writes nothing.

Nothing here runs while a pipeline runs, and nothing is written into the folder of a run.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xpipe.engine.results import RESULTS, TABLE, path_of, read_results, shown
from xpipe.errors import DataError
from xpipe.ground import files

PLACES = ("out", "store", "matrix")  # keys of a pipeline that say where, not what
HEADER = ("run", "kind", "name", "value")


@dataclass(frozen=True)
class TrackedRun:
    """One finished run.

    Attributes
    ----------
    name, folder : str
        The name of the pipeline, with that of the combination in a matrix; and the folder of the run.
    digest : str
        SHA-256 of results.json: the same run has the same digest.
    params : dict
        What was chosen, as text: keys of the pipeline file with dots between them, the seed, releases of packages.
    metrics : dict
        What was measured: `MODEL.METRIC_at_K` of models; `STAGE.NAME` of other summaries; seconds and memory of stages.
    tags : dict
        What the run is, as text: synthetic or not, the key of every stage.
    artifacts : dict
        Path below the folder -> (bytes, SHA-256) of every file that the run wrote.
    """

    name: str
    folder: str
    digest: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    artifacts: dict[str, tuple[int, str]]


def tracked_runs(folder: str) -> list[TrackedRun]:
    """The run in a folder, or all runs of a matrix. Raises DataError where there is none, or one is damaged."""
    if files.exists(path_of(folder)):
        return [track(folder)]
    below = [files.join(folder, name) for name in files.listing(folder)]
    found = [track(each, files.basename(each)) for each in below if files.exists(path_of(each))]
    if not found:
        raise DataError(
            "no finished run", where=folder, why=f"{TABLE} is there, but no run below it", fix="xpipe run ..."
        )
    return found


def track(folder: str, combination: str | None = None) -> TrackedRun:
    """A finished run. combination: its name in a matrix."""
    results = read_results(folder)
    with shown(path_of(folder)):
        name = results["name"] if combination is None else f"{results['name']}/{combination}"
        return TrackedRun(
            name=name,
            folder=folder,
            digest=files.sha256(path_of(folder)),
            params=params_of(results),
            metrics=dict(metrics_of(results)),
            tags=_tags(results),
            artifacts={entry["path"]: (entry["bytes"], entry["sha256"]) for entry in results.get("written", ())},
        )


def params_of(results: Mapping[str, Any]) -> dict[str, str]:
    """What was chosen. Lists are JSON."""
    pipeline = {key: value for key, value in results["pipeline"].items() if key not in PLACES}
    versions = {f"version.{name}": value for name, value in results["versions"].items()}
    return {**{key: _text(value) for key, value in leaves(pipeline)}, **versions, "backend": results["backend"]["name"]}


def metrics_of(results: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, value) of every number that was measured."""
    for stage in results["stages"]:
        summary = dict(stage["summary"])
        if stage["stage"] == "evaluate":
            for model in summary.pop("models", ()):
                yield from _model_metrics(model)
        for name, value in leaves(summary, stage["stage"]):
            yield from _numbers(name, value, "_")
        cost = stage.get("cost", stage)
        for name in ("seconds", "peak_memory"):
            yield from _numbers(f"{name}.{stage['stage']}", cost.get(name), "_")
    yield "seconds", float(results["seconds"])


def _model_metrics(model: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Metrics of one model; those that are lists have one value per rank."""
    for name, value in leaves({key: value for key, value in model.items() if key != "name"}, str(model["name"])):
        yield from _numbers(name, value, "_at_")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(names with dots between them, value) of everything inside maps, and inside lists of maps that have a name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) and "name" in each for each in value):
        for each in value:
            yield from leaves({key: inner for key, inner in each.items() if key != "name"}, f"{path}.{each['name']}")
    else:
        yield path, value


def _numbers(name: str, value: Any, between: str) -> Iterator[tuple[str, float]]:
    """The number, or the numbers of a list with their places from 1 on; nothing for anything else."""
    if isinstance(value, list):
        for place, each in enumerate(value, 1):
            if isinstance(each, int | float) and not isinstance(each, bool):
                yield f"{name}{between}{place}", float(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _tags(results: Mapping[str, Any]) -> dict[str, str]:
    """What the run is. SYNTHETIC must not be lost on the way."""
    keys = {f"xpipe.key.{stage['stage']}": stage["key"] for stage in results["stages"]}
    return {"xpipe.synthetic": "SYNTHETIC" if results["synthetic"] else "no", **keys}


def runs_as_csv(runs: list[TrackedRun]) -> str:
    """One line per param, metric, tag and artifact: run, kind, name, value. The value of an artifact is its SHA-256."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEADER)
    for run in runs:
        writer.writerows((run.name, "param", name, value) for name, value in run.params.items())
        writer.writerows((run.name, "metric", name, repr(value)) for name, value in run.metrics.items())
        writer.writerows((run.name, "tag", name, value) for name, value in run.tags.items())
        writer.writerows((run.name, "artifact", name, sha256) for name, (_, sha256) in run.artifacts.items())
    return stream.getvalue()


def artifact_paths(run: TrackedRun, largest: int) -> list[str]:
    """Files to send: results.json, and what the run wrote, up to `largest` bytes each."""
    small = [path for path, (size, _) in run.artifacts.items() if size <= largest and path != RESULTS]
    return [RESULTS, *sorted(path for path in small if files.exists(files.join(run.folder, path)))]
