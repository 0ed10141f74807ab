"""Performs one step of a run: takes it from the store, or runs its stage and publishes what the stage made.

Knows no particular stage, and nothing of the steps before and after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from xpipe.engine.cluster import Cluster, Preparation
from xpipe.engine.cluster.calls import nothing_to_compile
from xpipe.engine.compilation import Compilation, kernels_of
from xpipe.engine.context import Context
from xpipe.engine.decide import Decision
from xpipe.engine.locks import sole_builder
from xpipe.engine.manifest import Cost, Manifest
from xpipe.engine.pipeline import Pipeline
from xpipe.engine.progress import Bar, Progress
from xpipe.engine.receipts import RECEIPTS
from xpipe.engine.sources import Watched, changed
from xpipe.engine.store import Store
from xpipe.engine.wiring import Step
from xpipe.errors import DataError
from xpipe.ground import files, machine
from xpipe.ground.backend import Backend
from xpipe.ground.compile_time import compile_time
from xpipe.ground.quantities import format_seconds

SLOW_COMPILATION = 2.0  # seconds; a compilation that takes longer is mentioned


@dataclass(frozen=True)
class Run:
    """What every stage of one run shares. started: the time of the run's start, of `time.monotonic`."""

    pipeline: Pipeline
    artifacts: Store
    cluster: Cluster
    progress: Progress
    backend: Backend
    out: str
    started: float
    compilation: Compilation


def perform(step: Step, decision: Decision, run: Run) -> tuple[Manifest, dict[str, Any]]:
    """The manifest of a step, which is built unless it is in the store, and its entry in results.json."""
    started = time.monotonic()
    name, artifacts, manifest = step.stage.name, run.artifacts, decision.manifest
    record: dict[str, Any] = {"stage": name, "key": decision.key, "status": "cached", "why": decision.why}
    if manifest is not None:
        artifacts.tidy(manifest)
    else:
        assert decision.key is not None  # all steps before it are made
        with sole_builder(artifacts.folder(name, decision.key), run.progress.note):
            manifest = artifacts.find(name, decision.key)  # another run may have built it while this one waited
            if manifest is None or artifacts.damage(manifest):
                manifest, how = _build(step, decision, run)
                record |= how
    record["seconds"] = round(time.monotonic() - started - record.get("compile_seconds", 0.0), 3)
    if manifest.cost is not None:
        record["cost"] = manifest.cost  # of a cached stage: when it was made
    record["ingredients"] = manifest.ingredients
    record["summary"] = manifest.summary
    record["digests"] = {artifact: a.digest for artifact, a in manifest.artifacts.items()}
    return manifest, record


def _build(step: Step, decision: Decision, run: Run) -> tuple[Manifest, dict[str, Any]]:
    """Run a stage and publish what it made. Returns the manifest, and what results.json says of how it went."""
    name, key, ingredients = step.stage.name, decision.key, decision.ingredients
    artifacts, pipeline, progress = run.artifacts, run.pipeline, run.progress
    assert key is not None
    assert ingredients is not None
    folder = artifacts.begin(name, key)
    bar = progress.stage(name, unit=step.stage.counts)
    context: Context[Any] = Context(
        stage=name,
        params=step.params,
        seed=pipeline.seed,
        inputs=decision.inputs,
        folder=folder,
        cluster=run.cluster,
        cluster_params=pipeline.cluster,
        bar=bar,
        warn=progress.warn,
        note=progress.note,
        backend=run.backend,
        sources=decision.sources,
    )
    compiling = _compile(step, run, bar)
    run.cluster.prepare(Preparation(name, step.stage.compile or nothing_to_compile, step.stage.releases()))
    machine.reset_peak()
    began = time.monotonic()
    try:
        with compile_time() as compiled:  # what this process compiles on first use
            produced = step.stage.run(context)
    except (DataError, OSError):
        _check_sources(step, decision, run)  # if an input file has changed, that explains the failure better
        raise
    _check_sources(step, decision, run)
    peak = context.peak_bytes or machine.peak_bytes()
    cost = Cost(seconds=round(time.monotonic() - began - sum(compiled), 3), peak_memory=peak, steps=context.steps)
    compiling += sum(compiled)
    manifest = artifacts.publish(name, key, ingredients, produced.artifacts, produced.summary, cost)
    slow = compiling > SLOW_COMPILATION
    bar.done(f"{format_seconds(compiling)} of it to compile kernels, once for this machine" if slow else "")
    how = {"status": "resumed" if context.resumed else "ran", "peak_memory": peak}
    return manifest, how | {"compile_seconds": round(compiling, 3)}


def _compile(step: Step, run: Run, bar: Bar) -> float:
    """Wait until the kernels of a stage are compiled, where local workers would all compile them at once.

    Returns the seconds. Elsewhere kernels are compiled on first use: this process alone needs no more than it uses.
    """
    kernels = kernels_of(step)
    if kernels is None or run.pipeline.cluster.kind != "local" or run.compilation.is_ready(kernels):
        return 0.0
    began = time.monotonic()
    bar.begin("compiling its kernels")
    run.compilation.wait_for(kernels)
    return time.monotonic() - began


def _check_sources(step: Step, decision: Decision, run: Run) -> None:
    """Raise DataError if the input files are no longer those whose digests are in the key.

    Units check the files before and after they read them. This check covers what was read in this process, files that
    were added or removed, and files that were too new for their stamps to prove anything.
    """
    assert decision.ingredients is not None
    if not decision.sources:
        return
    watched = Watched(run.artifacts)
    again = step.stage.identity(step.params, decision.inputs, watched)
    if again == decision.ingredients["params"]:
        return
    assert decision.key is not None
    files.remove(files.join(run.artifacts.folder(step.stage.name, decision.key), RECEIPTS))
    now = {source.path: source.sha256 for source in watched.sources}
    other = [source.path for source in decision.sources if now.get(source.path) != source.sha256]
    raise changed(other[0] if other else files.parent(decision.sources[0].path))
