"""Runs the stages of a pipeline that are not in the store yet, publishes what they make, lays out the outputs, reports.

Holds no arithmetic and no format: stages do the work, the store keeps it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from xpipe.engine import places, registry, store
from xpipe.engine.cluster import Cluster, connect
from xpipe.engine.context import Context
from xpipe.engine.decide import Decision, absolute, check, decide
from xpipe.engine.export import close_journal, export, written
from xpipe.engine.locks import RunLock, StoreLock, sole_builder
from xpipe.engine.results import RESULTS, last_ingredients
from xpipe.engine.sources import Watched, changed
from xpipe.engine.stage import Produced
from xpipe.engine.store import Manifest, Store
from xpipe.engine.wiring import Step
from xpipe.errors import DataError
from xpipe.ground import files, machine
from xpipe.ground.checked_json import dump_json
from xpipe.ground.library_threads import while_executing


def run(pipeline: Any, progress: Any, backend: Any) -> dict:
    """Run a pipeline to its end; gives (and writes) results.json. The same call goes on where a stopped one was.

    Meanwhile the process's numerical libraries have one thread each; afterwards as many as before.
    """
    started = time.monotonic()
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
    ):
        registry.register(artifacts.path, out)
        if lock.left_behind:
            progress.note(
                f"the run before (process {lock.left_behind.get('pid')}) did not finish; going on where it stopped"
            )
        for folder in (out, artifacts.path, registry.folder_of(artifacts.path)):  # stages clear their own folders
            for name in filter(files.is_abandoned, files.listing(folder)):
                files.remove(files.join(folder, name))
        last = last_ingredients(out)
        made: dict[str, Manifest] = {}
        rows = []
        for step in steps:
            decision = decide(step, made, artifacts, pipeline.seed, last, backend)
            if decision.why.startswith("damaged"):
                progress.warn(f"stage {step.stage.name} is {decision.why}; building it again")
            record = _perform(step, decision, _Run(pipeline, artifacts, cluster, progress, backend))
            made[step.stage.name] = decision.manifest  # type: ignore[assignment]  # set by _perform
            rows.append(record)
        exports = [
            made[step.stage.name].artifacts[name]
            for step in steps
            for name in step.stage.exports
            if name in made[step.stage.name].artifacts
        ]
        outputs = export(exports, out, progress.warn)
        results = {
            "name": pipeline.name,
            "synthetic": any(manifest.summary.get("synthetic", False) for manifest in made.values()),
            "seed": pipeline.seed,
            "pipeline": pipeline.model_dump(mode="json", exclude_none=True),
            "stages": rows,
            "outputs": outputs,
            "written": [entry.to_json() for entry in written(exports)],
            "out": out,
            "store": artifacts.path,
            "backend": backend.summary(),
            "cluster": cluster.describe(),
            "versions": versions(),
            "seconds": round(time.monotonic() - started, 3),
            "peak_memory_main": machine.peak_bytes(),
        }
        files.write_bytes(files.join(out, RESULTS), dump_json(results))
        close_journal(out)
        registry.register(artifacts.path, out, [f"{row['stage']}-{row['key']}" for row in rows])
    return results


@dataclass(frozen=True)
class _Run:
    """What every stage of one run shares."""

    pipeline: Any
    artifacts: Store
    cluster: Cluster
    progress: Any
    backend: Any


def _perform(step: Step, decision: Decision, run: _Run) -> dict:
    """Make sure the step's manifest exists (in decision.manifest); gives its entry for results.json."""
    started = time.monotonic()
    name, artifacts = step.stage.name, run.artifacts
    record: dict = {"stage": name, "key": decision.key, "status": "cached", "why": decision.why}
    if decision.manifest is None:
        assert decision.key is not None  # every step before it is made
        with sole_builder(artifacts.folder(name, decision.key), run.progress.note):
            built = artifacts.find(name, decision.key)  # by another run, while we waited?
            if built is not None and not artifacts.damage(built):
                decision.manifest = built
            else:
                record |= _build(step, decision, run)
    else:
        artifacts.tidy(decision.manifest)
    assert decision.manifest is not None
    record["seconds"] = round(time.monotonic() - started, 3)
    record["ingredients"] = decision.manifest.ingredients
    record["summary"] = decision.manifest.summary
    record["digests"] = {artifact: a.digest for artifact, a in decision.manifest.artifacts.items()}
    return record


def _build(step: Step, decision: Decision, run: _Run) -> dict:
    """Run a stage and publish what it made; gives how it went."""
    name, key, ingredients = step.stage.name, decision.key, decision.ingredients
    artifacts, pipeline, progress = run.artifacts, run.pipeline, run.progress
    assert key is not None
    assert ingredients is not None
    folder = artifacts.begin(name, key)
    bar = progress.stage(name, unit=step.stage.counts)
    context = Context(
        name,
        step.params,
        pipeline.seed,
        decision.inputs,
        folder,
        run.cluster,
        pipeline.cluster,
        bar,
        progress.warn,
        progress.note,
        run.backend,
        decision.sources,
    )
    if pipeline.cluster.kind == "local":
        began = time.monotonic()
        step.stage.compile()
        if time.monotonic() - began > 2:
            progress.note(f"{name}: compiled its kernels in {time.monotonic() - began:.0f} s, once for this machine")
    machine.reset_peak()
    try:
        produced = _produce(step, context, progress)
    except (DataError, OSError):
        _look_again(step, decision, run)  # a file that changed explains better what was found in it
        raise
    _look_again(step, decision, run)
    decision.manifest = artifacts.publish(name, key, ingredients, produced.artifacts, produced.summary)
    bar.done()
    status = "resumed" if context.resumed else "ran"
    return {"status": status, "peak_memory": context.peak_bytes or machine.peak_bytes()}


def _produce(step: Step, context: Context[Any], progress: Any) -> Produced:
    """Run a stage; from the beginning where what an earlier run left is not what this stage leaves."""
    try:
        return step.stage.run(context)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if not context.resumed:
            raise
        progress.warn(f"stage {context.stage}: what a stopped run left cannot be used ({error!r}); beginning anew")
    files.remove(files.join(context.folder, store.RECEIPTS))
    context.resumed = 0
    return step.stage.run(context)


def _look_again(step: Step, decision: Decision, run: _Run) -> None:
    """Raises DataError where files from outside the store are no longer those whose digests are in the key.

    Units looked before and after they read; this covers what was read here, files that came or went, and files that
    were too young for their stamps to be believed.
    """
    assert decision.ingredients is not None
    if not decision.sources:
        return
    watched = Watched(run.artifacts)
    again = step.stage.identity(step.params, decision.inputs, watched)
    if again == decision.ingredients["params"]:
        return
    assert decision.key is not None
    files.remove(files.join(run.artifacts.folder(step.stage.name, decision.key), store.RECEIPTS))
    now = {source.path: source.sha256 for source in watched.sources}
    other = [source.path for source in decision.sources if now.get(source.path) != source.sha256]
    raise changed(other[0] if other else files.parent(decision.sources[0].path))


def versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    from xpipe import __version__

    names = ("numpy", "scipy", "numba", "pyarrow", "dask", "distributed")
    return {"xpipe": __version__, "python": platform.python_version()} | {
        name: metadata.version(name) for name in names
    }
