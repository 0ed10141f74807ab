"""Runs a pipeline: performs its steps in order, lays out the outputs, and writes results.json.

Holds no arithmetic and no format: stages do the work, the store keeps it. `perform` runs a single step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from xpipe.engine import places, registry
from xpipe.engine.cluster import connect
from xpipe.engine.compilation import Compilation, kernels_of
from xpipe.engine.conclude import conclude
from xpipe.engine.decide import check, decide, replaced
from xpipe.engine.export import export, written
from xpipe.engine.locks import RunLock, StoreLock
from xpipe.engine.manifest import Manifest
from xpipe.engine.paths import absolute
from xpipe.engine.perform import Run, perform
from xpipe.engine.pipeline import Pipeline
from xpipe.engine.progress import Progress
from xpipe.engine.results import FORMAT, RESULTS, last_ingredients
from xpipe.engine.run_record import close_journal
from xpipe.engine.store import Store
from xpipe.engine.wiring import Step
from xpipe.ground import files, machine
from xpipe.ground.backend import Backend
from xpipe.ground.checked_json import dump_json
from xpipe.ground.library_threads import while_executing
from xpipe.ground.quantities import timestamp
from xpipe.ground.temporary_names import is_abandoned


def run(pipeline: Pipeline, progress: Progress, backend: Backend, *, concluding: bool = True) -> dict[str, Any]:
    """Run a pipeline to its end. The same call resumes a run that was stopped.

    While it runs, the numerical libraries of this process have one thread each. Afterwards they have as many as before.

    Parameters
    ----------
    pipeline : Pipeline
        A checked pipeline, as `xpipe.config.load` returns it.
    progress : Progress
        Shows the progress, notes and warnings, such as `xpipe.cli.progress.Progress`.
    backend : Backend
        The backend, as `xpipe.ground.backend.choose` returns it.
    concluding : bool
        Whether to write what tells of the whole run, such as its report. A sweep has one for all its runs.

    Returns
    -------
    dict
        The content of results.json, which is written to the run's folder.

    Raises
    ------
    ConfigError
        If the pipeline is bound to fail.
    DataError, StageError, ResourceError
        If a stage fails. Finished units of work are kept.

    Examples
    --------
    >>> from pathlib import Path
    >>> from xpipe import config, engine
    >>> from xpipe.cli.progress import Progress
    >>> from xpipe.ground.backend import choose
    >>> _ = Path("run.yaml").write_text("{name: example, cluster: none, data: {name: tiny, if_missing: synthesize}}")
    >>> with Progress(mode="quiet") as progress:
    ...     results = engine.run(config.load("run.yaml", ["out=example/run"]), progress, choose("cpu"))
    >>> [(stage["stage"], stage["status"]) for stage in results["stages"]]
    [('synth', 'ran'), ('read', 'ran'), ('report', 'ran')]
    """
    started, began = time.monotonic(), timestamp()
    steps = check(pipeline)
    out = absolute(pipeline.out)
    artifacts = Store(absolute(pipeline.store))
    for folder in (out, artifacts.path):
        places.try_folder(folder)
    with (
        while_executing(),
        RunLock(out) as lock,
        StoreLock(artifacts.path, note=progress.note),
        contextlib.closing(connect(pipeline.cluster, progress)) as cluster,
        Compilation([kernels for step in steps if (kernels := kernels_of(step))]) as compilation,
    ):
        registry.register(artifacts.path, out)
        if lock.left_behind:
            progress.note(
                f"the run before (process {lock.left_behind.get('pid')}) did not finish; going on where it stopped"
            )
        if lost := replaced(pipeline):
            progress.note(lost)
        remove_abandoned(out, artifacts.path, registry.folder_of(artifacts.path))  # stages clear their own folders
        shared = Run(pipeline, artifacts, cluster, progress, backend, out, started, compilation)
        made, rows = _perform_all(steps, shared, last_ingredients(out))
        results = {"started": began, **_export_all(steps, made, rows, shared)}
        if concluding:
            conclude(steps, results, progress.warn)
        results |= {"seconds": round(time.monotonic() - started, 3), "finished": timestamp()}
        files.write_bytes(files.join(out, RESULTS), dump_json(results))
        close_journal(out)
        registry.register(artifacts.path, out, [f"{row['stage']}-{row['key']}" for row in rows])
    return results


def remove_abandoned(*folders: str) -> None:
    """Remove temporary files that dead processes left in these folders."""
    for folder in folders:
        for name in filter(is_abandoned, files.listing(folder)):
            files.remove(files.join(folder, name))


def _perform_all(
    steps: Sequence[Step], run: Run, last: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Manifest], list[dict[str, Any]]]:
    """Perform all steps. Returns the manifest of each stage by name, and the entries of results.json.

    last: what each stage of the run before was made of.
    """
    made: dict[str, Manifest] = {}
    rows = []
    for step in steps:
        decision = decide(step, made, run.artifacts, run.pipeline.seed, last, run.backend)
        if decision.why.startswith("damaged"):
            run.progress.warn(f"stage {step.stage.name} is {decision.why}; building it again")
        manifest, record = perform(step, decision, run)
        made[step.stage.name] = manifest
        rows.append(record)
    return made, rows


def _export_all(
    steps: Sequence[Step], made: Mapping[str, Manifest], rows: list[dict[str, Any]], run: Run
) -> dict[str, Any]:
    """Lay out the outputs of all steps in the run's folder. Returns the content of results.json."""
    exports = [
        made[step.stage.name].artifacts[name]
        for step in steps
        for name in step.stage.exports
        if name in made[step.stage.name].artifacts
    ]
    return {
        "format": FORMAT,
        "name": run.pipeline.name,
        "synthetic": any(manifest.summary.get("synthetic", False) for manifest in made.values()),
        "seed": run.pipeline.seed,
        **_trust(made),
        "pipeline": run.pipeline.to_json(),
        "stages": rows,
        "outputs": export(exports, run.out, run.progress.warn),
        "written": [entry.to_json() for entry in written(exports)],
        "out": run.out,
        "store": run.artifacts.path,
        "backend": run.backend.summary(),
        "cluster": run.cluster.describe(),
        "versions": versions(),
        "peak_memory_main": machine.peak_bytes(),
    }


def _trust(made: Mapping[str, Manifest]) -> dict[str, Any]:
    """The key `trust` of results.json: what the stage that assigned labels says of them; {} where none did."""
    found = [manifest.summary["trust"] for manifest in made.values() if "trust" in manifest.summary]
    return {"trust": found[-1]} if found else {}


def versions() -> dict[str, str]:
    """The releases of xpipe, Python and the libraries that compute."""
    import platform
    from importlib import metadata

    from xpipe.ground.release import __version__

    names = ("numpy", "scipy", "numba", "pyarrow", "dask", "distributed")
    return {"xpipe": __version__, "python": platform.python_version()} | {
        name: metadata.version(name) for name in names
    }
